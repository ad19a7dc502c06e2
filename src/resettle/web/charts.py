"""SVG charts of the simulation page: moves over time, utilization of nodes, broken rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from resettle.simulate.measures import Load
from resettle.simulate.result import CycleWithEvents, SimulationResult
from resettle.text import shorten
from resettle.web.html import tag, text

WIDTH, HALF = 1200, 600
"""Width of a chart that takes the whole row, and of one that shares it."""
MOST_NODES = 120
FEW_NODES, FEW_CYCLES = 16, 12
"""Up to so many nodes and cycles, the numbers are written in the cells."""
CORNER = 6
"""How far the mark of a tainted node reaches into its cell."""


# -- moves ----------------------------------------------------------------------------------------


def moves_chart(result: SimulationResult, cycles: int, most: int, in_all: int, width: int) -> str:
    """A bar for each cycle, with those that came back on top, and a line for all so far."""
    height, left, right, bottom = 130, 38, 44, 20
    step = (width - left - right) / max(cycles, 1)
    scale = (height - 12) / max(most, 1)
    rise = (height - 12) / max(in_all, 1)
    parts = [
        tag("line", class_="axis", x1=left, x2=width - right, y1=height, y2=height),
        _label(left - 6, 16, f"{most:,}", "end"),
        _label(left - 6, height, "0", "end"),
    ]
    so_far, points = 0, [(float(left), float(height))]
    for i, entry in enumerate(result.cycles_with_events):
        x = left + i * step
        parts += _bars(entry, x + step * 0.12, step * 0.76, height, scale)
        so_far += len(entry.cycle.moves)
        points.append((x + step, height - so_far * rise))
        if entry.events:
            hint = tag("title", text("; ".join(entry.events)))
            parts.append(tag("line", class_="event", x1=_px(x), x2=_px(x), y1=4, y2=height))
            parts.append(tag("circle", hint, class_="flag", cx=_px(x), cy=4, r=4))
    line = " ".join(f"{_px(x)},{_px(y)}" for x, y in points)
    parts.append(tag("polyline", class_="total", points=line))
    end_x, end_y = points[-1]
    parts.append(_label(end_x + 6, max(end_y + 4, 12), f"{so_far:,}", "start"))
    parts += [
        _label(left + (number - 0.5) * step, height + 15, str(number), "middle")
        for number in _ticks(cycles)
    ]
    title = f"moves in each cycle under {result.policy}"
    return _drawing(width, height + bottom, parts, title)


def _bars(
    entry: CycleWithEvents, x: float, wide: float, bottom: float, scale: float
) -> Iterator[str]:
    cycle = entry.cycle
    back = sum(landing.returned for landing in cycle.moves)
    moved = len(cycle.moves) - back
    hint = tag("title", text(f"cycle {cycle.number}: {moved} moved, {back} came back"))
    top = bottom
    for count, kind in ((moved, "moved"), (back, "back")):
        if count:
            top -= count * scale
            box = {"x": _px(x), "y": _px(top), "width": _px(wide), "height": _px(count * scale)}
            yield tag("rect", hint, class_=kind, **box)


# -- nodes ----------------------------------------------------------------------------------------


def nodes_shown(results: Sequence[SimulationResult]) -> tuple[list[str], int]:
    """The nodes of the heat maps, fullest first, and how many are left out."""
    columns = [
        loads
        for result in results
        for loads in (result.loads, *(cycle.after for cycle in result.cycles))
    ]
    names = dict.fromkeys(name for loads in columns for name in loads)
    first = {name: next(loads[name] for loads in columns if name in loads) for name in names}
    chosen = sorted(names, key=lambda name: (-_range(name, columns), name))[:MOST_NODES]
    chosen.sort(key=lambda name: (-(first[name].shown or 0), name))
    return chosen, len(names) - len(chosen)


def _range(name: str, columns: Sequence[Mapping[str, Load]]) -> float:
    shares = [loads[name].shown or 0 for loads in columns if name in loads]
    return max(shares) - min(shares)


def heat_map(
    result: SimulationResult, nodes: Sequence[str], cycles: int, width: int, **ids: str
) -> str:
    """Nodes as rows and cycles as columns, the first of them the start.

    `ids` name the elements that hold the figures and that show them.
    """
    columns = [result.loads, *(cycle.after for cycle in result.cycles)]
    tainted: list[Mapping[str, object]] = [{}, *(cycle.tainted for cycle in result.cycles)]
    longest = max((len(shorten(name, 22)) for name in nodes), default=0)
    left, head = longest * 6.2 + 10, 18
    tall = 18 if len(nodes) <= 40 else 9
    step = (width - left) / (cycles + 1)
    few = len(nodes) <= FEW_NODES and cycles <= FEW_CYCLES
    parts = [_label(left + step / 2, 11, "start" if step > 28 else "0", "middle")]
    parts += [
        _label(left + (number + 0.5) * step, 11, str(number), "middle") for number in _ticks(cycles)
    ]
    for row, name in enumerate(nodes):
        y = head + row * tall
        if tall > 10 or row % 2 == 0:
            hint = tag("title", text(name))
            parts.append(_label(left - 6, y + tall * 0.7, shorten(name, 22), "end", hint))
        for column, loads in enumerate(columns):
            x = left + column * step
            box = {"x": _px(x), "y": y, "width": _px(step - 1), "height": tall - 1}
            load = loads.get(name)
            share = load.shown if load else None
            parts.append(
                tag("rect", class_=f"cell {_shade(share)}", data_r=row, data_c=column, **box)
            )
            if few and share is not None:
                bright = " bright" if share >= 75 else ""
                parts.append(
                    tag(
                        "text",
                        f"{share:.0f}",
                        class_=f"inside{bright}",
                        pointer_events="none",
                        x=_px(x + step / 2),
                        y=_px(y + tall * 0.68),
                    )
                )
            if name in tainted[column]:
                corner = f"M{_px(x)} {y}h{CORNER}l-{CORNER} {CORNER}z"
                parts.append(tag("path", class_="taint", pointer_events="none", d=corner))
    title = f"how full the nodes are under {result.policy}"
    height = head + len(nodes) * tall
    return _drawing(width, height, parts, title, class_="heat", **ids)


def heat_figures(result: SimulationResult, nodes: Sequence[str]) -> dict[str, Any]:
    """The figures the page shows for the cell under the pointer."""

    def cell_figures(load: Load | None, taints: int) -> list[float | int | None] | None:
        if load is None:
            return None
        shares = (load.cpu, load.memory, load.measured)
        cpu, memory, measured = (None if share is None else round(share, 1) for share in shares)
        return [cpu, memory, load.pods, measured, taints]

    tainted: list[Mapping[str, Sequence[object]]] = [
        {},
        *(cycle.tainted for cycle in result.cycles),
    ]
    columns = [result.loads, *(cycle.after for cycle in result.cycles)]
    return {
        "nodes": list(nodes),
        "cycles": [cycle.number for cycle in result.cycles],
        "loads": [
            [cell_figures(loads.get(name), len(marks.get(name, ()))) for name in nodes]
            for loads, marks in zip(columns, tainted, strict=True)
        ],
    }


def _shade(share: float | None) -> str:
    return "unknown" if share is None else f"h{min(int(share // 10), 10)}"


# -- broken rules --------------------------------------------------------------------------------


def troubles_over_time(results: Sequence[SimulationResult]) -> dict[str, int]:
    """Each kind of violation that occurred, and the most at any one time."""
    most: dict[str, int] = {}
    for result in results:
        for counts in (result.violations, *(cycle.violations for cycle in result.cycles)):
            for kind, count in counts.items():
                most[kind] = max(most.get(kind, 0), count)
    return dict(sorted(most.items()))


def small_multiples(
    result: SimulationResult, most: Mapping[str, int], cycles: int
) -> Iterator[str]:
    """A small chart for each kind of violation, all with the same time axis."""
    for kind, top in most.items():
        counts = [result.violations.get(kind, 0)]
        counts += [cycle.violations.get(kind, 0) for cycle in result.cycles]
        step, tall = 160 / max(cycles, 1), 40
        points = [(_px(i * step), _px(tall - n / top * (tall - 4))) for i, n in enumerate(counts)]
        line = " ".join(f"{x},{y}" for x, y in points)
        area = f"0,{tall} {line} {points[-1][0]},{tall}"
        drawn = [
            tag("line", class_="axis", x1=0, x2=160, y1=tall, y2=tall),
            tag("polygon", class_="under", points=area),
            tag("polyline", class_="trouble", points=line),
        ]
        title = f"{kind} under {result.policy}"
        head = f"{text(kind)} <b>{counts[0]:,} → {counts[-1]:,}</b>"
        yield tag(
            "figure",
            tag("figcaption", head),
            _drawing(160, tall + 2, drawn, title),
        )


# -- parts ----------------------------------------------------------------------------------------


def _drawing(width: int, height: float, parts: Sequence[str], title: str, **more: object) -> str:
    view = f"0 0 {width} {_px(height)}"
    return tag("svg", *parts, viewBox=view, role="img", aria_label=title, **more)


def _label(x: float, y: float, says: str, anchor: str, hint: str = "") -> str:
    return tag("text", text(says), hint, x=_px(x), y=_px(y), text_anchor=anchor)


def _ticks(cycles: int) -> list[int]:
    """The cycles that are numbered: all while they are few."""
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100, cycles) if cycles / step <= 20)
    return [number for number in range(1, cycles + 1) if every == 1 or number % every == 0]


def _px(length: float) -> str:
    return f"{length:.1f}".removesuffix(".0")
