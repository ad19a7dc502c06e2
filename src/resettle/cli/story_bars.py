"""Bars of the nodes before and after a cycle, in as many columns as the terminal has."""

from __future__ import annotations

from collections.abc import Iterator

from resettle.cli.columns import padded, shortened
from resettle.cli.lines import counted
from resettle.cli.render import Paint, bar
from resettle.simulate.loads import Load
from resettle.simulate.simulation import Cycle

MOST_NODES = 8
NODE_ROOM = 20
BAR_AND_FIGURES = 32


def bars(cycle: Cycle, paint: Paint, columns: int) -> Iterator[str]:
    """Nodes before and after: all while they are few, else those that changed most."""
    nodes, left_out = _worth_showing(cycle)
    room = min(max(map(len, ("NODE", *nodes))), NODE_ROOM)
    two = columns >= room + 2 * BAR_AND_FIGURES + 16
    heads = ("NODE", "CPU REQUESTED", "MEMORY REQUESTED" if two else "MEMORY", "PODS")
    widths = (room, BAR_AND_FIGURES, BAR_AND_FIGURES if two else 11, 0)
    yield "  " + paint("dim", padded(heads, heads, widths))
    for name in nodes:
        was, now = cycle.before.get(name), cycle.after[name]
        was = was or now
        cpu, cpu_plain = _drawn(was.cpu, now.cpu, paint)
        memory, memory_plain = _drawn(was.memory, now.memory, paint)
        if not two:
            memory = memory_plain = _figures(was.memory, now.memory)
        pods = f"{was.pods} → {now.pods}" if was.pods != now.pods else f"{now.pods}"
        label = shortened(name, room)
        cells = (label, cpu, memory, pods)
        yield "  " + padded(cells, (label, cpu_plain, memory_plain, pods), widths)
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
    return max(
        abs((now.cpu or 0) - (before.cpu or 0)), abs((now.memory or 0) - (before.memory or 0))
    )


def _drawn(was: float | None, now: float | None, paint: Paint) -> tuple[str, str]:
    """The bar, and the same without colour."""
    kept = None if was is None or now is None else min(was, now)
    return bar(was, now, paint, kept), bar(was, now, Paint(False), kept)


def _figures(was: float | None, now: float | None) -> str:
    if was is None or now is None:
        return "-"
    return f"{now:.0f}%" if round(was) == round(now) else f"{was:.0f}% → {now:.0f}%"
