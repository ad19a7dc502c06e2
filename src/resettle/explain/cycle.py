"""The answer about a whole cycle: what each plugin did, why it stopped, and what came close.

`WatchedPlan` is also what the answers about pods and nodes are read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from resettle.explain.what_if import PlanInputs
from resettle.framework.plan import Move, Note, Plan, PluginRun, Proposal
from resettle.framework.profile import Instance, Profile
from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.policy.args import ExtensionPoint

MOST_NEAR_MISSES = 3


class PluginTurn(NamedTuple):
    """The turn of one plugin in a plan; without a run if it did not take place."""

    profile: Profile
    instance: Instance
    run: PluginRun | None


class WatchedPlan:
    """A plan drawn while pods and nodes are watched, and the cluster as its policy reads it."""

    def __init__(self, inputs: PlanInputs, watching: Iterable[str]) -> None:
        self.descheduler = inputs.descheduler
        self.view = inputs.descheduler.view(inputs.snapshot)
        self.plan = inputs.draw_plan(*watching)

    @cached_property
    def turns(self) -> tuple[PluginTurn, ...]:
        """All turns in the order they were taken."""
        order = [
            (profile, instance)
            for point in ("deschedule", "balance")
            for profile in self.descheduler.profiles
            for instance in getattr(profile, point)
        ]
        runs: Iterator[PluginRun] = iter(self.plan.runs)
        return tuple(PluginTurn(profile, instance, next(runs, None)) for profile, instance in order)

    @cached_property
    def _moves(self) -> dict[str, Move]:
        return {move.pod.key: move for move in self.plan.moves}

    @cached_property
    def _proposals(self) -> dict[str, list[Proposal]]:
        by_subject: dict[str, list[Proposal]] = {}
        for proposal in self.plan.proposals:
            by_subject.setdefault(proposal.subject, []).append(proposal)
        return by_subject

    @cached_property
    def _notes(self) -> dict[tuple[str, str, str], Note]:
        return {(note.subject, note.profile, note.plugin): note for note in self.plan.notes}

    def move_of(self, pod: Pod) -> Move | None:
        """The move of this pod, if it moves."""
        return self._moves.get(pod.key)

    def is_from_earlier_turn(self, move: Move, turn: PluginTurn) -> bool:
        """Whether the move was entered in a turn before this one."""
        earlier = self.turns[: self.turns.index(turn)]
        return any(
            (before.profile.name, before.instance.name) == (move.profile, move.plugin)
            for before in earlier
        )

    def proposals_of(self, pod: Pod) -> list[Proposal]:
        """All proposals of the pod."""
        return self._proposals.get(pod.key, [])

    def note_on(self, subject: str, turn: PluginTurn) -> Note | None:
        """The note that the plugin left about a pod or node in its turn, if any."""
        return self._notes.get((subject, turn.profile.name, turn.instance.name))


class PluginAnswer(Struct, frozen=True, kw_only=True):
    """One plugin's turn, and the pods or nodes that it came closest to acting on."""

    profile: str
    plugin: str
    point: ExtensionPoint
    run: PluginRun | None
    near_misses: tuple[str, ...] = ()


class CycleAnswer(Struct, frozen=True, kw_only=True):
    """A cycle's plan, and an answer for each plugin's turn."""

    plan: Plan
    plugins: tuple[PluginAnswer, ...]


def explain_cycle(inputs: PlanInputs) -> CycleAnswer:
    """The answer about the cycle that these inputs lead to."""
    watched = WatchedPlan(inputs, ())
    return CycleAnswer(
        plan=watched.plan, plugins=tuple(_plugin(watched, turn) for turn in watched.turns)
    )


def _plugin(watched: WatchedPlan, turn: PluginTurn) -> PluginAnswer:
    return PluginAnswer(
        profile=turn.profile.name,
        plugin=turn.instance.name,
        point=turn.instance.point,
        run=turn.run,
        near_misses=_near_misses(watched.view, turn),
    )


def _near_misses(view: View, turn: PluginTurn) -> tuple[str, ...]:
    if turn.run is None or turn.run.error:
        return ()
    try:
        close = turn.instance.plugin.near_misses(turn.instance.args, view)
        return tuple(islice(close, MOST_NEAR_MISSES))
    except Exception:
        return ()  # near misses are an extra; the answer is complete without them
