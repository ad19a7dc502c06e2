"""A plan being written, as one plugin of one profile sees it.

Questions (`may_leave`, `could_go`) leave no trace. Only `propose` and `decline` are recorded; the
answer to `propose` is a verdict with a reason (`admission` has the order of checks). A pod is asked
about as the cycle sees it by then: once admitted it looks like a terminating pod to everything that
comes later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from resettle.framework.admission import Admission
from resettle.framework.limits import BUDGET, LIMITS
from resettle.framework.plan import (
    HeldBack,
    Limited,
    Move,
    NodeUtilizationSummary,
    Note,
    PluginRun,
    Proposal,
)
from resettle.framework.plan_state import PlanState
from resettle.framework.profile import Instance, Profile
from resettle.framework.verdict import Limit, Refusal, Stopped, Verdict, verdict_of
from resettle.framework.view import View
from resettle.model.node_index import NodeSet
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.model.semantics import Semantics
from resettle.policy.args import ExtensionPoint


class Draft:
    """The plan that all plugins write together, as one plugin reads it and adds to it."""

    def __init__(
        self,
        profile: Profile,
        plugin: str,
        view: View,
        state: PlanState,
        watched: frozenset[str] = frozenset(),
        *,
        keeps_held_back: bool = False,
    ) -> None:
        self._profile = profile
        self._plugin = plugin
        self._view = view
        self._state = state
        self._admission = Admission(profile, view, state)
        self._filters = self._admission.filters
        self._all_filters = self._admission.all_filters
        self._watched = watched
        self._verdicts: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._says: dict[str, str] = {}
        self._limited: Counter[tuple[Limit, str, str]] = Counter()
        self._keeps_held_back = keeps_held_back
        self.held_back: list[HeldBack] = []
        self.notes: list[Note] = []
        self.proposals: list[Proposal] = []
        self.memory: Any = None
        self._utilization_summaries: list[NodeUtilizationSummary] = []

    @property
    def semantics(self) -> Semantics:
        """How the policy makes decisions: as upstream does, or improved."""
        return self._view.semantics

    # -- questions ------------------------------------------------------------------------------

    def may_leave(self, pod: Pod) -> bool:
        """Whether every filter of the profile lets the pod leave."""
        return self._filters.refusal(self._state.as_planned(pod)) is None

    def could_go(self, pod: Pod) -> bool:
        """Whether every filter and every pre-eviction filter of the profile lets the pod leave."""
        return self._all_filters.refusal(self._state.as_planned(pod)) is None

    def is_terminating(self, pod: Pod) -> bool:
        """Whether the pod is terminating in the cluster, or is moved by this plan."""
        return pod.terminating or self._state.is_admitted(pod)

    def safe_nodes(self, pod: Pod) -> NodeSet:
        """Nodes that take the pod without harm to others, once the plan so far is carried out."""
        return self._view.projection.safe_nodes(pod)

    def objection(
        self, pod: Pod, onto: NodeSet | None = None, *, packing: bool = False
    ) -> Refusal | None:
        """The refusal that `propose` would answer with, if any."""
        if self._state.is_admitted(pod):
            return None
        return self._admission.verdict(pod, onto, packing).refusal

    def presort(self, pods: Iterable[Pod]) -> list[Pod]:
        """Pods in the order a strategy looks at them: by the profile's pre-sort, else unchanged."""
        return self._sort_by(pods, self._profile.presort, None)

    def sort(self, pods: Iterable[Pod], default: Callable[[Pod], Any] | None = None) -> list[Pod]:
        """Pods in the order a strategy proposes them: by the profile's sort, else by `default`."""
        return self._sort_by(pods, self._profile.sort, default)

    # -- proposals ------------------------------------------------------------------------------

    def propose(
        self, pod: Pod, *, because: str, onto: NodeSet | None = None, packing: bool = False
    ) -> Verdict:
        """Propose to move the pod; the verdict says whether it moves, and if not, why not.

        `onto` are the nodes that would be better for it by the plugin's own measure, where the
        plugin has one: without such a node that takes the pod, or if the scheduler would rather
        put it back, the move is refused. `packing` says that the plugin expects a scheduler that
        fills nodes up, which the forecast does not model.
        """
        return self._record(pod, self._admission.verdict(pod, onto, packing), because, onto)

    def decline(
        self, pod: Pod, objection: Refusal, *, because: str, onto: NodeSet | None = None
    ) -> None:
        """Record a refusal that `objection` returned, as if the pod had been proposed."""
        self._record(pod, verdict_of(objection), because, onto)

    def _record(self, pod: Pod, verdict: Verdict, because: str, onto: NodeSet | None) -> Verdict:
        self._verdicts[verdict.kind] += 1
        if verdict.admitted:
            self._admission.admitted_here.add(pod)
            lands_on = self._admission.likely_node(pod, onto)
            place_held = bool(lands_on) and self._admission.holds_place
            self._state.admit(
                Move(pod, self._plugin, self._profile.name, because, lands_on, place_held)
            )
        elif (
            self._state.has_earlier_rounds
            and verdict.is_leaving
            and self._state.take_up_earlier_move(pod)
        ):
            self._admission.admitted_here.add(pod)
        if refusal := verdict.refusal:
            if self._keeps_held_back and refusal.by in (LIMITS, BUDGET):
                move = Move(pod, self._plugin, self._profile.name, because)
                self.held_back.append(HeldBack(move, refusal))
            self._refusals[refusal.code] += 1
            if refusal.limit is not None:
                self._limited[refusal.limit, pod.namespace, pod.node] += 1
            if refusal.code not in self._says:
                self._says[refusal.code] = refusal.sentence
        if self._watched:
            self._record_proposal(pod, because, verdict, onto)
            sentence = f"{because}, but {refusal.sentence}" if refusal else because
            self.note(pod, refusal.code if refusal else verdict.kind, sentence)
        return verdict

    @property
    def keeps_notes(self) -> bool:
        """Whether some pod or node is watched; else notes need not be made."""
        return bool(self._watched)

    def note(self, subject: Pod | Node, code: str, says: str) -> None:
        """Keep a note about a pod or node if it is being watched."""
        if not self._watched:
            return
        name = subject.key if isinstance(subject, Pod) else subject.name
        if name in self._watched:
            self.notes.append(
                Note(
                    subject=name,
                    profile=self._profile.name,
                    plugin=self._plugin,
                    code=code,
                    says=says,
                )
            )

    def record_utilization(self, summary: NodeUtilizationSummary) -> None:
        """Record how full the plugin finds its nodes, for metrics; nothing is decided by it."""
        self._utilization_summaries.append(summary)

    def recall(self) -> Any:
        """What this plugin remembered in the cycle before, or None."""
        return self._view.history.get((self._profile.name, self._plugin))

    def remember(self, value: Any) -> None:
        """Keep a value for this plugin's next cycle; of JSON types, so that it can be recorded."""
        self.memory = value

    def run(self, point: ExtensionPoint, stopped: Stopped | None, error: str = "") -> PluginRun:
        """The summary of this plugin's turn."""
        return PluginRun(
            profile=self._profile.name,
            plugin=self._plugin,
            point=point,
            proposed=self._verdicts.total(),
            admitted=self._verdicts["admitted"],
            already_moving=self._verdicts["moving"],
            refused=dict(sorted(self._refusals.items())),
            for_instance=self._says,
            limited=tuple(Limited(*limit, count) for limit, count in sorted(self._limited.items())),
            stopped=stopped,
            error=error,
            utilization_summaries=tuple(self._utilization_summaries),
        )

    # -- within ---------------------------------------------------------------------------------

    def _record_proposal(
        self, pod: Pod, because: str, verdict: Verdict, onto: NodeSet | None
    ) -> None:
        """Keep the proposal and its verdict if the pod is being watched."""
        if pod.key in self._watched:
            self.proposals.append(
                Proposal(
                    subject=pod.key,
                    profile=self._profile.name,
                    plugin=self._plugin,
                    because=because,
                    verdict=verdict.kind,
                    refusals=self._admission.all_refusals(pod, verdict.refusal, onto),
                )
            )

    def _sort_by(
        self,
        pods: Iterable[Pod],
        sorters: tuple[Instance, ...],
        default: Callable[[Pod], Any] | None,
    ) -> list[Pod]:
        in_order = list(pods) if default is None else sorted(pods, key=default)
        if sorters:
            sort_keys = [instance.sort_key(self._view) for instance in sorters]
            in_order.sort(key=lambda pod: [sort_key(pod) for sort_key in sort_keys])
        return in_order
