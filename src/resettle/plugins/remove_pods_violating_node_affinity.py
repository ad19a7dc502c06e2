"""RemovePodsViolatingNodeAffinity: evict pods whose node does not match their node affinity.

A pod only goes if some node of the cycle would take it, whatever DefaultEvictor's `nodeFit` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

from resettle.framework.admission import add_diagnosis
from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import NotProposed, Refusal, Stopped
from resettle.framework.view import View
from resettle.model.node_index import NodeIndex, NodeSet
from resettle.model.pod import Pod, Spec
from resettle.model.semantics import Semantics
from resettle.plugins._common import LIMIT_REACHED, NO_CANDIDATE, SweepResult, propose_each
from resettle.policy.args import SelectingArgs
from resettle.policy.problems import Problem

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Args(SelectingArgs, frozen=True, kw_only=True):
    """Arguments of RemovePodsViolatingNodeAffinity."""

    node_affinity_type: tuple[str, ...] = ()
    """`requiredDuringSchedulingIgnoredDuringExecution`,
    `preferredDuringSchedulingIgnoredDuringExecution`, or both; one sweep for each, in this
    order."""

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if not self.node_affinity_type:
            yield Problem(
                what="`nodeAffinityType` is missing or empty",
                fix=f"list `{REQUIRED}`, `{PREFERRED}`, or both",
                at=("nodeAffinityType",),
            )


class Reason(NamedTuple):
    """Why a pod should go, and which nodes would be better for it."""

    says: str
    onto: NodeSet


Reasons = dict[Pod, Reason]


def states_requirements(spec: Spec) -> bool:
    """Whether its required affinity could be violated; a DaemonSet's pin to the node cannot be."""
    terms = spec.required_terms
    if terms is None:
        return False
    return bool(spec.node_selector) or not any(term.own_node_only for term in terms)


def states_preferences(spec: Spec) -> bool:
    """Whether it prefers some nodes to others."""
    return bool(spec.preferred_terms)


def required_violations(spec: Spec, pods: list[Pod], view: View) -> Reasons:
    """Pods of one spec whose node is not one that their required affinity allows."""
    node_index = view.node_index
    return {
        pod: Reason(f"{pod.node} does not satisfy its required node affinity", allowed_nodes)
        for pod in pods
        if not node_index.only(pod.node)
        & (allowed_nodes := node_index.matching_node_affinity(spec.demand, pod.node))
    }


def preferred_violations(spec: Spec, pods: list[Pod], view: View) -> Reasons:
    """Pods of one spec that prefer some other node of the cycle to their own."""
    pinned = any(row.term.fields for row in spec.preferred_terms)
    reasons: Reasons = {}
    for own_node, alike in groupby(pods, lambda pod: pod.node if pinned else ""):
        parts = weights(spec, view.node_index, own_node)
        best = heaviest(parts, view.in_scope)
        for pod in alike:
            here = view.node_index.only(pod.node)
            own = sum(weight for weight, nodes in parts if nodes & here)
            if best > own:
                says = f"prefers another node (weight {best}) to {pod.node} (weight {own})"
                reasons[pod] = Reason(says, heavier(parts, view.node_index.all_nodes, own))
    return reasons


def weights(spec: Spec, node_index: NodeIndex, own_node: str) -> list[tuple[int, NodeSet]]:
    """For each preferred term its weight and the nodes that have it."""
    return [
        (row.weight, node_index.matching_term(row.term, own_node)) for row in spec.preferred_terms
    ]


def heaviest(parts: list[tuple[int, NodeSet]], among: NodeSet) -> int:
    """The largest sum of weights that any node of the set reaches, 0 at least."""
    if not among or not parts:
        return 0
    (weight, nodes), rest = parts[0], parts[1:]
    without = heaviest(rest, among & ~nodes)
    return max(without, weight + heaviest(rest, among & nodes)) if among & nodes else without


def heavier(parts: list[tuple[int, NodeSet]], among: NodeSet, than: int) -> NodeSet:
    """Nodes of the set whose weights add up to more than this."""
    if not among:
        return 0
    if not parts:
        return among if than < 0 else 0
    (weight, nodes), rest = parts[0], parts[1:]
    return heavier(rest, among & nodes, than - weight) | heavier(rest, among & ~nodes, than)


class AffinityCheck(NamedTuple):
    """Which specs have such an affinity, and which of their pods violate it."""

    applies_to: Callable[[Spec], bool]
    violations: Callable[[Spec, list[Pod], View], Reasons]


CHECKS = {
    REQUIRED: AffinityCheck(states_requirements, required_violations),
    PREFERRED: AffinityCheck(states_preferences, preferred_violations),
}


def deschedule(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose, one affinity type after the other, pods that would be better placed."""
    stopped: Stopped | None = NO_CANDIDATE
    for kind in args.node_affinity_type:
        if check := CHECKS.get(kind):
            outcome = _sweep(check, args, view, draft)
            stopped = outcome if outcome is not NO_CANDIDATE else stopped
    return stopped


def _sweep(check: AffinityCheck, args: Args, view: View, draft: Draft) -> Stopped | None:
    reasons: Reasons = {}
    for template in view.pod_index.templates:
        if check.applies_to(template.spec):
            pods = view.active_of_selected(args, template)
            reasons |= check.violations(template.spec, pods, view)
    anywhere = draft.semantics.preference_beyond_reach
    has_candidates = False
    for _, pods in view.pods_by_node(reasons):
        movable = [
            pod
            for pod in draft.presort(pods)
            if (not draft.is_terminating(pod) or draft.may_leave(pod))
            and (
                not draft.semantics.weak_fit
                or view.upstream_fit.feasible_anywhere(pod, view.in_scope)
            )
        ]
        has_candidates = has_candidates or bool(movable)
        outcome = propose_each(
            draft,
            draft.sort(movable),
            lambda pod: reasons[pod].says,
            onto=None if anywhere else lambda pod: reasons[pod].onto,
        )
        if outcome is SweepResult.LIMIT_REACHED:
            return LIMIT_REACHED
    return None if has_candidates else NO_CANDIDATE


def cautions(args: Args, semantics: Semantics) -> Iterator[str]:
    """Types that do not exist, such as misspelled ones."""
    for kind in args.node_affinity_type:
        if kind not in CHECKS:
            yield f"`{kind}` is not a type of node affinity, so it matches no pod"


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Why the plugin leaves the pod alone: no affinity, no violation, or no node that fits."""
    checks = [CHECKS[kind] for kind in args.node_affinity_type if kind in CHECKS]
    applicable = [check for check in checks if check.applies_to(pod.spec)]
    if not applicable:
        return NotProposed("no-rule", "has no node affinity of a type in `nodeAffinityType`")
    for check in applicable:
        for reason in check.violations(pod.spec, [pod], view).values():
            return _nowhere(reason, pod, view)
    return NotProposed("satisfied", f"{pod.node} matches its node affinity")


def _nowhere(reason: Reason, pod: Pod, view: View) -> NotProposed | None:
    if not view.semantics.weak_fit or view.upstream_fit.feasible_anywhere(pod, view.in_scope):
        return None
    refusal = add_diagnosis(
        Refusal("no-node-fits", "takes it", subject="no node"), pod, view, view.in_scope
    )
    return NotProposed("no-node-fits", f"{reason.says}, but {refusal.sentence}")


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Pods that would be better placed but that no node takes."""
    for template in view.pod_index.templates:
        if template.spec.required_terms is None and not template.spec.preferred_terms:
            continue
        for pod in view.active_of_selected(args, template):
            if pod.node in view.names_in_scope:
                reason = why_not_proposed(args, view, pod)
                if reason and reason.code == "no-node-fits":
                    yield f"{pod.key}: {reason.says}"


PLUGIN = Plugin(
    name="RemovePodsViolatingNodeAffinity",
    args=Args,
    deschedule=deschedule,
    cautions=cautions,
    unfinished_only=True,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
)
