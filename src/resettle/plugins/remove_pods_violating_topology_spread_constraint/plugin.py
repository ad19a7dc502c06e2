"""RemovePodsViolatingTopologySpreadConstraint: even out what has become lopsided over a topology.

As the peer does it, each constraint is solved for itself: pods are taken from the largest domains,
as many as bring the smallest up to the average, until no two differ by more than `maxSkew`.
Improved, all constraints of a pod are solved together (`levelling`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import NamedTuple

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Limit, NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.constraints import NodeTerm, SpreadConstraint, Toleration
from resettle.model.node_index import NodeSet
from resettle.model.pod import Pod, Template
from resettle.model.selectors import Requirement, Selector
from resettle.placement.topology_spread import Rule as Evenly
from resettle.plugins._common import LIMIT_REACHED, NO_CANDIDATE
from resettle.plugins.remove_pods_violating_topology_spread_constraint.improved import Levelling
from resettle.policy.args import SelectingArgs
from resettle.policy.problems import Problem, did_you_mean

ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


class Args(SelectingArgs, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingTopologySpreadConstraint."""

    constraints: tuple[str, ...] = ()
    """Which constraints count, by their `whenUnsatisfiable`; none named means DoNotSchedule."""
    topology_balance_node_fit: bool | None = None
    """A pod only goes when a node of a smaller domain would take it; absent means yes."""

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
    pinned = honoured and spec.pinned
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
    """The pods that count in one namespace: selected, unfinished, in scope, free to leave."""

    def __init__(self, namespace: str, args: Args, view: View, draft: Draft) -> None:
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
            pods = [pod for pod in draft.walked(active) if pod.node in scope]
            self._free[template] = pods
        return pods

    def may_go(self, pod: Pod, rule: Rule) -> bool:
        """Whether the pod, which counts, may also be sent away for the rule."""
        habits = self._draft.semantics
        if not habits.spread_sees_only_evictable and not (
            pod.template in self._view.templates_selected_by(self._args)
            and self._draft.may_leave(pod)
        ):
            return False
        return habits.spread_moves_strangers or any(
            rule_of(constraint, constraint.selector, pod) == rule
            for constraint in pod.spec.spread
            if constraint.selector is not None
        )

    def rules(self, actions: tuple[str, ...]) -> Iterator[tuple[Rule, Pod]]:
        """Each distinct rule its pods state, with a pod that states it."""
        known: set[Rule] = set()
        for template in self._view.population.namespaces[self._namespace]:
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
        for template in self._view.population.templates_matching(self._namespace, selector):
            for pod in self.free(template):
                if not self._draft.terminating(pod):
                    yield pod


class Chooser:
    """Works out for one rule which pods should go.

    Domains without pods are many where each node is one, and all alike: they are only counted.
    """

    def __init__(self, rule: Rule, stated_by: Pod, view: View, pool: Pool) -> None:
        self._rule = rule
        self._view = view
        self._pool = pool
        self._fits: dict[Pod, bool] = {}
        self._receivers: NodeSet = 0
        fleet = view.fleet
        self._included: NodeSet = view.in_scope
        if rule.honours_affinity:
            self._included &= fleet.welcoming(stated_by.spec.demand, stated_by.node)
        if rule.tolerations is not None:
            self._included &= fleet.tolerated_by(rule.tolerations)

    def leaving(self, pods: Iterable[Pod], *, must_fit: bool) -> list[Pod]:
        """Pods whose leaving would even the domains out."""
        skew, key = self._rule.max_skew, self._rule.topology_key
        found = self._domains(pods)
        offered = self._view.fleet.values_within(key, self._included)
        empty = len(offered) - sum(1 for value in found if value in offered)
        domains = sorted(found.values(), key=len)
        smallest = 0 if empty or not domains else len(domains[0])
        if not domains or len(domains[-1]) - smallest <= skew:
            return []
        ideal = sum(map(len, domains)) / (len(domains) + empty)
        self._receivers = self._below(found, ideal)
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
            # The books are kept as if all had moved, be it only so that the loop ends.
            del giver[-count:]
            taken, touched = taken + count, True
        return chosen

    def compared(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, str | None]]:
        """Each pod with how its domain compares to the smallest; None if by over `maxSkew`."""
        skew, key = self._rule.max_skew, self._rule.topology_key
        pods = list(pods)
        domains = self._domains(pods)
        offered = self._view.fleet.values_within(key, self._included)
        sizes = [len(domains.get(value, ())) for value in offered | domains.keys()]
        for value, members in domains.items():
            more = len(members) - min(sizes)
            says = (
                f"such pods in its {key} ({value}): {len(members)}, fewest anywhere: {min(sizes)}"
            )
            for pod in members:
                yield pod, f"{says}, `maxSkew` is {skew}" if more <= skew else None
        values = self._view.fleet.values_of(key)
        for pod in pods:
            if pod.node not in values:
                yield pod, f"{pod.node} has no label {key}, so the constraint does not count it"

    def _domains(self, pods: Iterable[Pod]) -> dict[str, list[Pod]]:
        values = self._view.fleet.values_of(self._rule.topology_key)
        found: dict[str, list[Pod]] = {}
        for pod in pods:
            value = values.get(pod.node)
            if value is not None:
                found.setdefault(value, []).append(pod)
        return dict(sorted(found.items()))

    def _below(self, found: dict[str, list[Pod]], ideal: float) -> NodeSet:
        """Nodes that count for the rule and whose domain has fewer pods than the average."""
        fleet, key = self._view.fleet, self._rule.topology_key
        nodes = fleet.having(key) & self._included
        for value, pods in found.items():
            if len(pods) >= ideal:
                nodes &= ~fleet.domains(key)[value]
        return nodes

    def _reluctance(self, pod: Pod) -> tuple[bool, bool, int]:
        return reluctance(pod, self._view.semantics.important_pods_spread_first)

    def _may_go(self, pod: Pod) -> bool:
        return self._pool.may_go(pod, self._rule)

    def _fits_a_receiver(self, pod: Pod) -> bool:
        fits = self._fits.get(pod)
        if fits is None:
            fits = self._fits[pod] = bool(self._view.upstream_fit.elsewhere(pod, self._receivers))
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


def balance(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Proposes pods until they lie as evenly as the constraints ask, as far as that can be."""
    actions = args.constraints or ACTIONS[:1]
    if draft.semantics.spread_rule_by_rule:
        return rule_by_rule(args, actions, view, draft)
    levelling = Levelling(args, actions, view, draft)
    levelling.run()
    if levelling.limit_reached:
        return LIMIT_REACHED
    if levelling.violated:
        return None
    return BALANCED if levelling.rules else NO_RULE


def rule_by_rule(args: Args, actions: tuple[str, ...], view: View, draft: Draft) -> Stopped | None:
    """Proposes the pods that every rule of every namespace wants to leave."""
    must_fit = args.topology_balance_node_fit is not False
    reasons: dict[Pod, str] = {}
    satisfied: dict[Pod, str | None] = {}
    stated = False
    for namespace in _namespaces(actions, view):
        pool = Pool(namespace, args, view, draft)
        for rule, stated_by in pool.rules(actions):
            stated = True
            chooser = Chooser(rule, stated_by, view, pool)
            for pod in chooser.leaving(pool.matching(rule.selector), must_fit=must_fit):
                reasons.setdefault(
                    pod,
                    f"its {rule.topology_key} has more pods than others by over {rule.max_skew}",
                )
            if draft.keeps_notes:
                for pod, says in chooser.compared(pool.matching(rule.selector)):
                    satisfied[pod] = says and satisfied.get(pod, says)
    for pod, says in satisfied.items():
        if says and pod not in reasons:
            draft.note(pod, "satisfied", says)
    full_nodes: set[str] = set()
    for pod in draft.ordered(draft.walked(reasons)):
        if pod.node in full_nodes:
            continue
        limit = draft.propose(pod, because=reasons[pod]).limit
        if limit is Limit.TOTAL:
            return LIMIT_REACHED
        if limit in (Limit.NODE, Limit.NODES):
            full_nodes.add(pod.node)
    if reasons:
        return None
    return BALANCED if stated else NO_RULE


def _namespaces(actions: tuple[str, ...], view: View) -> list[str]:
    """Namespaces in which some pod states a constraint that counts."""
    return sorted(
        {
            template.namespace
            for template in view.population.templates
            for constraint in template.spec.spread
            if constraint.when_unsatisfiable in actions
        }
    )


NO_RULE = Stopped(NO_CANDIDATE.code, "no pod that could go states a constraint that counts here")
BALANCED = Stopped("balanced", "no constraint is violated, or nothing that could go would mend it")


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Whether no constraint is about the pod, or its domain has no more than others.

    Where each rule is decided by itself, `balance` notes the figures of the pods that count.
    """
    if view.semantics.spread_rule_by_rule:
        if _selectors_about(pod, args, view):
            return None
        return NotProposed("no-rule", "no constraint that counts here is about it")
    evenness = view.projection.evenness
    rules = [rule for rule in _rules_about(pod, view) if _in_force(rule, args)]
    if not rules:
        return NotProposed("no-rule", "no constraint that counts here is about it")
    for rule in rules:
        there = evenness.domains(rule).counted_at(pod.node)
        if there is not None and there - evenness.floor(rule) > rule.max_skew:
            return None
    return NotProposed("satisfied", "no constraint about it is violated where it is")


def _selectors_about(pod: Pod, args: Args, view: View) -> bool:
    """Whether a constraint that counts, stated by any pod of the namespace, selects the pod."""
    actions = args.constraints or ACTIONS[:1]
    return any(
        rule_of(constraint, constraint.selector, stating).selector.matches(pod.labels)
        for template in view.population.namespaces.get(pod.namespace, ())
        for constraint in template.spec.spread
        if constraint.when_unsatisfiable in actions and constraint.selector is not None
        for stating in view.active_of(template)[:1]
    )


def _rules_about(pod: Pod, view: View) -> Iterable[Evenly]:
    """The constraints the pod states, and where strangers are moved, those of others about it."""
    evenness = view.projection.evenness
    if not view.semantics.spread_moves_strangers:
        return evenness.stated_by(pod)
    return {
        rule: None
        for template in view.population.namespaces.get(pod.namespace, ())
        for rule in evenness.rules_of(template)
        if evenness.counts(rule, pod.template)
    }


def _in_force(rule: Evenly, args: Args) -> bool:
    return ACTIONS[0 if rule.hard else 1] in (args.constraints or ACTIONS[:1])


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Constraints that hold, but only just."""
    evenness = view.projection.evenness
    stated = {
        rule: template
        for templates in view.population.namespaces.values()
        for template in templates
        if view.active_of(template)
        for rule in evenness.rules_of(template)
        if _in_force(rule, args)
    }
    for rule, template in stated.items():
        if evenness.skew(rule) == rule.max_skew:
            yield (
                f"pods like {view.active_of(template)[0].key} differ by {rule.max_skew} over "
                f"{rule.topology_key}, the most their `maxSkew` allows"
            )


PLUGIN = Plugin(
    name="RemovePodsViolatingTopologySpreadConstraint",
    args=Args,
    balance=balance,
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
)
