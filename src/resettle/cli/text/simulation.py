"""A simulation as a person reads it: a block for each cycle, then what it all came to.

What a simulation came to: when it settled, who plays ping-pong, who waits, who moved most.

Bars of the nodes before and after a cycle, in as many columns as the terminal has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from resettle.cli.text.plan import Paint, bar
from resettle.cli.text.simulation_compare import compared, side_by_side, when
from resettle.cli.text.terminal import Row, aligned, padded, rows, widest
from resettle.model.constraints import Taint
from resettle.simulate.measures import PENDING, Load
from resettle.simulate.result import Chapter, Story, fullest, opening, settling
from resettle.simulate.simulation import Cycle, Landing
from resettle.text import counted, shortened

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


def _moves_in_all(story: Story) -> str:
    returned = f", {story.returned:,} of them for nothing" if story.returned else ""
    return f"{story.moves:,} in {counted(len(story.cycles), 'cycle')}{returned}"


MOST_NODES = 8
NODE_ROOM = 20
BAR_AND_FIGURES, FIGURES = 32, 11


class Share(NamedTuple):
    """One figure of a node: its head above a bar and above a mere figure, and how to get it."""

    head: str
    short: str
    of: Callable[[Load], float | None]


CPU = Share("CPU REQUESTED", "CPU", lambda load: load.cpu)
MEMORY = Share("MEMORY REQUESTED", "MEMORY", lambda load: load.memory)
MEASURED = Share("BY QUERY", "BY QUERY", lambda load: load.measured)


def bars(cycle: Cycle, paint: Paint, columns: int) -> Iterator[str]:
    """Nodes before and after: all while they are few, else those that changed most."""
    nodes, left_out = _worth_showing(cycle)
    measured = any(load.measured is not None for load in cycle.after.values())
    shares = (MEASURED, CPU, MEMORY) if measured else (CPU, MEMORY)
    room = min(max(map(len, ("NODE", *nodes))), NODE_ROOM)
    others = FIGURES * (len(shares) - 2)
    drawn = 2 if columns >= room + 2 * BAR_AND_FIGURES + others + 16 else 1
    heads = ["NODE", *(it.head if i < drawn else it.short for i, it in enumerate(shares)), "PODS"]
    widths = [room, *(BAR_AND_FIGURES if i < drawn else FIGURES for i in range(len(shares))), 0]
    yield "  " + paint("dim", padded(heads, heads, widths))
    for name in nodes:
        now = cycle.after[name]
        was = cycle.before.get(name) or now
        label = shortened(name, room)
        pods = f"{was.pods} → {now.pods}" if was.pods != now.pods else f"{now.pods}"
        cells, plain = [label], [label]
        for i, share in enumerate(shares):
            before, after = share.of(was), share.of(now)
            figures = _figures(before, after)
            painted = _drawn(before, after, paint) if i < drawn else (figures, figures)
            cells.append(painted[0])
            plain.append(painted[1])
        yield "  " + padded([*cells, pods], [*plain, pods], widths)
    if left_out:
        yield f"  … and {counted(left_out, 'more node')} that changed"


def _worth_showing(cycle: Cycle) -> tuple[list[str], int]:
    """The nodes to show, in order, and how many others changed."""
    if len(cycle.after) <= MOST_NODES:
        return list(cycle.after), 0
    by_change = sorted(
        (name for name, now in cycle.after.items() if cycle.before.get(name) != now),
        key=lambda name: (-_difference(cycle.before.get(name), cycle.after[name]), name),
    )
    return sorted(by_change[:MOST_NODES]), len(by_change[MOST_NODES:])


def _difference(was: Load | None, now: Load) -> float:
    before = was or Load(0, 0, 0)
    return max(abs((it.of(now) or 0) - (it.of(before) or 0)) for it in (CPU, MEMORY, MEASURED))


def _drawn(was: float | None, now: float | None, paint: Paint) -> tuple[str, str]:
    """The bar, and the same without colour."""
    kept = None if was is None or now is None else min(was, now)
    return bar(was, now, paint, kept), bar(was, now, Paint(False), kept)


def _figures(was: float | None, now: float | None) -> str:
    if was is None or now is None:
        return "-"
    return f"{now:.0f}%" if round(was) == round(now) else f"{was:.0f}% → {now:.0f}%"


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
