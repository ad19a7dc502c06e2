"""What a simulation came to: when it settled, who plays ping-pong, who waits, who moved most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from resettle.cli.lines import Row, counted, rows
from resettle.cli.render import Paint
from resettle.cli.story_compared import fullest
from resettle.simulate.story import Story

MOST_NAMES = 5


def ending(story: Story, paint: Paint, columns: int, *, named: bool) -> Iterator[str]:
    """When it settled, who plays ping-pong, who waits, who was moved most."""
    of = f"{story.policy}: " if named else ""
    yield paint("bold", f"{of}{settling(story)}")
    said = []
    if not named:
        said.append(Row("moves", "", _moves_in_all(story)))
        if measured := fullest(story):
            said.append(Row("by query", "", f"the fullest node {measured}"))
    if story.stopped_early:
        said.append(Row("stopped", "", f"after cycle {story.cycles[-1].number}; --cycles runs on"))
    said += _first("ping-pong", [str(rally) for rally in story.ping_pong], "workload")
    said += _first("waits", [f"{it.pod.key}: {it.why}" for it in story.waits], "pod")
    moved_most = [f"{times:,} of {name}" for name, times in story.restarts.items()]
    if moved_most:
        more = len(moved_most) - MOST_NAMES
        some = moved_most[:MOST_NAMES] + ([counted(more, "more workload")] if more > 0 else [])
        said.append(Row("restarts", "", ", ".join(some)))
    yield from rows(said, paint, columns)


def _first(verb: str, said: Sequence[str], noun: str) -> Iterator[Row]:
    """The first few of these sentences, and how many others there are."""
    yield from (Row(verb, "", says) for says in said[:MOST_NAMES])
    if len(said) > MOST_NAMES:
        yield Row("", "", f"and {counted(len(said) - MOST_NAMES, f'more {noun}')}")


def settling(story: Story) -> str:
    """When the cluster came to rest, or that it has not."""
    after, cycles = story.settled_after, story.cycles
    if after == 0:
        return f"settled from the start: nothing moved in {counted(len(cycles), 'cycle')}"
    if after is not None:
        return f"settled after cycle {after}: nothing has moved since"
    if cycles[-1].landings:
        last = counted(len(cycles[-1].landings), "pod")
        return f"not settled: {last} moved in cycle {cycles[-1].number}, the last"
    return "nothing moved in the last cycle, which is too early to call it settled"


def _moves_in_all(story: Story) -> str:
    returned = f", {story.returned:,} of them for nothing" if story.returned else ""
    return f"{story.moves:,} in {counted(len(story.cycles), 'cycle')}{returned}"
