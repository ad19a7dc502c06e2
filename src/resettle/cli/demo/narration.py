"""The story in words and bars, for terminals of any width.

Tells the story from beginning to end, and keeps what a report needs.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from resettle.cli.demo.cluster import INTERVAL, TOO_MANY, Carried, Player, Stage
from resettle.cli.demo.scenario import ACTS, NODES, Act
from resettle.cli.text.plan import Paint, bar
from resettle.cli.text.terminal import aligned, padded
from resettle.framework.codes import REASONS
from resettle.framework.plan import Move, Plan
from resettle.simulate.measures import Load, loads, troubles
from resettle.simulate.result import Chapter, Story, settled_after
from resettle.simulate.scheduler import Waits, why_they_wait
from resettle.text import counted, shortened

_BAR = 32
"""Columns of a bar with its figures."""
_WIDE = 2 * _BAR + 26
"""From so many columns on there is room for two bars in a line."""


def opening(pods: int, nodes: int, columns: int) -> Iterator[str]:
    """What is about to happen, in a sentence or two."""
    yield from wrapped(
        f"A small shop, {counted(pods, 'pod')} on {counted(nodes, 'node')} in 3 zones, on an API "
        "server within this process. Plans and evictions go over HTTP as they would on a cluster "
        "of yours; nothing outside is touched, and the clock is wound by hand.",
        columns,
    )


def heading(
    number: int, acts: int, act: Act, more: Iterable[str], paint: Paint, columns: int
) -> Iterator[str]:
    """The title of an act, and what has happened."""
    yield paint("bold", f"{number} of {acts}  {act.title}")
    yield from wrapped(" ".join([act.says, *more]), columns)


def wrapped(text: str, columns: int, indent: str = "", first: str | None = None) -> Iterator[str]:
    """A paragraph, not wider than is good to read."""
    yield from textwrap.wrap(
        text,
        min(columns, 100),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


# -- a cycle --------------------------------------------------------------------------------------


def cycle(carried: Carried, paint: Paint, columns: int) -> Iterator[str]:
    """What was planned, what the API server said, and where the pods went."""
    done, plan = carried.cycle, carried.cycle.plan
    when = paint("bold", f"{done.at:%H:%M}")
    if not plan.moves:
        yield f"{when}  plan: nothing would move"
        yield from _held_back(plan, columns)
        return
    yield f"{when}  plan: {counted(len(plan.moves), 'pod')} would move"
    yield from _moves(plan.moves, paint, columns)
    yield from _held_back(plan, columns)
    if victim := carried.meddled_with:
        says = f"meanwhile somebody deletes {victim.key} by hand, and its budget is spent"
        yield from wrapped(says, columns, " " * 7)
    yield from _answers(carried, columns)


def _moves(moves: Sequence[Move], paint: Paint, columns: int) -> Iterator[str]:
    """Who goes where and why: the reason beside it where there is room, else above."""
    cells = [(it.pod.key, _way(it)) for it in moves]
    reasons = [f"{it.plugin}: {it.reason}" for it in moves]
    lines = list(aligned(cells, 7))
    start = max(map(len, lines)) + 2
    if start + max(map(len, reasons)) <= columns:
        for line, reason in zip(lines, reasons, strict=True):
            yield f"{line.ljust(start)}{paint('dim', reason)}"
        return
    together = zip(reasons, aligned(cells, 9), strict=True)
    for reason, group in groupby(together, key=lambda it: it[0]):
        yield from (paint("dim", it) for it in wrapped(reason, columns, " " * 7))
        yield from (line for _, line in group)


def _way(move: Move) -> str:
    """The node a pod leaves, and the one it will likely come to where that is foretold."""
    return f"{move.pod.node} → {move.lands_on}" if move.lands_on else f"off {move.pod.node}"


def _held_back(plan: Plan, columns: int) -> Iterator[str]:
    """That more would have gone but for a budget or a limit."""
    for code in plan.refused:
        if code == "budget" or code.startswith("limit-"):
            says = f"more would go, but {REASONS.get(code, code)}"
            yield from wrapped(says, columns, " " * 7)


def _answers(carried: Carried, columns: int) -> Iterator[str]:
    granted = _evicted(carried)
    if granted:
        yield from wrapped(_granted(carried, granted), columns, " " * 7)
    for move, answer in carried.answers:
        if not answer.granted:
            again = "; the next cycle tries again" if answer.code == TOO_MANY else ""
            says = f"{answer.code} for {move.pod.key}: {answer.says.rstrip('.')}{again}"
            yield from wrapped(says, columns, " " * 7)


def _granted(carried: Carried, granted: Sequence[Move]) -> str:
    """How many were evicted, and whether their replacements went where the plan had said."""
    landings = carried.cycle.landings
    strays = [
        f"{landing.pod.key} to {landing.node or 'nowhere yet'}"
        for move, landing in zip(granted, landings, strict=True)
        if move.lands_on and landing.node != move.lands_on
    ]
    evicted = f"{counted(len(granted), 'pod')} evicted"
    if not any(move.lands_on for move in granted):
        return evicted
    if strays:
        return f"{evicted}; other than foretold went {', '.join(strays)}"
    whose = "its replacement runs" if len(granted) == 1 else "all replacements run"
    return f"{evicted}; {whose} where the plan had said"


# -- nodes ----------------------------------------------------------------------------------------


def bars(
    now: Mapping[str, Load], before: Mapping[str, Load], paint: Paint, columns: int
) -> Iterator[str]:
    """The nodes as they are, and as they were where that differs."""
    two = columns >= _WIDE
    heads = ("ZONE", "NODE", "CPU REQUESTED", "MEMORY REQUESTED" if two else "MEMORY", "PODS")
    widths = (6, 4, _BAR, _BAR if two else 11, 0)
    plain = Paint(False)
    yield paint("dim", padded(heads, heads, widths))
    zone = ""
    for name, load in now.items():
        was = before.get(name, load)
        cells = [NODES.get(name, "") if NODES.get(name, "") != zone else "", shortened(name, 20)]
        zone, bare = NODES.get(name, ""), list(cells)
        for share, earlier in ((load.cpu, was.cpu), (load.memory, was.memory)):
            kept = None if share is None or earlier is None else min(share, earlier)
            if len(cells) == 2 or two:
                cells.append(bar(earlier, share, paint, kept))
                bare.append(bar(earlier, share, plain, kept))
            else:
                cells.append(_figures(earlier, share))
                bare.append(cells[-1])
        pods = f"{was.pods} → {load.pods}" if was.pods != load.pods else str(load.pods)
        yield padded([*cells, pods], [*bare, pods], widths)


def _figures(was: float | None, now: float | None) -> str:
    if was is None or now is None:
        return "-"
    return f"{now:3.0f}%" if round(was) == round(now) else f"{was:3.0f}% → {now:.0f}%"


# -- the end --------------------------------------------------------------------------------------


def settled(last: Carried, paint: Paint) -> Iterator[str]:
    """That nothing moves any more."""
    when = paint("bold", f"{last.cycle.at:%H:%M}")
    yield f"{when}  still nothing would move: the shop has settled"


def waiting(waits: Sequence[Waits], columns: int) -> Iterator[str]:
    """Pods without a node, and why."""
    for it in waits:
        yield from wrapped(f"waits: {it.pod.key}: {it.why}", columns)


def summary(carried: Sequence[Carried], waits: Sequence[Waits], paint: Paint) -> Iterator[str]:
    """What it all came to."""
    answers = [answer for it in carried for _, answer in it.answers]
    refused = Counter(answer.code for answer in answers if not answer.granted)
    landings = [landing for it in carried for landing in it.cycle.landings]
    again = sum(len(it.cycle.ping_pong) for it in carried)
    declined = ", ".join(_declined(code, count) for code, count in sorted(refused.items()))
    yield paint("bold", "In the end")
    rows = [
        ("cycles", str(len(carried))),
        ("pods moved", f"{len(landings)}{_as_foretold(carried)}"),
        ("evictions declined", declined or "0"),
        ("moved for nothing", str(sum(it.returned for it in landings))),
        ("moved to and fro", str(again)),
        ("waiting for a node", str(len(waits))),
    ]
    yield from aligned(rows)


def _as_foretold(carried: Sequence[Carried]) -> str:
    """How many replacements went where a plan had said, if plans had said so."""
    pairs = [
        (move.lands_on, landing.node)
        for it in carried
        for move, landing in zip(_evicted(it), it.cycle.landings, strict=True)
        if move.lands_on
    ]
    if not pairs:
        return ""
    return f", {sum(said == found for said, found in pairs)} of them to the node the plan had named"


def _evicted(carried: Carried) -> list[Move]:
    return [move for move, answer in carried.answers if answer.granted]


def _declined(code: int, count: int) -> str:
    return f"{count} by a disruption budget" if code == TOO_MANY else f"{count} with {code}"


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
        self._say(opening(len(first.population), len(first.fleet.nodes), self._columns))
        for number, act in enumerate(ACTS, 1):
            self._act(number, act)
        self._rest()
        last = self._player.look()
        waits = why_they_wait(last)
        self._say(summary(self._carried, waits, self._paint))
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
        self._say(heading(number, len(ACTS), act, more, self._paint, self._columns))
        self._say(bars(before, before, self._paint, self._columns))
        for turn in range(MOST_CYCLES):
            carried = self._cycle(act if turn == 0 else None)
            self._say(cycle(carried, self._paint, self._columns))
            if not carried.cycle.plan.moves:
                break
        after = self._player.look()
        self._say(bars(loads(after), before, self._paint, self._columns))
        self._say(waiting(why_they_wait(after), self._columns))

    def _rest(self) -> None:
        """Quiet cycles at the end, until the cluster can be called settled, or it cannot."""
        for _ in range(MOST_CYCLES):
            carried = self._cycle()
            if carried.cycle.plan.moves:
                self._say(cycle(carried, self._paint, self._columns))
            if settled_after([it.cycle for it in self._carried]) is not None:
                self._say(settled(carried, self._paint))
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
