"""The page as a whole: what happened, at a glance and then in full, for one policy or two.

What the page says in words and tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from resettle.simulate.measures import broken
from resettle.simulate.result import Story, became, fullest, opening, settling
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


def cards(story: Story) -> str:
    """The figures to read if nothing else is read."""
    first, last = broken(story.troubles), broken(story.cycles[-1].troubles)
    told = {
        "moves": f"{story.moves:,}",
        "moves for nothing": f"{story.returned:,}",
        "moved again too soon": f"{sum(it.times for it in story.ping_pong):,}",
        "waiting at the end": f"{len(story.waits):,}",
        "rules broken": f"{first:,} → {last:,}",
        "cycles to settle": "–" if story.settled_after is None else f"{story.settled_after}",
    }
    if measured := fullest(story):
        told["fullest node, by query"] = measured
    each = [
        tag("div", tag("b", text(n)), tag("span", text(it)), class_="card")
        for it, n in told.items()
    ]
    return tag("div", *each, class_="cards")


def verdict(story: Story) -> str:
    """When the cluster settled, or that it has not."""
    return tag("p", text(settling(story).capitalize() + "."), class_="verdict")


def ping_pong(story: Story) -> str:
    """The workloads that move back and forth."""
    if not story.ping_pong:
        return tag("p", "Nothing was moved twice without need.", class_="soft")
    rows = [
        [
            text(it.workload),
            f"{it.times:,}",
            f"{len(it.pods):,}",
            text(", ".join(it.plugins)),
            text(_some(it.nodes)),
        ]
        for it in story.ping_pong
    ]
    heads = ("workload", "times", "pods", "by", "where")
    return tag("div", table(heads, rows, numbers=(1, 2)), class_="scroll")


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + rest


def restarts(story: Story) -> str:
    """How often pods of each workload were moved."""
    if not story.restarts:
        return tag("p", "No pod was moved.", class_="soft")
    most = max(story.restarts.values())
    shown = [*story.restarts.items()][:MOST_WORKLOADS]
    rows = [
        [
            text(name),
            f"{times:,}",
            tag("span", class_="meter", style=f"width: {times / most * 12:.2f}rem"),
        ]
        for name, times in shown
    ]
    rest = len(story.restarts) - len(shown)
    more = tag("p", f"and {rest:,} more workloads", class_="soft") if rest else ""
    return table(("workload", "pods moved", ""), rows, numbers=(1,)) + more


def waiting(story: Story) -> str:
    """The pods without a node at the end, and what rules the nodes out."""
    if not story.waits:
        return tag("p", "No pod waits for a node at the end.", class_="soft")
    rows = [[text(it.pod.key), text(it.why)] for it in story.waits[:MOST_WAITING]]
    rest = len(story.waits) - len(rows)
    more = tag("p", f"and {rest:,} more", class_="soft") if rest else ""
    return table(["pod", "nodes, by what rules them out"], rows) + more


def events(story: Story) -> str:
    """What happened from outside."""
    rows = [
        [f"{chapter.cycle.number}", text(says)]
        for chapter in story.chapters
        for says in chapter.events
    ]
    return table(("before cycle", "what happened"), rows, numbers=(0,)) if rows else ""


def moves(stories: Sequence[Story]) -> str:
    """Every move with its reason, and a box to filter them by."""
    rows = []
    for story in stories:
        for cycle in story.cycles:
            for it in cycle.landings:
                word = became(it)
                where = it.node or ("waits" if it.node is None else "gone")
                cells = [
                    tag("td", f"{cycle.number}", class_="number"),
                    *([tag("td", text(story.policy))] if len(stories) > 1 else []),
                    tag("td", text(it.pod.key), class_="name"),
                    tag("td", f"{text(it.pod.node)} → {text(where)}", class_="name"),
                    tag("td", "" if word == "moved" else text(word), class_="word"),
                    tag("td", text(it.plugin)),
                    tag("td", text(it.reason)),
                ]
                rows.append(tag("tr", *cells, class_=word))
    if not rows:
        return tag("p", "Nothing moved.", class_="soft")
    policy = [tag("th", "policy")] if len(stories) > 1 else []
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


def page(stories: Sequence[Story], *, title: str = "", caveat: str = _CAVEAT) -> str:
    """The whole page."""
    names = " and ".join(story.policy for story in stories)
    parts = [
        tag("h1", text(title or f"Simulation of {names}")),
        tag("p", text(opening(stories[0])), class_="soft"),
        _each(stories, lambda story, _: verdict(story) + cards(story)),
    ]
    if happened := events(stories[0]):
        parts += [tag("h2", "What happened from outside"), happened]
    parts += [
        *_moves_over_time(stories),
        *_nodes_over_time(stories),
        *_troubles(stories),
        tag("h2", "Ping-pong"),
        tag("p", "Pods moved again within ten cycles although nothing had changed.", class_="soft"),
        _each(stories, lambda story, _: ping_pong(story), beside=False),
        tag("h2", "Who was moved most"),
        _each(stories, lambda story, _: restarts(story)),
        tag("h2", "Waiting at the end"),
        _each(stories, lambda story, _: waiting(story), beside=False),
        tag("h2", "All moves"),
        moves(stories),
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
    stories: Sequence[Story], told: Callable[[Story, int], str], *, beside: bool = True
) -> str:
    """The same of each policy, side by side where there is room, or one below the other."""
    two = len(stories) > 1
    parts = (
        tag("div", tag("h3", text(story.policy)) if two else "", told(story, i))
        for i, story in enumerate(stories)
    )
    return tag("div", *parts, class_="pair two" if two and beside else "pair")


def _width(stories: Sequence[Story]) -> int:
    return HALF if len(stories) > 1 else WIDTH


def _longest(stories: Sequence[Story]) -> int:
    return max(len(story.cycles) for story in stories)


def _moves_over_time(stories: Sequence[Story]) -> list[str]:
    cycles = _longest(stories)
    most = max(len(cycle.landings) for story in stories for cycle in story.cycles)
    in_all = max(story.moves for story in stories)
    legend = tag(
        "p",
        tag("span", _swatch("moved"), "moved"),
        tag("span", _swatch("back"), "came back to the node they left"),
        tag("span", _swatch("soft"), "all so far"),
        tag("span", _swatch("event"), "something happened from outside")
        if _eventful(stories)
        else "",
        class_="legend",
    )

    def drawn(story: Story, _: int) -> str:
        return tag("figure", moves_chart(story, cycles, most, in_all, _width(stories)))

    return [tag("h2", "Moves over time"), legend, _each(stories, drawn)]


def _nodes_over_time(stories: Sequence[Story]) -> list[str]:
    nodes, left_out = nodes_shown(stories)
    cycles = _longest(stories)
    shades = "".join(f'<i style="background: var(--h{i})"></i>' for i in range(11))
    others = f" The {len(nodes)} that changed most; {left_out:,} others are left out."
    legend = tag(
        "p",
        tag("span", "0% ", tag("span", shades, class_="scale"), " 100% and more"),
        tag("span", _shown(stories) + (others if left_out else "")),
        tag("span", _swatch("taint"), "softly tainted in that cycle") if _tainting(stories) else "",
        class_="legend",
    )

    def drawn(story: Story, i: int) -> str:
        ask = tag("p", "Point at a cell for its figures.", id=f"told-{i}", class_="soft readout")
        told = data(f"loads-{i}", heat_figures(story, nodes))
        ids = {"data_figures": f"loads-{i}", "data_readout": f"told-{i}"}
        chart = heat_map(story, nodes, cycles, _width(stories), **ids)
        return tag("figure", chart) + ask + told

    return [tag("h2", "Nodes over time"), legend, _each(stories, drawn)]


def _troubles(stories: Sequence[Story]) -> list[str]:
    most, cycles = troubles_over_time(stories), _longest(stories)
    parts = [tag("h2", "What is wrong, over time")]
    if not most:
        return [*parts, tag("p", "No rule was broken, from start to end.", class_="soft")]
    says = "Pods that break a rule of placement, spread rules out of balance, pods that wait."

    def drawn(story: Story, _: int) -> str:
        return tag("div", *small_multiples(story, most, cycles), class_="multiples")

    return [*parts, tag("p", says, class_="soft"), _each(stories, drawn)]


def _shown(stories: Sequence[Story]) -> str:
    """What the shades are about."""
    every = [load for story in stories for load in story.loads.values()]
    if any(load.measured is not None for load in every):
        return "what the query says of the node."
    return "the larger of cpu and memory requested."


def _tainting(stories: Sequence[Story]) -> bool:
    return any(story.tainting for story in stories)


def _eventful(stories: Sequence[Story]) -> bool:
    return any(chapter.events for chapter in stories[0].chapters)


def _swatch(colour: str) -> str:
    return f'<i style="background: var(--{colour})"></i>'
