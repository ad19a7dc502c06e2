"""RemovePodsViolatingTopologySpreadConstraint: evict pods where the spread exceeds `maxSkew`.

With upstream's semantics (`upstream`) each constraint is balanced by itself: pods are taken from
the largest domains, as many as bring the smallest up to the average, until no two differ by more
than `maxSkew`. With `resettle/v1` all constraints of a pod are balanced together (`improved`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Limit, NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.placement.topology_spread import SpreadRule
from resettle.plugins._common import LIMIT_REACHED, NO_CANDIDATE
from resettle.plugins.remove_pods_violating_topology_spread_constraint.improved import (
    SpreadImprover,
)
from resettle.plugins.remove_pods_violating_topology_spread_constraint.upstream import (
    Chooser,
    NamespacePods,
    rule_of,
)
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


def balance(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose pods until the constraints hold, as far as possible."""
    actions = args.constraints or ACTIONS[:1]
    if draft.semantics.spread_rule_by_rule:
        return rule_by_rule(args, actions, view, draft)
    improver = SpreadImprover(args, actions, view, draft)
    improver.run()
    if improver.limit_reached:
        return LIMIT_REACHED
    if improver.violated:
        return None
    return BALANCED if improver.rules else NO_RULE


def rule_by_rule(args: Args, actions: tuple[str, ...], view: View, draft: Draft) -> Stopped | None:
    """Propose the pods that balanceDomains chooses for each rule of each namespace."""
    must_fit = args.topology_balance_node_fit is not False
    reasons: dict[Pod, str] = {}
    satisfied: dict[Pod, str | None] = {}
    stated = False
    for namespace in _namespaces(actions, view):
        pool = NamespacePods(namespace, args, view, draft)
        for rule, stated_by in pool.rules(actions):
            stated = True
            chooser = Chooser(rule, stated_by, view, pool)
            for pod in chooser.leaving(pool.matching(rule.selector), must_fit=must_fit):
                reasons.setdefault(pod, chooser.why(pod))
            if draft.keeps_notes:
                for pod, says in chooser.describe_skew(pool.matching(rule.selector)):
                    satisfied[pod] = says and satisfied.get(pod, says)
    for pod, says in satisfied.items():
        if says and pod not in reasons:
            draft.note(pod, "satisfied", says)
    full_nodes: set[str] = set()
    for pod in draft.sort(draft.presort(reasons)):
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
            for template in view.pod_index.templates
            for constraint in template.spec.spread
            if constraint.when_unsatisfiable in actions
        }
    )


NO_RULE = Stopped(
    NO_CANDIDATE.code, "no pod that could go has a constraint that this policy checks"
)
BALANCED = Stopped("balanced", "no constraint is violated, or no eviction would help")


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Why the plugin leaves the pod alone: no constraint selects it, or none is violated.

    Where each rule is decided by itself, `balance` notes the figures of the pods that count.
    """
    if view.semantics.spread_rule_by_rule:
        if _selectors_about(pod, args, view):
            return None
        return NotProposed("no-rule", "no constraint that this policy checks selects it")
    evenness = view.projection.topology_spread
    rules = [rule for rule in _rules_about(pod, view) if _in_force(rule, args)]
    if not rules:
        return NotProposed("no-rule", "no constraint that this policy checks selects it")
    for rule in rules:
        there = evenness.domains(rule).count_at(pod.node)
        if there is not None and there - evenness.smallest_count(rule) > rule.max_skew:
            return None
    return NotProposed("satisfied", "no constraint that selects it is violated on its node")


def _selectors_about(pod: Pod, args: Args, view: View) -> bool:
    """Whether a constraint that counts, stated by any pod of the namespace, selects the pod."""
    actions = args.constraints or ACTIONS[:1]
    return any(
        rule_of(constraint, constraint.selector, stating).selector.matches(pod.labels)
        for template in view.pod_index.namespaces.get(pod.namespace, ())
        for constraint in template.spec.spread
        if constraint.when_unsatisfiable in actions and constraint.selector is not None
        for stating in view.active_of(template)[:1]
    )


def _rules_about(pod: Pod, view: View) -> Iterable[SpreadRule]:
    """The constraints the pod states, and where strangers are moved, those of others about it."""
    evenness = view.projection.topology_spread
    if not view.semantics.spread_moves_strangers:
        return evenness.rules_of_pod(pod)
    return {
        rule: None
        for template in view.pod_index.namespaces.get(pod.namespace, ())
        for rule in evenness.rules_of_template(template)
        if evenness.counts(rule, pod.template)
    }


def _in_force(rule: SpreadRule, args: Args) -> bool:
    return ACTIONS[0 if rule.hard else 1] in (args.constraints or ACTIONS[:1])


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Constraints that hold, but only just."""
    evenness = view.projection.topology_spread
    stated = {
        rule: template
        for templates in view.pod_index.namespaces.values()
        for template in templates
        if view.active_of(template)
        for rule in evenness.rules_of_template(template)
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
