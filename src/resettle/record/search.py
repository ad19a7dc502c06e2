"""Where a pod turns up in a record: who wanted it when, and what came of it.

Who moved stands in the record. Who was refused does not: plans are drawn again with the pod being
watched, each from the snapshot before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from msgspec import Struct

from resettle.errors import InputError
from resettle.framework.descheduler import Descheduler
from resettle.framework.plugin import Plugin
from resettle.model.snapshot import Snapshot
from resettle.record.book import Book, Recorded
from resettle.record.replay import descheduler_of, replayed

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
