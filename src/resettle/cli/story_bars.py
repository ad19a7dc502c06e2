"""Bars of the nodes before and after a cycle, in as many columns as the terminal has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from resettle.cli.columns import padded, shortened
from resettle.cli.lines import counted
from resettle.cli.render import Paint, bar
from resettle.simulate.loads import Load
from resettle.simulate.simulation import Cycle

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
