"""Tells the story from beginning to end, and keeps what a report needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from resettle.cli.demonstration import telling
from resettle.cli.demonstration.acts import ACTS, Act
from resettle.cli.demonstration.cycles import INTERVAL, Carried, Player
from resettle.cli.demonstration.stage import Stage
from resettle.cli.render import Paint
from resettle.simulate.loads import loads
from resettle.simulate.scheduler import why_they_wait
from resettle.simulate.story import Chapter, Story, settled_after
from resettle.simulate.troubles import troubles

MOST_CYCLES = 4
"""Cycles in one act, unless nothing moves before."""


class Teller:
    """Tells as it happens: `say` gets each paragraph once it is so."""

    def __init__(
        self, stage: Stage, player: Player, say: Callable[[str], None], paint: Paint, columns: int
    ) -> None:
        self._stage = stage
        self._player = player
        self._say_text = say
        self._paint = paint
        self._columns = columns
        self._carried: list[Carried] = []
        self._chapters: list[Chapter] = []

    def story(self, policy: str) -> Story:
        """All acts, told; what comes back is the story as the report knows it."""
        first = self._player.look()
        self._say(telling.opening(len(first.population), len(first.fleet.nodes), self._columns))
        for number, act in enumerate(ACTS, 1):
            self._act(number, act)
        self._rest()
        last = self._player.look()
        waits = why_they_wait(last)
        self._say(telling.summary(self._carried, waits, self._paint))
        return Story(
            policy=policy,
            taken_at=first.taken_at,
            interval=INTERVAL,
            pods=len(first.population),
            loads=loads(first),
            troubles=troubles(first),
            chapters=tuple(self._chapters),
            waits=waits,
        )

    def _act(self, number: int, act: Act) -> None:
        more = act.happens(self._stage)
        self._player.disturbed()
        before = loads(self._player.look())
        self._say(telling.heading(number, len(ACTS), act, more, self._paint, self._columns))
        self._say(telling.bars(before, before, self._paint, self._columns))
        for turn in range(MOST_CYCLES):
            carried = self._cycle(act if turn == 0 else None)
            self._say(telling.cycle(carried, self._paint, self._columns))
            if not carried.cycle.plan.moves:
                break
        after = self._player.look()
        self._say(telling.bars(loads(after), before, self._paint, self._columns))
        self._say(telling.waiting(why_they_wait(after), self._columns))

    def _rest(self) -> None:
        """Quiet cycles at the end, until the cluster can be called settled, or it cannot."""
        for _ in range(MOST_CYCLES):
            carried = self._cycle()
            if carried.cycle.plan.moves:
                self._say(telling.cycle(carried, self._paint, self._columns))
            if settled_after([it.cycle for it in self._carried]) is not None:
                self._say(telling.settled(carried, self._paint))
                return

    def _cycle(self, act: Act | None = None) -> Carried:
        """One more cycle, the first of an act or any other."""
        meddled = act is not None and act.meddled
        carried = self._player.cycle(meddled=meddled, disturbed=act is not None)
        self._carried.append(carried)
        self._chapters.append(Chapter(carried.cycle, (act.title,) if act else ()))
        return carried

    def _say(self, lines: Iterable[str]) -> None:
        if text := "\n".join(lines):
            self._say_text(text)
