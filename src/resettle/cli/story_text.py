"""A simulation as a person reads it: a block for each cycle, then what it all came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from resettle.cli.columns import aligned, shortened, span, widest
from resettle.cli.lines import Row, counted, rows
from resettle.cli.render import Paint
from resettle.cli.story_bars import MOST_NODES, bars
from resettle.cli.story_compared import compared, side_by_side, when
from resettle.cli.story_ending import ending
from resettle.model.taint import Taint
from resettle.simulate.simulation import Cycle, Landing
from resettle.simulate.story import Chapter, Story
from resettle.simulate.troubles import PENDING

MOST_MOVES = 12
TIMES = {1: "once", 2: "twice"}


def stories_text(stories: Sequence[Story], paint: Paint, columns: int) -> str:
    """One policy cycle by cycle, or two side by side, and what came of it."""
    first, *others = stories
    blocks = [[opening(first)]]
    if others:
        blocks.append([*compared(stories)])
        blocks.append([*side_by_side(stories, paint)])
    else:
        blocks += _cycles(first, paint, columns)
    for story in stories:
        blocks.append([*ending(story, paint, columns, named=bool(others))])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def opening(story: Story) -> str:
    """What is simulated."""
    there = f"{counted(story.pods, 'pod')} on {counted(len(story.loads), 'node')}"
    start = story.taken_at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{there}, a cycle every {span(story.interval)} from {start}."


def _cycles(story: Story, paint: Paint, columns: int) -> list[list[str]]:
    """A block for each cycle; cycles in a row in which nothing happens share one."""
    blocks = []
    broken: Mapping[str, int] = story.troubles
    for (quiet, *_), group in groupby(story.chapters, key=_alike):
        chapters = list(group)
        if quiet:
            blocks.append([*_nothing_moved(chapters, paint, columns)])
            continue
        for chapter in chapters:
            blocks.append([*_cycle(chapter, broken, paint, columns)])
            broken = chapter.cycle.troubles
    return blocks


def _alike(chapter: Chapter) -> tuple[bool, tuple[str, ...]]:
    """By what cycles in a row are told together: nothing happens, and the same is tainted."""
    return chapter.cycle.quiet, tuple(chapter.cycle.tainted)


def _nothing_moved(chapters: Sequence[Chapter], paint: Paint, columns: int) -> Iterator[str]:
    yield paint("bold", when(chapters)) + "  nothing moved"
    if tainted := chapters[0].cycle.tainted:
        yield from rows([Row("tainted", "", tainted_in_words(tainted))], paint, columns)


def _cycle(
    chapter: Chapter, broken: Mapping[str, int], paint: Paint, columns: int
) -> Iterator[str]:
    cycle = chapter.cycle
    yield f"{paint('bold', when([chapter]))}  {moved(cycle)}"
    said = [Row("outside", "", says) for says in chapter.events]
    if cycle.tainted:
        said.append(Row("tainted", "", tainted_in_words(cycle.tainted)))
    yield from rows(said, paint, columns)
    yield from _landings(cycle.landings, columns)
    for sentence in _remarks(cycle):
        yield f"  {sentence}"
    if changes := changed(broken, cycle.troubles):
        yield from rows([Row("rules broken:", "", changes)], paint, columns)
    if cycle.landings or cycle.came_in:
        yield ""
        yield from bars(cycle, paint, columns)


def tainted_in_words(tainted: Mapping[str, tuple[Taint, ...]]) -> str:
    """`twice node-1, node-4; once node-2`: nodes by how many soft taints they have."""
    by_count: dict[int, list[str]] = {}
    for name, taints in tainted.items():
        by_count.setdefault(len(taints), []).append(name)
    told = []
    for count, names in sorted(by_count.items(), reverse=True):
        more = f" and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else ""
        times = TIMES.get(count, f"{count} times")
        told.append(f"{times} {', '.join(names[:MOST_NODES])}{more}")
    return "; ".join(told)


def moved(cycle: Cycle) -> str:
    """How many pods moved, off how many nodes."""
    if not cycle.landings:
        return "nothing moved"
    left = len({landing.pod.node for landing in cycle.landings})
    return f"{counted(len(cycle.landings), 'pod')} moved off {counted(left, 'node')}"


def _landings(landings: Sequence[Landing], columns: int) -> Iterator[str]:
    """`web/a  node-1 → node-4  plugin`, or the plugin above where it does not fit beside."""
    shown = landings[:MOST_MOVES]
    cells = [(it.pod.key, _from_to(it), it.plugin) for it in shown]
    if widest(cells) <= columns:
        yield from aligned(cells) if cells else ()
    else:
        squeezed = aligned([*_squeezed(shown, columns - 6)], 4)
        plugins = (landing.plugin for landing in shown)
        for plugin, lines in groupby(zip(plugins, squeezed, strict=True), key=lambda it: it[0]):
            yield f"  {plugin}"
            yield from (line for _, line in lines)
    if len(landings) > MOST_MOVES:
        yield f"  … and {len(landings) - MOST_MOVES:,} more"


def _squeezed(landings: Sequence[Landing], width: int) -> Iterator[tuple[str, str]]:
    """Each pod, and the nodes it left and landed on, shortened until both fit the width."""
    longest = max(len(_from_to(landing)) for landing in landings)
    most = max(width - longest, width * 2 // 5)
    names = [shortened(landing.pod.key, most) for landing in landings]
    half = (width - max(map(len, names)) - 3) // 2
    for name, landing in zip(names, landings, strict=True):
        source, target = shortened(landing.pod.node, half), shortened(_where(landing), half)
        yield name, f"{source} → {target}"


def _from_to(landing: Landing) -> str:
    """`node-1 → node-4`."""
    return f"{landing.pod.node} → {_where(landing)}"


def _where(landing: Landing) -> str:
    if landing.node is None:
        return "waits"
    return landing.node or "gone"


def _remarks(cycle: Cycle) -> Iterator[str]:
    returned = sum(landing.returned for landing in cycle.landings)
    if returned == 1:
        yield "1 came back to the node it left: a move for nothing"
    elif returned:
        yield f"{returned:,} came back to the node they left: moves for nothing"
    if cycle.came_in:
        yield f"{counted(len(cycle.came_in), 'pod')} that had waited found a node"
    if cycle.waiting:
        verb = "waits" if cycle.waiting == 1 else "wait"
        yield f"{counted(cycle.waiting, 'pod')} {verb} for a node"


def changed(before: Mapping[str, int], now: Mapping[str, int]) -> str:
    """`spread 3 → 1, taints 2`: kinds of rules that are broken, or were."""
    told = []
    for kind in sorted({*before, *now} - {PENDING}):
        was, is_now = before.get(kind, 0), now.get(kind, 0)
        told.append(f"{kind} {was} → {is_now}" if was != is_now else f"{kind} {is_now}")
    return ", ".join(told)
