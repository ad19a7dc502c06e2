"""The HTML report of a simulation: a summary, charts and tables, for one policy or two.

It is one file with no external parts, so it can be mailed or attached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from resettle.simulate.measures import count_broken_rules
from resettle.simulate.result import (
    SimulationResult,
    busiest_node_change,
    move_result,
    opening_sentence,
    settled_sentence,
)
from resettle.web.charts import (
    HALF,
    WIDTH,
    heat_figures,
    heat_map,
    moves_chart,
    nodes_shown,
    small_multiples,
    troubles_over_time,
)
from resettle.web.html import SCRIPT, STYLE, data, table, tag, text

MOST_MOVES = 2000
MOST_WORKLOADS = 15
MOST_WAITING = 50


def cards(result: SimulationResult) -> str:
    """The main figures."""
    first, last = (
        count_broken_rules(result.violations),
        count_broken_rules(result.cycles[-1].violations),
    )
    figures = {
        "moves": f"{result.move_count:,}",
        "evictions without effect": f"{result.returned:,}",
        "moved again too soon": f"{sum(workload.times for workload in result.ping_pong):,}",
        "waiting at the end": f"{len(result.waiting_pods):,}",
        "rules broken": f"{first:,} → {last:,}",
        "cycles to settle": "–" if result.settled_after is None else f"{result.settled_after}",
    }
    if measured := busiest_node_change(result):
        figures["fullest node, by query"] = measured
    each = [
        tag("div", tag("b", text(value)), tag("span", text(name)), class_="card")
        for name, value in figures.items()
    ]
    return tag("div", *each, class_="cards")


def verdict(result: SimulationResult) -> str:
    """When the cluster settled, or that it has not."""
    return tag("p", text(settled_sentence(result).capitalize() + "."), class_="verdict")


def ping_pong(result: SimulationResult) -> str:
    """The workloads that move back and forth."""
    if not result.ping_pong:
        return tag("p", "No pod was moved twice without a reason.", class_="soft")
    rows = [
        [
            text(moved.workload),
            f"{moved.times:,}",
            f"{len(moved.pods):,}",
            text(", ".join(moved.plugins)),
            text(_some(moved.nodes)),
        ]
        for moved in result.ping_pong
    ]
    heads = ("workload", "times", "pods", "by", "where")
    return tag("div", table(heads, rows, numbers=(1, 2)), class_="scroll")


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + rest


def evictions(result: SimulationResult) -> str:
    """How many pods of each workload were evicted."""
    if not result.evictions_by_workload:
        return tag("p", "No pod was moved.", class_="soft")
    most = max(result.evictions_by_workload.values())
    shown = [*result.evictions_by_workload.items()][:MOST_WORKLOADS]
    rows = [
        [
            text(name),
            f"{times:,}",
            tag("span", class_="meter", style=f"width: {times / most * 12:.2f}rem"),
        ]
        for name, times in shown
    ]
    rest = len(result.evictions_by_workload) - len(shown)
    more = tag("p", f"and {rest:,} more workloads", class_="soft") if rest else ""
    return table(("workload", "evictions", ""), rows, numbers=(1,)) + more


def waiting(result: SimulationResult) -> str:
    """The pods without a node at the end, and what rules the nodes out."""
    if not result.waiting_pods:
        return tag("p", "No pod waits for a node at the end.", class_="soft")
    rows = [
        [text(waiter.pod.key), text(waiter.why)] for waiter in result.waiting_pods[:MOST_WAITING]
    ]
    rest = len(result.waiting_pods) - len(rows)
    more = tag("p", f"and {rest:,} more", class_="soft") if rest else ""
    return table(["pod", "nodes, by what rules them out"], rows) + more


def events(result: SimulationResult) -> str:
    """External events."""
    rows = [
        [f"{entry.cycle.number}", text(says)]
        for entry in result.cycles_with_events
        for says in entry.events
    ]
    return table(("before cycle", "event"), rows, numbers=(0,)) if rows else ""


def moves(results: Sequence[SimulationResult]) -> str:
    """Every move with its reason, and a box to filter them by."""
    rows = []
    for result in results:
        for cycle in result.cycles:
            for move in cycle.moves:
                word = move_result(move)
                where = move.node or ("waits" if move.node is None else "gone")
                cells = [
                    tag("td", f"{cycle.number}", class_="number"),
                    *([tag("td", text(result.policy))] if len(results) > 1 else []),
                    tag("td", text(move.pod.key), class_="name"),
                    tag("td", f"{text(move.pod.node)} → {text(where)}", class_="name"),
                    tag("td", "" if word == "moved" else text(word), class_="word"),
                    tag("td", text(move.plugin)),
                    tag("td", text(move.reason)),
                ]
                rows.append(tag("tr", *cells, class_=word))
    if not rows:
        return tag("p", "Nothing moved.", class_="soft")
    policy = [tag("th", "policy")] if len(results) > 1 else []
    names = ["pod", "from → to", "", "plugin", "why"]
    heads = [tag("th", "cycle", class_="number"), *policy, *(tag("th", name) for name in names)]
    shown = rows[:MOST_MOVES]
    cut = f" The first {MOST_MOVES:,} of {len(rows):,}; <code>-o json</code> has all."
    box = tag(
        "div",
        tag(
            "label",
            "Filter ",
            '<input type="search" data-rows="moves" data-count="count" '
            'placeholder="pod, node, plugin or reason">',
        ),
        tag(
            "span",
            f"{len(shown):,} shown.",
            cut if len(rows) > len(shown) else "",
            id="count",
            class_="soft",
        ),
        class_="filter",
    )
    body = tag("tbody", "\n".join(shown))
    grid = tag("table", tag("thead", tag("tr", *heads)), body, id="moves")
    return box + tag("div", grid, class_="scroll")


_KEPT_OUT = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_CAVEAT = (
    "A forecast: the plans are those that `resettle plan` would draw, the landings are what "
    "kube-scheduler's filters allow and its scores make likely. Replacements are ready at once."
)


def simulation_page(
    results: Sequence[SimulationResult], *, title: str = "", caveat: str = _CAVEAT
) -> str:
    """The report as one HTML document."""
    names = " and ".join(result.policy for result in results)
    parts = [
        tag("h1", text(title or f"Simulation of {names}")),
        tag("p", text(opening_sentence(results[0])), class_="soft"),
        _each(results, lambda result, _: verdict(result) + cards(result)),
    ]
    if happened := events(results[0]):
        parts += [tag("h2", "External events"), happened]
    parts += [
        *_moves_over_time(results),
        *_nodes_over_time(results),
        *_troubles(results),
        tag("h2", "Ping-pong"),
        tag("p", "Pods moved again within ten cycles although nothing had changed.", class_="soft"),
        _each(results, lambda result, _: ping_pong(result), beside=False),
        tag("h2", "Most evicted workloads"),
        _each(results, lambda result, _: evictions(result)),
        tag("h2", "Waiting at the end"),
        _each(results, lambda result, _: waiting(result), beside=False),
        tag("h2", "All moves"),
        moves(results),
        tag("footer", tag("p", text(caveat), class_="soft")),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{_KEPT_OUT}">'
        f"<title>{text(title or names)}</title><style>{STYLE}</style>"
    )
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
        f"<body>\n{body}\n<script>{SCRIPT}</script>\n</body></html>\n"
    )


def _each(
    results: Sequence[SimulationResult],
    render: Callable[[SimulationResult, int], str],
    *,
    beside: bool = True,
) -> str:
    """One part for each policy, side by side where the window is wide enough."""
    two = len(results) > 1
    parts = (
        tag("div", tag("h3", text(result.policy)) if two else "", render(result, i))
        for i, result in enumerate(results)
    )
    return tag("div", *parts, class_="pair two" if two and beside else "pair")


def _width(results: Sequence[SimulationResult]) -> int:
    return HALF if len(results) > 1 else WIDTH


def _longest(results: Sequence[SimulationResult]) -> int:
    return max(len(result.cycles) for result in results)


def _moves_over_time(results: Sequence[SimulationResult]) -> list[str]:
    cycles = _longest(results)
    most = max(len(cycle.moves) for result in results for cycle in result.cycles)
    in_all = max(result.move_count for result in results)
    legend = tag(
        "p",
        tag("span", _swatch("moved"), "moved"),
        tag("span", _swatch("back"), "came back to the node they left"),
        tag("span", _swatch("soft"), "all so far"),
        tag("span", _swatch("event"), "external event") if _eventful(results) else "",
        class_="legend",
    )

    def draw(result: SimulationResult, _: int) -> str:
        return tag("figure", moves_chart(result, cycles, most, in_all, _width(results)))

    return [tag("h2", "Moves over time"), legend, _each(results, draw)]


def _nodes_over_time(results: Sequence[SimulationResult]) -> list[str]:
    nodes, left_out = nodes_shown(results)
    cycles = _longest(results)
    shades = "".join(f'<i style="background: var(--h{i})"></i>' for i in range(11))
    others = f" The {len(nodes)} that changed most; {left_out:,} others are left out."
    legend = tag(
        "p",
        tag("span", "0% ", tag("span", shades, class_="scale"), " 100% and more"),
        tag("span", _heat_caption(results) + (others if left_out else "")),
        tag("span", _swatch("taint"), "softly tainted in that cycle") if _tainting(results) else "",
        class_="legend",
    )

    def draw(result: SimulationResult, i: int) -> str:
        ask = tag("p", "Point at a cell for its figures.", id=f"readout-{i}", class_="soft readout")
        figures = data(f"loads-{i}", heat_figures(result, nodes))
        ids = {"data_figures": f"loads-{i}", "data_readout": f"readout-{i}"}
        chart = heat_map(result, nodes, cycles, _width(results), **ids)
        return tag("figure", chart) + ask + figures

    return [tag("h2", "Nodes over time"), legend, _each(results, draw)]


def _troubles(results: Sequence[SimulationResult]) -> list[str]:
    most, cycles = troubles_over_time(results), _longest(results)
    parts = [tag("h2", "Broken rules over time")]
    if not most:
        return [*parts, tag("p", "No rule was broken at any time.", class_="soft")]
    says = "Pods that break a placement rule, spread constraints out of balance, waiting pods."

    def draw(result: SimulationResult, _: int) -> str:
        return tag("div", *small_multiples(result, most, cycles), class_="multiples")

    return [*parts, tag("p", says, class_="soft"), _each(results, draw)]


def _heat_caption(results: Sequence[SimulationResult]) -> str:
    """What the shades of the heat map show."""
    every = [load for result in results for load in result.loads.values()]
    if any(load.measured is not None for load in every):
        return "the result of the query for the node."
    return "the larger of cpu and memory requested."


def _tainting(results: Sequence[SimulationResult]) -> bool:
    return any(result.tainting for result in results)


def _eventful(results: Sequence[SimulationResult]) -> bool:
    return any(entry.events for entry in results[0].cycles_with_events)


def _swatch(colour: str) -> str:
    return f'<i style="background: var(--{colour})"></i>'
