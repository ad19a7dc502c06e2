"""RemovePodsViolatingNodeAffinity: evict pods whose node no longer is, or never was, what they ask.

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
from resettle.model.node_index import Fleet, NodeSet
from resettle.model.pod import Pod, Spec
from resettle.model.semantics import Semantics
from resettle.plugins._common import LIMIT_REACHED, NO_CANDIDATE, Next, propose_in_turn
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


def misplaced(spec: Spec, pods: list[Pod], view: View) -> Reasons:
    """Pods of one spec whose node is not one that their required affinity allows."""
    fleet = view.fleet
    return {
        pod: Reason(f"{pod.node} does not satisfy its required node affinity", welcoming)
        for pod in pods
        if not fleet.only(pod.node) & (welcoming := fleet.welcoming(spec.demand, pod.node))
    }


def better_elsewhere(spec: Spec, pods: list[Pod], view: View) -> Reasons:
    """Pods of one spec that prefer some other node of the cycle to their own."""
    pinned = any(row.term.fields for row in spec.preferred_terms)
    reasons: Reasons = {}
    for own_node, alike in groupby(pods, lambda pod: pod.node if pinned else ""):
        parts = weights(spec, view.fleet, own_node)
        best = heaviest(parts, view.in_scope)
        for pod in alike:
            here = view.fleet.only(pod.node)
            own = sum(weight for weight, nodes in parts if nodes & here)
            if best > own:
                says = f"prefers another node (weight {best}) to {pod.node} (weight {own})"
                reasons[pod] = Reason(says, heavier(parts, view.fleet.everyone, own))
    return reasons


def weights(spec: Spec, fleet: Fleet, own_node: str) -> list[tuple[int, NodeSet]]:
    """For each preferred term its weight and the nodes that have it."""
    return [(row.weight, fleet.matching(row.term, own_node)) for row in spec.preferred_terms]


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


class Question(NamedTuple):
    """Which specs are worth asking about, and what is asked of their pods."""

    worth_asking: Callable[[Spec], bool]
    unhappy: Callable[[Spec, list[Pod], View], Reasons]


QUESTIONS = {
    REQUIRED: Question(states_requirements, misplaced),
    PREFERRED: Question(states_preferences, better_elsewhere),
}


def deschedule(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Proposes, one affinity type after the other, pods that would be better placed."""
    stopped: Stopped | None = NO_CANDIDATE
    for kind in args.node_affinity_type:
        if question := QUESTIONS.get(kind):
            outcome = _sweep(question, args, view, draft)
            stopped = outcome if outcome is not NO_CANDIDATE else stopped
    return stopped


def _sweep(question: Question, args: Args, view: View, draft: Draft) -> Stopped | None:
    reasons: Reasons = {}
    for template in view.population.templates:
        if question.worth_asking(template.spec):
            pods = view.active_of_selected(args, template)
            reasons |= question.unhappy(template.spec, pods, view)
    anywhere = draft.semantics.preference_beyond_reach
    found = False
    for _, pods in view.in_turn(reasons):
        movable = [
            pod
            for pod in draft.walked(pods)
            if (not draft.terminating(pod) or draft.may_leave(pod))
            and (not draft.semantics.weak_fit or view.upstream_fit.anywhere(pod, view.in_scope))
        ]
        found = found or bool(movable)
        outcome = propose_in_turn(
            draft,
            draft.ordered(movable),
            lambda pod: reasons[pod].says,
            onto=None if anywhere else lambda pod: reasons[pod].onto,
        )
        if outcome is Next.NOTHING:
            return LIMIT_REACHED
    return None if found else NO_CANDIDATE


def cautions(args: Args, semantics: Semantics) -> Iterator[str]:
    """Types that exist only as a slip of the pen."""
    for kind in args.node_affinity_type:
        if kind not in QUESTIONS:
            yield f"`{kind}` is no type of node affinity and looks for nothing"


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Whether the pod states nothing that counts, is where it wants to be, or has nowhere to go."""
    questions = [QUESTIONS[kind] for kind in args.node_affinity_type if kind in QUESTIONS]
    asked = [question for question in questions if question.worth_asking(pod.spec)]
    if not asked:
        return NotProposed("no-rule", "states no node affinity of a type that counts here")
    for question in asked:
        for reason in question.unhappy(pod.spec, [pod], view).values():
            return _nowhere(reason, pod, view)
    return NotProposed("satisfied", f"{pod.node} is what its node affinity asks for")


def _nowhere(reason: Reason, pod: Pod, view: View) -> NotProposed | None:
    if not view.semantics.weak_fit or view.upstream_fit.anywhere(pod, view.in_scope):
        return None
    refusal = add_diagnosis(
        Refusal("no-node-fits", "takes it", subject="no node"), pod, view, view.in_scope
    )
    return NotProposed("no-node-fits", f"{reason.says}, but {refusal.sentence}")


def near_misses(args: Args, view: View) -> Iterator[str]:
    """Pods that would be better placed but that no node takes."""
    for template in view.population.templates:
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
