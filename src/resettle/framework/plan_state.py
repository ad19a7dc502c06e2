"""What a plan holds so far, and the results of earlier rounds of the same cycle.

A plan that the API server declined in part is drawn again from the same snapshot. Pods that left
meanwhile count as moving once the plan comes to them; limits and budgets count them from the
start, so that all rounds together never do more than one alone may do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from msgspec import Struct, structs

from resettle.framework.limits import CycleLimits, DisruptionBudgets
from resettle.framework.mover import MoveResponse, MoveResult
from resettle.framework.plan import Move
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.policy.document import Limits


class EarlierRounds(Struct, frozen=True):
    """The results of the moves of earlier rounds, by the uid of the pod."""

    moves: Mapping[str, Move] = {}
    """Moves that were carried out."""
    absent: frozenset[str] = frozenset()
    """Pods that were not there any more and needed no move."""
    refusals: Mapping[str, Refusal] = {}
    """Why pods stayed that were asked to leave."""

    def after(self, moves: Iterable[Move], responses: Iterable[MoveResponse]) -> Self:
        """These rounds and one more, in which the moves had these responses."""
        made, absent, refusals = dict(self.moves), set(self.absent), dict(self.refusals)
        for move, response in zip(moves, responses, strict=True):
            uid = move.pod.uid
            if response.result.counts_as_leaving:
                made[uid] = move
            elif response.result is MoveResult.GONE:
                absent.add(uid)
            elif response.result.declined:
                refusals[uid] = _refusal_after(response)
        return type(self)(made, frozenset(absent), refusals)


def _refusal_after(response: MoveResponse) -> Refusal:
    if not response.message:
        return Refusal("declined", "was not moved when it was asked to leave", "mover")
    return Refusal(
        "declined", "was asked to leave and stays: {says}", "mover", {"says": response.message}
    )


NO_EARLIER_ROUNDS = EarlierRounds()


class PlanState:
    """The admitted moves, with the limits, budgets and projection that follow from them."""

    def __init__(
        self, view: View, limits: Limits, earlier_rounds: EarlierRounds = NO_EARLIER_ROUNDS
    ) -> None:
        self._view = view
        self._earlier = earlier_rounds
        self.has_earlier_rounds = earlier_rounds is not NO_EARLIER_ROUNDS
        """Whether an earlier plan was drawn from the same snapshot."""
        self.limits = CycleLimits(limits, len(view.pod_index), len(view.nodes))
        self.budgets = DisruptionBudgets(view.snapshot)
        self.moves: list[Move] = []
        self._leaving: set[Pod] = set()
        for pod in view.leaving.pods.values():
            self.limits.count(pod)
        for move in earlier_rounds.moves.values():
            self.limits.count_awaited(move.pod)
            self.budgets.spend(move.pod)
            view.leaving.add(move.pod)

    def is_admitted(self, pod: Pod) -> bool:
        """Whether a move of the pod is in the plan."""
        return pod in self._leaving

    def as_planned(self, pod: Pod) -> Pod:
        """The pod as the rest of the cycle sees it: terminating once it is admitted."""
        return structs.replace(pod, terminating=True) if pod in self._leaving else pod

    def admit(self, move: Move) -> None:
        """Add a move to the plan, and count it towards limits, budgets and projection."""
        self.moves.append(move)
        self.limits.count(move.pod)
        self.budgets.spend(move.pod)
        self._view.leaving.add(move.pod)
        self._project(move)

    def has_left_before(self, pod: Pod) -> bool:
        """Whether the pod left in an earlier round of this cycle."""
        return pod.uid in self._earlier.moves or pod.uid in self._earlier.absent

    def take_up_earlier_move(self, pod: Pod) -> bool:
        """Let the plan see a move of an earlier round; False if there is none, or it does so."""
        move = self._earlier.moves.get(pod.uid)
        if move is None or pod in self._leaving:
            return False
        self._project(move)
        self.limits.end_awaiting(pod)
        return True

    def refusal_before(self, pod: Pod) -> Refusal | None:
        """Why the pod stayed when it was asked to leave in an earlier round of this cycle."""
        return self._earlier.refusals.get(pod.uid)

    def _project(self, move: Move) -> None:
        self._leaving.add(move.pod)
        if move.lands_on:
            self._view.projection.move(move.pod, move.lands_on)
