"""One plan, drawn while some pods and nodes are watched, and what can be asked of it afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from resettle.explain.stage import Stage
from resettle.framework.plan import Move, Note, PluginRun, Proposal
from resettle.framework.profile import Instance, Profile
from resettle.model.pod import Pod
from resettle.policy.known import STRATEGY_POINTS


class Turn(NamedTuple):
    """One plugin's turn: whose it was, and what came of it; no run where none took place."""

    profile: Profile
    instance: Instance
    run: PluginRun | None


class Watched:
    """A plan, the cluster as its policy sees it, and every word about what is being watched."""

    def __init__(self, stage: Stage, watching: Iterable[str]) -> None:
        self.descheduler = stage.descheduler
        self.view = stage.descheduler.view(stage.snapshot)
        self.plan = stage.plan(*watching)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """All turns in the order they were taken."""
        whose = [
            (profile, instance)
            for point in STRATEGY_POINTS
            for profile in self.descheduler.profiles
            for instance in profile.strategies(point)
        ]
        runs: Iterator[PluginRun] = iter(self.plan.runs)
        return tuple(Turn(profile, instance, next(runs, None)) for profile, instance in whose)

    @cached_property
    def _moves(self) -> dict[str, Move]:
        return {move.pod.key: move for move in self.plan.moves}

    @cached_property
    def _proposals(self) -> dict[str, list[Proposal]]:
        found: dict[str, list[Proposal]] = {}
        for proposal in self.plan.proposals:
            found.setdefault(proposal.subject, []).append(proposal)
        return found

    @cached_property
    def _notes(self) -> dict[tuple[str, str, str], Note]:
        return {(note.subject, note.profile, note.plugin): note for note in self.plan.notes}

    def move_of(self, pod: Pod) -> Move | None:
        """The move of this pod, if it goes."""
        return self._moves.get(pod.key)

    def earlier(self, move: Move, turn: Turn) -> bool:
        """Whether the move was entered in a turn before this one."""
        before = self.turns[: self.turns.index(turn)]
        return any(
            (it.profile.name, it.instance.name) == (move.profile, move.plugin) for it in before
        )

    def proposals_of(self, pod: Pod) -> list[Proposal]:
        """All proposals of the pod."""
        return self._proposals.get(pod.key, [])

    def note_on(self, subject: str, turn: Turn) -> Note | None:
        """What the plugin itself said of a pod or node in its turn, if it said anything."""
        return self._notes.get((subject, turn.profile.name, turn.instance.name))
