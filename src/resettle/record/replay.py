"""Plans drawn again from a record, and held against what was written of them.

A plan that does not come out as it did then would be an answer to another question, so whatever
could make it differ is an error: another version of resettle, a plugin that is gone or decides
otherwise, memory that could not be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct

from resettle.errors import InputError, PolicyError
from resettle.framework.descheduler import Descheduler, assembled
from resettle.framework.plan import Plan
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds
from resettle.framework.plugin import Plugin
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.record.entry import digest
from resettle.record.reader import Book, Recorded


class Act(NamedTuple):
    """One round of a cycle: what became of earlier ones, and the plan that was drawn then."""

    earlier_rounds: EarlierRounds
    plan: Plan


class Replay(NamedTuple):
    """A recorded cycle that came out as it did then."""

    recorded: Recorded
    descheduler: Descheduler
    snapshot: Snapshot
    acts: tuple[Act, ...]

    def act_of(self, key: str) -> int:
        """Which round has the last word on a pod: the one that had it leave, or the last."""
        for number, one in enumerate(self.recorded.entry.rounds):
            if any(move.key == key and not move.outcome.ending.declined for move in one.moves):
                return number
        return len(self.acts) - 1


def descheduler_of(recorded: Recorded, plugins: Mapping[str, Plugin]) -> Descheduler:
    """The descheduler that was at work, if it can still be put together."""
    try:
        policy = load_policy(
            recorded.policy,
            name=f"the policy of cycle {recorded.entry.cycle}",
            plugins=plugins,
            forgiving=True,  # it was in force, so whatever is wrong with it was forgiven
        )
    except PolicyError as error:
        raise InputError(
            f"{recorded.named} cannot be drawn again: its policy cannot be used any more; "
            f"install the plugins that were there then\n{error}"
        ) from None
    return assembled(policy, plugins)


def replayed(
    recorded: Recorded,
    descheduler: Descheduler,
    snapshot: Snapshot,
    watching: Iterable[str] = (),
) -> Replay:
    """The cycle, drawn again round by round, with every word about what is being watched."""
    entry = recorded.entry
    if entry.forgotten:
        raise InputError(
            f"{recorded.named} cannot be drawn again: what {', '.join(entry.forgotten)} remembered "
            "was not made of plain values and could not be written"
        )
    earlier_rounds, acts = NO_EARLIER_ROUNDS, []
    for number, one in enumerate(entry.rounds, 1):
        plan = descheduler.draw_plan(snapshot, watching=watching, earlier_rounds=earlier_rounds)
        if digest(plan) != one.digest:
            raise InputError(
                f"{recorded.named} does not come out as it did: round {number} moved "
                f"{len(one.moves)} then and {len(plan.moves)} now, or for other reasons; "
                "a plugin has changed since"
            )
        acts.append(Act(earlier_rounds, plan))
        earlier_rounds = earlier_rounds.after(plan.moves, [move.outcome for move in one.moves])
    return Replay(recorded, descheduler, snapshot, tuple(acts))


_ECHOES = ("", "already-planned", "declined")
"""What is said, once a pod has been asked to leave, to whoever proposes it again."""


class Finding(Struct, frozen=True, kw_only=True):
    """One time that a plugin proposed the pod."""

    recorded: Recorded
    round: int
    verdict: str
    """How a move ended, or `refused`, or `moving` for a pod that was on its way already."""
    profile: str
    plugin: str
    because: str
    code: str = ""
    """Of the refusal."""
    says: str = ""
    """The refusal, or what the API server said."""


class Search:
    """Goes through cycles for a pod; `gaps` holds why some of them could not be asked."""

    def __init__(self, book: Book, pod: tuple[str, str], plugins: Mapping[str, Plugin]) -> None:
        self._book = book
        self._pod = pod
        self._key = "/".join(pod)
        self._plugins = plugins
        self._kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
        self._made: dict[str, Descheduler] = {}
        self.gaps: dict[str, None] = {}
        self.known = 0
        """How many of the cycles that were asked knew the pod."""

    def moves(self, cycles: Iterable[Recorded]) -> Iterator[Finding]:
        """Every time it was asked to leave."""
        for recorded in cycles:
            yield from self._moves(recorded)

    def everything(self, cycles: Iterable[Recorded]) -> Iterator[Finding]:
        """Every time it was proposed."""
        for segment, members in groupby(cycles, key=lambda it: it.segment):
            wanted = list(members)
            seen = self._book.snapshots(segment, self._kinds, until=wanted[-1])
            try:
                for recorded, snapshot in seen:
                    if recorded in wanted and snapshot.pod(*self._pod):
                        self.known += 1
                        yield from self._proposals(recorded, snapshot)
            except InputError as error:
                self.gaps[str(error)] = None
                yield from self.moves(wanted)

    def _moves(self, recorded: Recorded) -> Iterator[Finding]:
        for number, one in enumerate(recorded.entry.rounds, 1):
            for move in one.moves:
                if move.key == self._key:
                    yield Finding(
                        recorded=recorded,
                        round=number,
                        verdict=move.ending,
                        profile=move.profile,
                        plugin=move.plugin,
                        because=move.reason,
                        says=move.says,
                    )

    def _proposals(self, recorded: Recorded, snapshot: Snapshot) -> Iterator[Finding]:
        moves = list(self._moves(recorded))
        yield from moves
        told = set()
        replay = replayed(recorded, self._descheduler(recorded), snapshot, watching=[self._key])
        for number, act in enumerate(replay.acts, 1):
            for it in act.plan.proposals:
                refusal = it.refusals[0] if it.refusals else None
                code = refusal.code if refusal else ""
                if it.verdict == "admitted" or (moves and code in _ECHOES):
                    continue
                if (it.profile, it.plugin, code) not in told:
                    told.add((it.profile, it.plugin, code))
                    yield Finding(
                        recorded=recorded,
                        round=number,
                        verdict=it.verdict,
                        profile=it.profile,
                        plugin=it.plugin,
                        because=it.because,
                        code=code,
                        says=refusal.sentence if refusal else "",
                    )

    def _descheduler(self, recorded: Recorded) -> Descheduler:
        made = self._made.get(recorded.policy)
        if made is None:
            made = self._made[recorded.policy] = descheduler_of(recorded, self._plugins)
        return made
