"""Draws the plans of recorded cycles again, and finds what they decided about a pod.

A record has the moves but not the refusals, so those are found by drawing the plans again. A plan
that differs from the recorded one would explain another decision, so every cause of a difference
is an error: another version of resettle, a plugin that is missing or decides otherwise, history of
a plugin that could not be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct

from resettle.errors import InputError, PolicyError
from resettle.framework.descheduler import Descheduler, build_descheduler
from resettle.framework.plan import Plan
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds
from resettle.framework.plugin import Plugin
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.record.entry import digest
from resettle.record.reader import RecordedCycle, RecordReader


class ReplayedRound(NamedTuple):
    """One round of a cycle: the responses of earlier rounds, and the plan drawn after them."""

    earlier_rounds: EarlierRounds
    plan: Plan


class Replay(NamedTuple):
    """A recorded cycle whose plans were drawn again with the same result."""

    recorded: RecordedCycle
    descheduler: Descheduler
    snapshot: Snapshot
    rounds: tuple[ReplayedRound, ...]

    def deciding_round(self, key: str) -> int:
        """The index of the round that decided about a pod: where it was moved, or the last."""
        for number, planned in enumerate(self.recorded.entry.rounds):
            moves = (move for move in planned.moves if move.key == key)
            if any(not move.response.result.declined for move in moves):
                return number
        return len(self.rounds) - 1


def rebuild_descheduler(recorded: RecordedCycle, plugins: Mapping[str, Plugin]) -> Descheduler:
    """The descheduler of a recorded cycle; raises if its policy cannot be used any more."""
    try:
        policy = load_policy(
            recorded.policy,
            name=f"the policy of cycle {recorded.entry.cycle}",
            plugins=plugins,
            lenient=True,  # it was in force, so its problems were accepted
        )
    except PolicyError as error:
        raise InputError(
            f"{recorded.title} cannot be replayed: its policy cannot be used any more; "
            f"install the plugins that were installed at that time\n{error}"
        ) from None
    return build_descheduler(policy, plugins)


def replay_cycle(
    recorded: RecordedCycle,
    descheduler: Descheduler,
    snapshot: Snapshot,
    watching: Iterable[str] = (),
) -> Replay:
    """Draw the plans of a cycle again; the watched pods get all their proposals listed."""
    entry = recorded.entry
    if entry.forgotten:
        raise InputError(
            f"{recorded.title} cannot be replayed: the history of {', '.join(entry.forgotten)} "
            "is not made of plain values and could not be written"
        )
    earlier_rounds, acts = NO_EARLIER_ROUNDS, []
    for number, planned in enumerate(entry.rounds, 1):
        plan = descheduler.draw_plan(snapshot, watching=watching, earlier_rounds=earlier_rounds)
        if digest(plan) != planned.digest:
            raise InputError(
                f"{recorded.title} gives another plan now: round {number} had "
                f"{len(planned.moves)} moves then and has {len(plan.moves)} now, or other reasons; "
                "a plugin has changed since"
            )
        acts.append(ReplayedRound(earlier_rounds, plan))
        earlier_rounds = earlier_rounds.after(plan.moves, [move.response for move in planned.moves])
    return Replay(recorded, descheduler, snapshot, tuple(acts))


_REPEATED_CODES = ("", "already-planned", "declined")
"""Refusals that only repeat that the pod is being moved already; they are left out."""


class RecordedProposal(Struct, frozen=True, kw_only=True):
    """One time that a plugin proposed the pod."""

    recorded: RecordedCycle
    round: int
    verdict: str
    """How a move ended, or `refused`, or `moving` for a pod that was being moved already."""
    profile: str
    plugin: str
    because: str
    code: str = ""
    """The code of the refusal."""
    says: str = ""
    """The sentence of the refusal, or the message of the API server."""


class PodSearch:
    """Searches cycles for one pod; `gaps` holds why some could not be replayed."""

    def __init__(
        self, reader: RecordReader, pod: tuple[str, str], plugins: Mapping[str, Plugin]
    ) -> None:
        self._reader = reader
        self._pod = pod
        self._key = "/".join(pod)
        self._plugins = plugins
        self._kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
        self._deschedulers: dict[str, Descheduler] = {}
        self.gaps: dict[str, None] = {}
        self.cycles_with_pod = 0
        """In how many of the replayed cycles the pod existed."""

    def moves(self, cycles: Iterable[RecordedCycle]) -> Iterator[RecordedProposal]:
        """Yield every move of the pod."""
        for recorded in cycles:
            yield from self._moves(recorded)

    def proposals(self, cycles: Iterable[RecordedCycle]) -> Iterator[RecordedProposal]:
        """Yield every proposal of the pod, refused ones included."""
        for segment, members in groupby(cycles, key=lambda recorded: recorded.segment):
            wanted = list(members)
            seen = self._reader.snapshots(segment, self._kinds, until=wanted[-1])
            try:
                for recorded, snapshot in seen:
                    if recorded in wanted and snapshot.pod(*self._pod):
                        self.cycles_with_pod += 1
                        yield from self._proposals(recorded, snapshot)
            except InputError as error:
                self.gaps[str(error)] = None
                yield from self.moves(wanted)

    def _moves(self, recorded: RecordedCycle) -> Iterator[RecordedProposal]:
        for number, planned in enumerate(recorded.entry.rounds, 1):
            for move in planned.moves:
                if move.key == self._key:
                    yield RecordedProposal(
                        recorded=recorded,
                        round=number,
                        verdict=move.ending,
                        profile=move.profile,
                        plugin=move.plugin,
                        because=move.reason,
                        says=move.says,
                    )

    def _proposals(self, recorded: RecordedCycle, snapshot: Snapshot) -> Iterator[RecordedProposal]:
        moves = list(self._moves(recorded))
        yield from moves
        seen = set()
        replay = replay_cycle(recorded, self._descheduler(recorded), snapshot, watching=[self._key])
        for number, drawn in enumerate(replay.rounds, 1):
            for proposal in drawn.plan.proposals:
                refusal = proposal.refusals[0] if proposal.refusals else None
                code = refusal.code if refusal else ""
                if proposal.verdict == "admitted" or (moves and code in _REPEATED_CODES):
                    continue
                key = (proposal.profile, proposal.plugin, code)
                if key not in seen:
                    seen.add(key)
                    yield RecordedProposal(
                        recorded=recorded,
                        round=number,
                        verdict=proposal.verdict,
                        profile=proposal.profile,
                        plugin=proposal.plugin,
                        because=proposal.because,
                        code=code,
                        says=refusal.sentence if refusal else "",
                    )

    def _descheduler(self, recorded: RecordedCycle) -> Descheduler:
        descheduler = self._deschedulers.get(recorded.policy)
        if descheduler is None:
            descheduler = self._deschedulers[recorded.policy] = rebuild_descheduler(
                recorded, self._plugins
            )
        return descheduler
