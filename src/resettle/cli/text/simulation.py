"""A simulation as text: one policy cycle by cycle, or two side by side, then a summary.

Nodes are shown as bars before and after each cycle, in as many columns as the terminal has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import NamedTuple

from resettle.cli.text.plan import Paint, bar
from resettle.cli.text.terminal import TextRow, align_columns, format_rows, pad_cells, table_width
from resettle.model.constraints import Taint
from resettle.simulate.measures import PENDING, Load, count_broken_rules
from resettle.simulate.result import (
    CycleWithEvents,
    SimulationResult,
    busiest_node_change,
    opening_sentence,
    settled_sentence,
)
from resettle.simulate.simulation import SimulatedCycle, SimulatedMove
from resettle.text import format_count, shorten

MOST_NAMES = 5
MOST_MOVES = 12
MOST_NODES = 8
NODE_NAME_WIDTH = 20
BAR_WIDTH, FIGURE_WIDTH = 32, 11
POLICY_NAME_WIDTH = 24
TIMES = {1: "once", 2: "twice"}


def simulation_text(results: Sequence[SimulationResult], paint: Paint, columns: int) -> str:
    """One policy cycle by cycle, or two side by side, then a summary of each."""
    first, *others = results
    blocks = [[opening_sentence(first)]]
    if others:
        blocks.append([*compare_cycles(results)])
        blocks.append([*compare_figures(results, paint)])
    else:
        blocks += _cycles(first, paint, columns)
    for result in results:
        blocks.append([*result_summary(result, paint, columns, named=bool(others))])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _cycles(result: SimulationResult, paint: Paint, columns: int) -> list[list[str]]:
    """A block for each cycle; cycles in a row in which nothing happens share one."""
    blocks = []
    broken: Mapping[str, int] = result.violations
    for (quiet, *_), group in groupby(result.cycles_with_events, key=_alike):
        cycles = list(group)
        if quiet:
            blocks.append([*_nothing_moved(cycles, paint, columns)])
            continue
        for entry in cycles:
            blocks.append([*_cycle(entry, broken, paint, columns)])
            broken = entry.cycle.violations
    return blocks


def _alike(entry: CycleWithEvents) -> tuple[bool, tuple[str, ...]]:
    """Key that groups consecutive cycles: nothing moves, and the tainted nodes are equal."""
    return entry.cycle.is_quiet, tuple(entry.cycle.tainted)


def _nothing_moved(cycles: Sequence[CycleWithEvents], paint: Paint, columns: int) -> Iterator[str]:
    yield paint("bold", when(cycles)) + "  nothing moved"
    if tainted := cycles[0].cycle.tainted:
        yield from format_rows([TextRow("tainted", "", tainted_in_words(tainted))], paint, columns)


def _cycle(
    entry: CycleWithEvents, broken: Mapping[str, int], paint: Paint, columns: int
) -> Iterator[str]:
    cycle = entry.cycle
    yield f"{paint('bold', when([entry]))}  {moves_summary(cycle)}"
    events = [TextRow("event", "", sentence) for sentence in entry.events]
    if cycle.tainted:
        events.append(TextRow("tainted", "", tainted_in_words(cycle.tainted)))
    yield from format_rows(events, paint, columns)
    yield from _move_lines(cycle.moves, columns)
    for sentence in _remarks(cycle):
        yield f"  {sentence}"
    if changes := violation_changes(broken, cycle.violations):
        yield from format_rows([TextRow("rules broken:", "", changes)], paint, columns)
    if cycle.moves or cycle.newly_scheduled:
        yield ""
        yield from node_bars(cycle, paint, columns)


def tainted_in_words(tainted: Mapping[str, tuple[Taint, ...]]) -> str:
    """`twice node-1, node-4; once node-2`: nodes by how many soft taints they have."""
    by_count: dict[int, list[str]] = {}
    for name, taints in tainted.items():
        by_count.setdefault(len(taints), []).append(name)
    groups = []
    for count, names in sorted(by_count.items(), reverse=True):
        more = f" and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else ""
        times = TIMES.get(count, f"{count} times")
        groups.append(f"{times} {', '.join(names[:MOST_NODES])}{more}")
    return "; ".join(groups)


def moves_summary(cycle: SimulatedCycle) -> str:
    """How many pods moved, off how many nodes."""
    if not cycle.moves:
        return "nothing moved"
    left = len({move.pod.node for move in cycle.moves})
    return f"{format_count(len(cycle.moves), 'pod')} moved off {format_count(left, 'node')}"


def _move_lines(moves: Sequence[SimulatedMove], columns: int) -> Iterator[str]:
    """`web/a  node-1 → node-4  plugin`, or the plugin above where it does not fit beside."""
    shown = moves[:MOST_MOVES]
    cells = [(move.pod.key, _from_to(move), move.plugin) for move in shown]
    if table_width(cells) <= columns:
        yield from align_columns(cells) if cells else ()
    else:
        shortened = align_columns([*_shorten_names(shown, columns - 6)], 4)
        plugins = (move.plugin for move in shown)
        for plugin, lines in groupby(
            zip(plugins, shortened, strict=True), key=lambda pair: pair[0]
        ):
            yield f"  {plugin}"
            yield from (line for _, line in lines)
    if len(moves) > MOST_MOVES:
        yield f"  … and {len(moves) - MOST_MOVES:,} more"


def _shorten_names(moves: Sequence[SimulatedMove], width: int) -> Iterator[tuple[str, str]]:
    """Each pod, and the nodes it left and landed on, shortened until both fit the width."""
    longest = max(len(_from_to(move)) for move in moves)
    most = max(width - longest, width * 2 // 5)
    names = [shorten(move.pod.key, most) for move in moves]
    half = (width - max(map(len, names)) - 3) // 2
    for name, move in zip(names, moves, strict=True):
        source, target = shorten(move.pod.node, half), shorten(_where(move), half)
        yield name, f"{source} → {target}"


def _from_to(move: SimulatedMove) -> str:
    """`node-1 → node-4`."""
    return f"{move.pod.node} → {_where(move)}"


def _where(move: SimulatedMove) -> str:
    if move.node is None:
        return "waits"
    return move.node or "gone"


def _remarks(cycle: SimulatedCycle) -> Iterator[str]:
    returned = sum(move.returned for move in cycle.moves)
    if returned == 1:
        yield "1 came back to the node it left: an eviction without effect"
    elif returned:
        yield f"{returned:,} came back to the node they left: evictions without effect"
    if cycle.newly_scheduled:
        yield f"{format_count(len(cycle.newly_scheduled), 'pod')} that had waited found a node"
    if cycle.waiting:
        verb = "waits" if cycle.waiting == 1 else "wait"
        yield f"{format_count(cycle.waiting, 'pod')} {verb} for a node"


def violation_changes(before: Mapping[str, int], now: Mapping[str, int]) -> str:
    """`spread 3 → 1, taints 2`: kinds of rules that are broken, or were."""
    changes = []
    for kind in sorted({*before, *now} - {PENDING}):
        was, is_now = before.get(kind, 0), now.get(kind, 0)
        changes.append(f"{kind} {was} → {is_now}" if was != is_now else f"{kind} {is_now}")
    return ", ".join(changes)


def when(cycles: Sequence[CycleWithEvents]) -> str:
    """Number and time of a cycle, or of several in a row."""
    first, last = cycles[0].cycle, cycles[-1].cycle
    if first is last:
        return f"cycle {first.number}, {first.at:%H:%M:%S}"
    return f"cycles {first.number} to {last.number}, {first.at:%H:%M:%S} to {last.at:%H:%M:%S}"


# -- nodes -----------------------------------------------------------------------------------------


class Share(NamedTuple):
    """One figure of a node: its heading, a shorter heading, and how to read it."""

    head: str
    short: str
    of: Callable[[Load], float | None]


CPU = Share("CPU REQUESTED", "CPU", lambda load: load.cpu)
MEMORY = Share("MEMORY REQUESTED", "MEMORY", lambda load: load.memory)
MEASURED = Share("BY QUERY", "BY QUERY", lambda load: load.measured)


def node_bars(cycle: SimulatedCycle, paint: Paint, columns: int) -> Iterator[str]:
    """Nodes before and after: all while they are few, else those that changed most."""
    nodes, left_out = _worth_showing(cycle)
    measured = any(load.measured is not None for load in cycle.after.values())
    shares = (MEASURED, CPU, MEMORY) if measured else (CPU, MEMORY)
    room = min(max(map(len, ("NODE", *nodes))), NODE_NAME_WIDTH)
    others = FIGURE_WIDTH * (len(shares) - 2)
    drawn = 2 if columns >= room + 2 * BAR_WIDTH + others + 16 else 1
    heads = [
        "NODE",
        *(share.head if i < drawn else share.short for i, share in enumerate(shares)),
        "PODS",
    ]
    widths = [room, *(BAR_WIDTH if i < drawn else FIGURE_WIDTH for i in range(len(shares))), 0]
    yield "  " + paint("dim", pad_cells(heads, heads, widths))
    for name in nodes:
        now = cycle.after[name]
        was = cycle.before.get(name) or now
        label = shorten(name, room)
        pods = f"{was.pods} → {now.pods}" if was.pods != now.pods else f"{now.pods}"
        cells, plain = [label], [label]
        for i, share in enumerate(shares):
            before, after = share.of(was), share.of(now)
            figures = _figures(before, after)
            painted = _bar_with_plain(before, after, paint) if i < drawn else (figures, figures)
            cells.append(painted[0])
            plain.append(painted[1])
        yield "  " + pad_cells([*cells, pods], [*plain, pods], widths)
    if left_out:
        yield f"  … and {format_count(left_out, 'more node')} that changed"


def _worth_showing(cycle: SimulatedCycle) -> tuple[list[str], int]:
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
    return max(
        abs((share.of(now) or 0) - (share.of(before) or 0)) for share in (CPU, MEMORY, MEASURED)
    )


def _bar_with_plain(was: float | None, now: float | None, paint: Paint) -> tuple[str, str]:
    """The bar with colour, and without."""
    kept = None if was is None or now is None else min(was, now)
    return bar(was, now, paint, kept), bar(was, now, Paint(False), kept)


def _figures(was: float | None, now: float | None) -> str:
    if was is None or now is None:
        return "-"
    return f"{now:.0f}%" if round(was) == round(now) else f"{was:.0f}% → {now:.0f}%"


# -- two policies side by side ---------------------------------------------------------------------


def compare_cycles(results: Sequence[SimulationResult]) -> Iterator[str]:
    """A line of each policy for each cycle; quiet ones in a row that read alike share one."""
    lines = [("", *(shorten(result.policy, POLICY_NAME_WIDTH) for result in results))]
    events: dict[int, tuple[str, ...]] = {}
    alike: list[CycleWithEvents] = []
    for cycles in zip_longest(*(result.cycles_with_events for result in results)):
        first = next(entry for entry in cycles if entry)
        cells = tuple(map(_cycle_in_short, cycles))
        quiet = all(entry is None or entry.cycle.is_quiet for entry in cycles)
        if quiet and cells == lines[-1][1:]:
            alike.append(first)
            lines[-1] = (f"cycles {alike[0].cycle.number} to {first.cycle.number}", *cells)
            continue
        alike = [first]
        events[len(lines)] = first.events
        lines.append((when([first]), *cells))
    for i, line in enumerate(align_columns(lines, 0)):
        yield from (f"event: {sentence}" for sentence in events.get(i, ()))
        yield line


def _cycle_in_short(entry: CycleWithEvents | None) -> str:
    if entry is None:
        return "settled"
    cycle = entry.cycle
    returned = sum(move.returned for move in cycle.moves)
    parts = [
        f"{len(cycle.tainted)} tainted" if cycle.tainted else "",
        f"{len(cycle.moves)} moved" if cycle.moves else "",
        f"{returned} back" if returned else "",
        f"{len(cycle.newly_scheduled)} came in" if cycle.newly_scheduled else "",
        f"{cycle.waiting} wait" if cycle.waiting else "",
    ]
    return ", ".join(part for part in parts if part) or "-"


FIGURES: Mapping[str, Callable[[SimulationResult], str]] = {
    "moves": lambda result: f"{result.move_count:,}",
    "evictions without effect": lambda result: f"{result.returned:,}",
    "ping-pong": lambda result: f"{sum(moved.times for moved in result.ping_pong):,}",
    "most evicted workload": lambda result: (
        f"{max(result.evictions_by_workload.values(), default=0):,}"
    ),
    "pods that wait": lambda result: f"{len(result.waiting_pods):,}",
    "rules broken": lambda result: f"{count_broken_rules(result.cycles[-1].violations):,}",
    "settled": lambda result: _settled_after(result),
}
"""The figures by which two policies are compared."""


def compare_figures(results: Sequence[SimulationResult], paint: Paint) -> Iterator[str]:
    """A line for each figure, a column for each policy."""
    head = ("", *(shorten(result.policy, POLICY_NAME_WIDTH) for result in results))
    lines = [(name, *map(figure, results)) for name, figure in FIGURES.items()]
    if any(map(busiest_node_change, results)):
        lines.append(
            ("fullest by query", *(busiest_node_change(result) or "-" for result in results))
        )
    first, *rest = align_columns([head, *lines], 0)
    yield paint("bold", first)
    yield from rest


def _settled_after(result: SimulationResult) -> str:
    after = result.settled_after
    return "not" if after is None else f"after cycle {after}" if after else "from the start"


# -- the summary -----------------------------------------------------------------------------------


def result_summary(
    result: SimulationResult, paint: Paint, columns: int, *, named: bool
) -> Iterator[str]:
    """When the cluster settled, ping-pong, waiting pods, and evictions per workload."""
    prefix = f"{result.policy}: " if named else ""
    yield paint("bold", f"{prefix}{settled_sentence(result)}")
    lines = []
    if not named:
        lines.append(TextRow("moves", "", _total_moves(result)))
        if measured := busiest_node_change(result):
            lines.append(TextRow("by query", "", f"the fullest node {measured}"))
    if result.stopped_early:
        lines.append(
            TextRow("stopped", "", f"after cycle {result.cycles[-1].number}; --cycles runs on")
        )
    lines += _first("ping-pong", [str(summary) for summary in result.ping_pong], "workload")
    waiting = [f"{waiter.pod.key}: {waiter.why}" for waiter in result.waiting_pods]
    lines += _first("waits", waiting, "pod")
    moved_most = [f"{times:,} of {name}" for name, times in result.evictions_by_workload.items()]
    if moved_most:
        more = len(moved_most) - MOST_NAMES
        some = moved_most[:MOST_NAMES] + ([format_count(more, "more workload")] if more > 0 else [])
        lines.append(TextRow("evictions", "", f"per workload: {', '.join(some)}"))
    yield from format_rows(lines, paint, columns)


def _first(label: str, sentences: Sequence[str], noun: str) -> Iterator[TextRow]:
    """The first few of these sentences, and how many others there are."""
    yield from (TextRow(label, "", sentence) for sentence in sentences[:MOST_NAMES])
    if len(sentences) > MOST_NAMES:
        yield TextRow("", "", f"and {format_count(len(sentences) - MOST_NAMES, f'more {noun}')}")


def _total_moves(result: SimulationResult) -> str:
    returned = f", {result.returned:,} of them without effect" if result.returned else ""
    return f"{result.move_count:,} in {format_count(len(result.cycles), 'cycle')}{returned}"
