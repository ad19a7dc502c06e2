"""RemovePodsViolatingTopologySpreadConstraint: even out what has become lopsided over a topology.

Each constraint is solved for itself: pods are taken from the largest domains, as many as bring the
smallest up to the average, until no two domains differ by more than `maxSkew`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import NamedTuple

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.selection import selected
from resettle.framework.verdict import Limit, Stopped
from resettle.model.affinity import NodeTerm, SpreadConstraint
from resettle.model.fleet import NodeSet
from resettle.model.pod import Pod, Template
from resettle.model.selector import Requirement, Selector
from resettle.model.snapshot import Snapshot
from resettle.model.taint import Toleration
from resettle.plugins.reporting import LIMIT_REACHED, NO_CANDIDATE
from resettle.policy.args import SelectingArgs
from resettle.policy.problem import Problem, did_you_mean

ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


class Args(SelectingArgs, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingTopologySpreadConstraint."""

    constraints: tuple[str, ...] = ()
    """Which constraints count, by `whenUnsatisfiable`; none named means DoNotSchedule."""
    topology_balance_node_fit: bool | None = None
    """Whether a pod must fit a node of a smaller domain; absent means yes."""

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        for i, action in enumerate(self.constraints):
            if action not in ACTIONS:
                yield Problem(
                    what=f"`{action}` is not a kind of constraint",
                    fix=did_you_mean(action, ACTIONS),
                    at=("constraints", i),
                )


class Rule(NamedTuple):
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


def rule_of(constraint: SpreadConstraint, selector: Selector, pod: Pod) -> Rule:
    """The rule that the pod states with this constraint."""
    labels, spec = pod.labels, pod.spec
    same = tuple(
        Requirement(key, "In", (labels[key],))
        for key in constraint.match_label_keys
        if key in labels
    )
    honoured = constraint.node_affinity_policy == "Honor"
    pinned = honoured and any(term.fields for term in spec.required_terms or ())
    return Rule(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector.also(same),
        node_selector=spec.node_selector if honoured else None,
        terms=spec.required_terms if honoured else None,
        pinned_to=pod.node if pinned else "",
        honours_affinity=honoured,
        tolerations=spec.tolerations if constraint.node_taints_policy == "Honor" else None,
    )


class Pool:
    """The pods that count in one namespace: selected, unfinished, free to leave."""

    def __init__(self) -> None:
        self.templates: dict[Template, list[Pod]] = {}

    def rules(self, actions: tuple[str, ...]) -> Iterator[tuple[Rule, Pod]]:
        """Each distinct rule its pods state, with a pod that states it."""
        known: set[Rule] = set()
        for template, pods in self.templates.items():
            for constraint in template.spec.spread:
                if constraint.when_unsatisfiable not in actions or constraint.selector is None:
                    continue
                # Pods of one template state one rule, unless each is pinned to its own node.
                for pod in pods:
                    rule = rule_of(constraint, constraint.selector, pod)
                    if rule not in known:
                        known.add(rule)
                        yield rule, pod
                    if not rule.pinned_to:
                        break

    def matching(self, selector: Selector) -> Iterator[Pod]:
        """Its pods that a selector selects."""
        for template, pods in self.templates.items():
            if selector.matches(template.labels):
                yield from pods


class Domain(NamedTuple):
    """One value of the topology, and the pods there."""

    value: str
    pods: list[Pod]


class Chooser:
    """Works out for one rule which pods should go."""

    def __init__(self, rule: Rule, stated_by: Pod, snapshot: Snapshot, draft: Draft) -> None:
        self._rule = rule
        self._snapshot = snapshot
        self._draft = draft
        fleet = snapshot.fleet
        self._included: NodeSet = snapshot.in_scope
        if rule.honours_affinity:
            self._included &= fleet.welcoming(stated_by.spec, stated_by.node)
        if rule.tolerations is not None:
            self._included &= fleet.tolerated_by(rule.tolerations)

    def domains(self, pods: Iterable[Pod]) -> list[Domain]:
        """The pods by domain, smallest domain first; domains without pods count."""
        key, snapshot = self._rule.topology_key, self._snapshot
        found: dict[str, list[Pod]] = {
            value: []
            for value, nodes in snapshot.fleet.domains(key).items()
            if nodes & self._included
        }
        for pod in pods:
            node = snapshot.node(pod.node)
            value = node.labels.get(key) if node else None
            if value is not None and not self._draft.terminating(pod):
                found.setdefault(value, []).append(pod)
        return sorted(
            (Domain(value, pods) for value, pods in found.items()),
            key=lambda domain: (len(domain.pods), domain.value),
        )

    def leaving(self, pods: Iterable[Pod], *, must_fit: bool) -> list[Pod]:
        """Pods whose leaving would even the domains out."""
        domains = self.domains(pods)
        sizes = [len(domain.pods) for domain in domains]
        if not sizes or sizes[-1] - sizes[0] <= self._rule.max_skew:
            return []
        ideal = sum(sizes) / len(sizes)
        receivers = self._receivers(domains, ideal)
        for domain in domains:
            domain.pods.sort(key=self._reluctance)
        chosen: list[Pod] = []
        low, high = 0, len(domains) - 1
        while low < high:
            if len(domains[high].pods) <= ideal:
                high -= 1
            giver, taker = domains[high].pods, domains[low].pods
            count = moves_between(len(giver), len(taker), ideal, self._rule.max_skew)
            if count <= 0:
                low += 1
                continue
            giver.sort(key=lambda pod: bool(self._snapshot.fit.elsewhere(pod, receivers)))
            going = giver[-count:]
            chosen += (
                pod for pod in going if not must_fit or self._snapshot.fit.elsewhere(pod, receivers)
            )
            # The books are kept as if all had moved, be it only so that the loop ends.
            del giver[-count:]
            taker += going
        return chosen

    def _receivers(self, domains: list[Domain], ideal: float) -> NodeSet:
        nodes = self._snapshot.fleet.domains(self._rule.topology_key)
        receivers = 0
        for domain in domains:
            if len(domain.pods) < ideal:
                receivers |= nodes.get(domain.value, 0) & self._included
        return receivers

    def _reluctance(self, pod: Pod) -> tuple[int, bool, int]:
        """Sorts those that should rather stay to the front; pods are taken from the end."""
        if not self._draft.may_leave(pod):
            return (0, False, 0)
        spec = pod.spec
        tied = spec.node_selector is not None or spec.has_node_affinity
        return (1 if tied else 2, spec.priority is not None, spec.priority or 0)


def moves_between(high: int, low: int, ideal: float, max_skew: int) -> int:
    """How many pods a domain of size `high` should give to one of size `low`."""
    skew = high - low
    if skew <= max_skew:
        return 0
    return min(ceil(high - ideal), ceil(ideal - low), ceil((skew - max_skew) / 2))


def balance(args: Args, snapshot: Snapshot, draft: Draft) -> Stopped | None:
    """Proposes the pods that every rule of every namespace wants to leave."""
    actions = args.constraints or ACTIONS[:1]
    must_fit = args.topology_balance_node_fit is not False
    reasons: dict[Pod, str] = {}
    stated = False
    for _, pool in sorted(_pools(args, snapshot, draft).items()):
        for rule, stated_by in pool.rules(actions):
            stated = True
            chooser = Chooser(rule, stated_by, snapshot, draft)
            for pod in chooser.leaving(pool.matching(rule.selector), must_fit=must_fit):
                reasons.setdefault(
                    pod,
                    f"its {rule.topology_key} has more pods than others by over {rule.max_skew}",
                )
    full_nodes: set[str] = set()
    for pod in draft.ordered(draft.walked(reasons)):
        if pod.node in full_nodes:
            continue
        limit = draft.propose(pod, because=reasons[pod]).limit
        if limit is Limit.TOTAL:
            return LIMIT_REACHED
        if limit is Limit.NODE:
            full_nodes.add(pod.node)
    if reasons:
        return None
    return BALANCED if stated else NO_RULE


def _pools(args: Args, snapshot: Snapshot, draft: Draft) -> dict[str, Pool]:
    pools: dict[str, Pool] = {}
    for node in snapshot.nodes:
        for pod in draft.walked(selected(args, snapshot, snapshot.active_on(node))):
            if draft.may_leave(pod):
                pool = pools.setdefault(pod.namespace, Pool())
                pool.templates.setdefault(pod.template, []).append(pod)
    return pools


NO_RULE = Stopped(NO_CANDIDATE.code, "no pod that could go states a constraint that counts here")
BALANCED = Stopped("balanced", "no constraint is violated, or nothing that could go would mend it")

PLUGIN = Plugin(name="RemovePodsViolatingTopologySpreadConstraint", args=Args, balance=balance)
