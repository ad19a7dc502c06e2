"""Two policies side by side: cycle by cycle, and by the figures they are judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest

from resettle.cli.text.plan import Paint
from resettle.cli.text.terminal import aligned
from resettle.simulate.measures import broken
from resettle.simulate.result import Chapter, Story, fullest
from resettle.text import shortened

NAME_ROOM = 24


def compared(stories: Sequence[Story]) -> Iterator[str]:
    """A line of each policy for each cycle; quiet ones in a row that read alike share one."""
    lines = [("", *(shortened(story.policy, NAME_ROOM) for story in stories))]
    outside: dict[int, tuple[str, ...]] = {}
    alike: list[Chapter] = []
    for chapters in zip_longest(*(story.chapters for story in stories)):
        first = next(chapter for chapter in chapters if chapter)
        told = tuple(map(_in_short, chapters))
        quiet = all(chapter is None or chapter.cycle.quiet for chapter in chapters)
        if quiet and told == lines[-1][1:]:
            alike.append(first)
            lines[-1] = (f"cycles {alike[0].cycle.number} to {first.cycle.number}", *told)
            continue
        alike = [first]
        outside[len(lines)] = first.events
        lines.append((when([first]), *told))
    for i, line in enumerate(aligned(lines, 0)):
        yield from (f"outside: {says}" for says in outside.get(i, ()))
        yield line


def when(chapters: Sequence[Chapter]) -> str:
    """Number and time of a cycle, or of several in a row."""
    first, last = chapters[0].cycle, chapters[-1].cycle
    if first is last:
        return f"cycle {first.number}, {first.at:%H:%M:%S}"
    return f"cycles {first.number} to {last.number}, {first.at:%H:%M:%S} to {last.at:%H:%M:%S}"


def _in_short(chapter: Chapter | None) -> str:
    if chapter is None:
        return "settled"
    cycle = chapter.cycle
    returned = sum(landing.returned for landing in cycle.landings)
    parts = [
        f"{len(cycle.tainted)} tainted" if cycle.tainted else "",
        f"{len(cycle.landings)} moved" if cycle.landings else "",
        f"{returned} back" if returned else "",
        f"{len(cycle.came_in)} came in" if cycle.came_in else "",
        f"{cycle.waiting} wait" if cycle.waiting else "",
    ]
    return ", ".join(part for part in parts if part) or "-"


FIGURES: Mapping[str, Callable[[Story], str]] = {
    "moves": lambda story: f"{story.moves:,}",
    "moves for nothing": lambda story: f"{story.returned:,}",
    "ping-pong": lambda story: f"{sum(it.times for it in story.ping_pong):,}",
    "most moved workload": lambda story: f"{max(story.restarts.values(), default=0):,}",
    "pods that wait": lambda story: f"{len(story.waits):,}",
    "rules broken": lambda story: f"{broken(story.cycles[-1].troubles):,}",
    "settled": lambda story: _settled(story),
}
"""What two policies are compared by."""


def side_by_side(stories: Sequence[Story], paint: Paint) -> Iterator[str]:
    """A line for each figure, a column for each policy."""
    head = ("", *(shortened(story.policy, NAME_ROOM) for story in stories))
    lines = [(name, *map(figure, stories)) for name, figure in FIGURES.items()]
    if any(map(fullest, stories)):
        lines.append(("fullest by query", *(fullest(story) or "-" for story in stories)))
    first, *rest = aligned([head, *lines], 0)
    yield paint("bold", first)
    yield from rest


def _settled(story: Story) -> str:
    after = story.settled_after
    return "not" if after is None else f"after cycle {after}" if after else "from the start"
