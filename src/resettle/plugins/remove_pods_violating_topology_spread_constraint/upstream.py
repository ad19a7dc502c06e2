"""RemovePodsViolatingTopologySpreadConstraint with upstream's semantics: one rule after the other.

Follows balanceDomains of kubernetes-sigs/descheduler. Which pods count and which may leave is
decided for each namespace; sizes change as if every chosen pod had moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import NamedTuple

from resettle.framework.draft import Draft
from resettle.framework.view import View
from resettle.model.constraints import NodeTerm, SpreadConstraint, Toleration
from resettle.model.node_index import NodeSet
from resettle.model.pod import Pod, Template
from resettle.model.selectors import Requirement, Selector
from resettle.policy.args import SelectingArgs


class UpstreamRule(NamedTuple):
    """A constraint as some pods state it, with what those pods accept of nodes."""

    max_skew: int
    topology_key: str
    selector: Selector
    node_selector: tuple[tuple[str, str], ...] | None
    terms: tuple[NodeTerm, ...] | None
    pinned_to: str
    honours_affinity: bool
    tolerations: tuple[Toleration, ...] | None
    """None where taints do not matter."""


def rule_of(constraint: SpreadConstraint, selector: Selector, pod: Pod) -> UpstreamRule:
    """The rule that the pod states with this constraint."""
    labels, spec = pod.labels, pod.spec
    same = tuple(
        Requirement(key, "In", (labels[key],))
        for key in constraint.match_label_keys
        if key in labels
    )
    honoured = constraint.node_affinity_policy == "Honor"
    pinned = honoured and spec.pinned
    return UpstreamRule(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector.narrow(same),
        node_selector=spec.node_selector if honoured else None,
        terms=spec.required_terms if honoured else None,
        pinned_to=pod.node if pinned else "",
        honours_affinity=honoured,
        tolerations=spec.tolerations if constraint.node_taints_policy == "Honor" else None,
    )


class NamespacePods:
    """The pods that count in one namespace: selected, unfinished, in scope, evictable."""

    def __init__(self, namespace: str, args: SelectingArgs, view: View, draft: Draft) -> None:
        self._namespace = namespace
        self._args = args
        self._view = view
        self._draft = draft
        self._free: dict[Template, list[Pod]] = {}

    def free(self, template: Template) -> list[Pod]:
        """Pods of the template that count."""
        pods = self._free.get(template)
        if pods is None:
            view, draft = self._view, self._draft
            scope = view.names_in_scope
            if draft.semantics.spread_sees_only_evictable:
                active = list(
                    filter(draft.may_leave, view.active_of_selected(self._args, template))
                )
            else:
                active = view.active_of(template)
            pods = [pod for pod in draft.presort(active) if pod.node in scope]
            self._free[template] = pods
        return pods

    def may_go(self, pod: Pod, rule: UpstreamRule) -> bool:
        """Whether the pod, which counts, may also be sent away for the rule."""
        semantics = self._draft.semantics
        if not semantics.spread_sees_only_evictable and not (
            pod.template in self._view.templates_selected_by(self._args)
            and self._draft.may_leave(pod)
        ):
            return False
        return semantics.spread_moves_strangers or any(
            rule_of(constraint, constraint.selector, pod) == rule
            for constraint in pod.spec.spread
            if constraint.selector is not None
        )

    def rules(self, actions: tuple[str, ...]) -> Iterator[tuple[UpstreamRule, Pod]]:
        """Each distinct rule its pods state, with a pod that states it."""
        known: set[UpstreamRule] = set()
        for template in self._view.pod_index.namespaces[self._namespace]:
            for constraint in template.spec.spread:
                if constraint.when_unsatisfiable not in actions or constraint.selector is None:
                    continue
                # Pods of one template state one rule, unless each is pinned to its own node.
                for pod in self.free(template):
                    rule = rule_of(constraint, constraint.selector, pod)
                    if rule not in known:
                        known.add(rule)
                        yield rule, pod
                    if not rule.pinned_to:
                        break

    def matching(self, selector: Selector) -> Iterator[Pod]:
        """Its pods that a selector selects and that are not on their way out."""
        for template in self._view.pod_index.templates_matching(self._namespace, selector):
            for pod in self.free(template):
                if not self._draft.is_terminating(pod):
                    yield pod


class Chooser:
    """Chooses the pods to evict for one rule, as upstream's balanceDomains does.

    Domains without pods are many where each node is one, and all alike: they are only counted.
    """

    def __init__(self, rule: UpstreamRule, stated_by: Pod, view: View, pool: NamespacePods) -> None:
        self._rule = rule
        self._view = view
        self._pool = pool
        self._fits: dict[Pod, bool] = {}
        self._receivers: NodeSet = 0
        self._sizes: dict[str, int] = {}
        self._smallest = 0
        node_index = view.node_index
        self._included: NodeSet = view.in_scope
        if rule.honours_affinity:
            self._included &= node_index.matching_node_affinity(
                stated_by.spec.demand, stated_by.node
            )
        if rule.tolerations is not None:
            self._included &= node_index.tolerated_by(rule.tolerations)

    def leaving(self, pods: Iterable[Pod], *, must_fit: bool) -> list[Pod]:
        """Pods whose leaving would even the domains out."""
        skew, key = self._rule.max_skew, self._rule.topology_key
        by_domain = self._domains(pods)
        offered = self._view.node_index.values_within(key, self._included)
        empty = len(offered) - sum(1 for value in by_domain if value in offered)
        domains = sorted(by_domain.values(), key=len)
        smallest = 0 if empty or not domains else len(domains[0])
        if not domains or len(domains[-1]) - smallest <= skew:
            return []
        self._sizes = {value: len(pods) for value, pods in by_domain.items()}
        self._smallest = smallest
        ideal = sum(map(len, domains)) / (len(domains) + empty)
        self._receivers = self._below(by_domain, ideal)
        chosen: list[Pod] = []
        low, high = 0, empty + len(domains) - 1
        giver = sorted(domains[-1], key=self._reluctance)
        taken = 0 if empty else len(domains[0])
        touched = False
        while low < high:
            if len(giver) <= ideal:
                high -= 1
                giver = sorted(domains[high - empty], key=self._reluctance) if high >= empty else []
                if len(giver) <= ideal:
                    break
            count = moves_between(len(giver), taken, ideal, skew)
            if count <= 0 and not touched:
                break
            if count <= 0:
                low, touched = low + 1, False
                taken = 0 if low < empty else len(domains[low - empty])
                continue
            giver.sort(key=lambda pod: (self._may_go(pod), self._fits_a_receiver(pod)))
            chosen += (
                pod
                for pod in giver[-count:]
                if self._may_go(pod) and (not must_fit or self._fits_a_receiver(pod))
            )
            # Sizes change as if all had moved, so that the loop ends.
            del giver[-count:]
            taken, touched = taken + count, True
        return chosen

    def why(self, pod: Pod) -> str:
        """Why a pod that `leaving` chose should go, with the counts before any move."""
        key = self._rule.topology_key
        value = self._view.node_index.values_of(key)[pod.node]
        return (
            f"{key} {value} has {self._sizes[value]} matching pods, the emptiest {self._smallest}"
            f" (maxSkew {self._rule.max_skew})"
        )

    def describe_skew(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, str | None]]:
        """Each pod with the skew of its domain in words; None if it is above `maxSkew`."""
        skew, key = self._rule.max_skew, self._rule.topology_key
        pods = list(pods)
        domains = self._domains(pods)
        offered = self._view.node_index.values_within(key, self._included)
        sizes = [len(domains.get(value, ())) for value in offered | domains.keys()]
        for value, members in domains.items():
            more = len(members) - min(sizes)
            says = (
                f"such pods in its {key} ({value}): {len(members)}, fewest anywhere: {min(sizes)}"
            )
            for pod in members:
                yield pod, f"{says}, `maxSkew` is {skew}" if more <= skew else None
        values = self._view.node_index.values_of(key)
        for pod in pods:
            if pod.node not in values:
                yield pod, f"{pod.node} has no label {key}, so the constraint does not count it"

    def _domains(self, pods: Iterable[Pod]) -> dict[str, list[Pod]]:
        values = self._view.node_index.values_of(self._rule.topology_key)
        by_domain: dict[str, list[Pod]] = {}
        for pod in pods:
            value = values.get(pod.node)
            if value is not None:
                by_domain.setdefault(value, []).append(pod)
        return dict(sorted(by_domain.items()))

    def _below(self, by_domain: dict[str, list[Pod]], ideal: float) -> NodeSet:
        """Nodes that count for the rule and whose domain has fewer pods than the average."""
        node_index, key = self._view.node_index, self._rule.topology_key
        nodes = node_index.with_label(key) & self._included
        for value, pods in by_domain.items():
            if len(pods) >= ideal:
                nodes &= ~node_index.domains(key)[value]
        return nodes

    def _reluctance(self, pod: Pod) -> tuple[bool, bool, int]:
        return reluctance(pod, self._view.semantics.important_pods_spread_first)

    def _may_go(self, pod: Pod) -> bool:
        return self._pool.may_go(pod, self._rule)

    def _fits_a_receiver(self, pod: Pod) -> bool:
        fits = self._fits.get(pod)
        if fits is None:
            fits = self._fits[pod] = bool(
                self._view.upstream_fit.feasible_elsewhere(pod, self._receivers)
            )
        return fits


def reluctance(pod: Pod, important_first: bool) -> tuple[bool, bool, int]:
    """Sorts those that should rather stay to the front; pods are taken from the end."""
    spec = pod.spec
    tied = spec.node_selector is not None or spec.has_node_affinity
    ranked, priority = spec.priority is not None, spec.priority or 0
    return (not tied, ranked, priority) if important_first else (not tied, not ranked, -priority)


def moves_between(high: int, low: int, ideal: float, max_skew: int) -> int:
    """How many pods a domain of size `high` should give to one of size `low`."""
    skew = high - low
    if skew <= max_skew:
        return 0
    return min(ceil(high - ideal), ceil(ideal - low), ceil((skew - max_skew) / 2))
