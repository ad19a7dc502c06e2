"""The order of checks behind `propose`: the first one that refuses a pod decides.

    1. Is the pod on its way already?          then it counts as moving, and nothing is checked
    2. Filters, then pre-eviction filters      of the profile, in their order
    3. A uid                                   without one another pod could be evicted
    4. Placement                               a node takes the replacement, without harm to other
                                               pods, and is better if the plugin asks for that; a
                                               mover that steers the replacement makes moves
                                               possible that the scheduler would undo
    5. Earlier rounds                          the pod was asked to leave in this cycle, and stayed
    6. Limits                                  total, nodes, node, namespace
    7. Disruption budgets                      as the API server would answer

Placement is left out where a policy of upstream is read: there only the filter NodeFit asks for it.
Nothing here is recorded: that is up to the draft.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from resettle.framework.plan_state import PlanState
from resettle.framework.profile import Profile, ProfileFilters, first_refusal
from resettle.framework.verdict import ADMITTED, MOVING, Refusal, Verdict, verdict_of
from resettle.framework.view import View
from resettle.model.constraints import NO_SCHEDULE, Taint
from resettle.model.migration_job import PLACEHOLDER, TAINT, Steering
from resettle.model.node_index import NodeSet
from resettle.model.pod import Pod
from resettle.placement.diagnosis import Diagnosis, NodeChecks, diagnose

NO_UID = Refusal("no-uid", "has no uid, so another pod of its name could be taken for it", "plan")
NO_NODE = Refusal("no-node-fits", "would take it", "plan", subject="no node")
WOULD_BREAK = Refusal(
    "would-break",
    "would be broken",
    "plan",
    subject="wherever it could go, a rule that holds today",
)
NO_BETTER_NODE = Refusal(
    "no-better-node", "is better than its own", "plan", subject="no node that would take it"
)
WOULD_RETURN = Refusal(
    "would-return",
    "would most likely put it back where it is",
    "plan",
    subject="the scheduler",
)
WOULD_STRAY = Refusal(
    "would-stray",
    "would most likely put it on a node that is no better",
    "plan",
    subject="the scheduler",
)
NO_PLACE_TO_HOLD = Refusal(
    "no-place-to-hold",
    "could hold a place for it",
    "plan",
    subject="no node but its own",
)
PLACEHOLDER_POD = Refusal("placeholder", "holds a place for a pod that is being moved", "plan")
ALREADY_PLANNED = Refusal("already-planned", "is in this plan already", "plan")
_MOVING_AWAY = Taint(TAINT, NO_SCHEDULE)
"""What keeps a replacement off its old node with Hard steering, unless the pod tolerates it."""
_BY_FORECAST = (WOULD_RETURN.code, WOULD_STRAY.code)
"""Refusals that follow from where the scheduler would most likely put the replacement."""


class Admission:
    """The checks of one profile, for the proposals of one plugin."""

    def __init__(self, profile: Profile, view: View, state: PlanState) -> None:
        self._profile = profile
        self._view = view
        self._state = state
        self._semantics = view.semantics
        self._weak_fit = view.semantics.weak_fit
        self._has_earlier_rounds = state.has_earlier_rounds
        mover = profile.mover
        self._steering = mover.plugin.holds_place(mover.args) if mover else None
        chains = view.prepare_once(profile, ProfileFilters)
        self.filters, self.all_filters = chains.filters, chains.all
        self.admitted_here: set[Pod] = set()
        """Pods that this plugin proposed and that leave; the draft adds them."""

    # -- the verdict ----------------------------------------------------------------------------

    def verdict(self, pod: Pod, onto: NodeSet | None, packing: bool) -> Verdict:
        """Whether the pod may move now, and if not, the first reason why not."""
        state = self._state
        planned = state.is_admitted(pod)
        if pod.uid in self._view.moving or (planned and not self._semantics.repeat_spends_limits):
            return MOVING
        if planned:
            return self._verdict_again(pod)
        if self._has_earlier_rounds and state.has_left_before(pod):
            return MOVING
        refusal = self.all_filters.refusal(pod) or (None if pod.uid else NO_UID)
        if PLACEHOLDER in pod.labels:
            refusal = PLACEHOLDER_POD
        if refusal is None and self._needs_a_node(pod):
            refusal = self._placement_refusal(pod, onto, packing)
        # Before limits: a pod that stayed used nothing up, so it must not stop a plugin as a
        # limit that is reached would.
        if self._has_earlier_rounds:
            refusal = refusal or state.refusal_before(pod)
        refusal = refusal or state.limits.refusal(pod) or state.budgets.refusal(pod)
        return verdict_of(refusal) if refusal else ADMITTED

    def _verdict_again(self, pod: Pod) -> Verdict:
        """Count a planned pod again: upstream evicts it twice; here that only uses limits up."""
        # Upstream asks the filters before the plugin's first eviction, so they do not see that one.
        if pod not in self.admitted_here and self.all_filters.refusal(self._state.as_planned(pod)):
            return verdict_of(ALREADY_PLANNED)
        if refusal := self._state.limits.refusal(pod):
            return verdict_of(refusal)
        self._state.limits.count(pod)
        return MOVING

    # -- placement ------------------------------------------------------------------------------

    def _needs_a_node(self, pod: Pod) -> bool:
        """Whether a node is looked for; a finished pod gets no replacement."""
        return not self._weak_fit and not pod.finished

    def _placement_refusal(self, pod: Pod, onto: NodeSet | None, packing: bool) -> Refusal | None:
        """Why no node will do for the pod."""
        projection = self._view.projection
        feasible = projection.feasible_nodes(pod)
        if not feasible:
            return NO_NODE
        places = feasible & projection.harmless_nodes(pod)
        if not places:
            return WOULD_BREAK
        if self.holds_place and not places & ~self._own_node(pod):
            return NO_PLACE_TO_HOLD
        if onto is None or self._semantics.moves_without_gain:
            return None
        if not places & onto:
            return NO_BETTER_NODE
        if packing or self._steering is Steering.GATE:
            return None
        if self._steering is Steering.HARD and not pod.spec.tolerates(_MOVING_AWAY):
            likely = projection.highest_scored_node(pod, feasible & ~self._own_node(pod))
        else:
            likely = projection.likely_node(pod, feasible)
        if likely == projection.pod_locations.current_node(pod):
            return WOULD_RETURN
        better = places & onto & self._view.node_index.only(likely)
        return None if better else WOULD_STRAY

    @property
    def holds_place(self) -> bool:
        """Whether the mover of the profile holds a place before it moves a pod."""
        return self._steering is not None and not self._weak_fit

    def _own_node(self, pod: Pod) -> NodeSet:
        """The node that the pod is on by now, as a set."""
        return self._view.node_index.only(self._view.projection.pod_locations.current_node(pod))

    def likely_node(self, pod: Pod, onto: NodeSet | None) -> str:
        """Where the pod's replacement will most likely be; empty where no node is looked for."""
        if not self._needs_a_node(pod):
            return ""
        projection = self._view.projection
        places = projection.safe_nodes(pod)
        if self.holds_place:
            places &= ~self._own_node(pod)
        better = places if onto is None else places & onto
        return projection.highest_scored_node(pod, better or places)

    # -- every refusal, for a pod that is asked about ---------------------------------------------

    def all_refusals(
        self, pod: Pod, first: Refusal | None, onto: NodeSet | None
    ) -> tuple[Refusal, ...]:
        """All refusals that apply to the pod now, beginning with the one it got."""
        if first is None or first.code == ALREADY_PLANNED.code:
            return (first,) if first else ()
        state = self._state
        by_code = {refusal.code: refusal for refusal in self._filter_refusals(pod)}
        if not pod.uid:
            by_code[NO_UID.code] = NO_UID
        placement = None
        if self._needs_a_node(pod):
            # A refusal by forecast is listed only if it is what the pod was refused for.
            placement = self._placement_refusal(pod, onto, packing=first.code not in _BY_FORECAST)
        if placement and NO_NODE.code not in by_code:
            better = onto if placement.code == NO_BETTER_NODE.code else None
            nodes = self._view.node_index.all_nodes if better is None else better
            by_code[placement.code] = add_diagnosis(placement, pod, self._view, nodes)
        by_code |= {refusal.code: refusal for refusal in state.limits.refusals(pod)}
        if budget_refusal := state.budgets.refusal(pod):
            by_code[budget_refusal.code] = budget_refusal
        return (by_code.pop(first.code, first), *by_code.values())

    def _filter_refusals(self, pod: Pod) -> Iterator[Refusal]:
        """The refusals of each filter: all of them where the filter lists more than the first."""
        profile = self._profile
        chain = (*profile.filters, *profile.pre_eviction_filters)
        for instance, check in zip(chain, self.all_filters.checks, strict=True):
            try:
                listed = list(instance.all_refusals(self._view, pod))
            except Exception:
                listed = []  # the filter's own answer, or its failure, has to do
            first = first_refusal([check], pod)
            if first is not None and not any(refusal.code == first.code for refusal in listed):
                listed.insert(0, first)
            for refusal in listed:
                yield refusal if refusal.by else structs.replace(refusal, by=instance.name)


# -- the sentence of a placement refusal ----------------------------------------------------------

_SENTENCES = {
    WOULD_BREAK.code: ("no node of {count}", "takes it without harm to others: {grounds}"),
    NO_BETTER_NODE.code: (
        "none of the {count} nodes that would be better",
        "takes it: {grounds}",
    ),
}
_SENTENCE = ("no node of {count}", "takes it: {grounds}")


def add_diagnosis(refusal: Refusal, pod: Pod, view: View, among: NodeSet) -> Refusal:
    """The refusal with what rules out each node of the set, the pod's own node left out."""
    checks: NodeChecks = view.upstream_fit if view.semantics.weak_fit else view.projection
    diagnosis = diagnose(pod, view.node_index, checks, among)
    if not diagnosis.rejections:
        return refusal
    subject, says = _SENTENCES.get(refusal.code, _SENTENCE)
    facts = refusal.facts | _facts(diagnosis)
    return structs.replace(refusal, subject=subject, says=says, facts=facts)


def _facts(diagnosis: Diagnosis) -> dict[str, object]:
    rejections = diagnosis.rejections
    return {
        "count": diagnosis.asked.bit_count(),
        "grounds": ", ".join(
            f"{rejection.nodes.bit_count()} {rejection.says}" for rejection in rejections
        ),
        "ruled_out": rejections,
        "short": diagnosis.shortages[:1],
    }
