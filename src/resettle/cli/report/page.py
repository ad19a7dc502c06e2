"""The page as a whole: what happened, at a glance and then in full, for one policy or two."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from resettle.cli.report import tables
from resettle.cli.report.charts import (
    HALF,
    WIDTH,
    heat_figures,
    heat_map,
    moves_chart,
    nodes_shown,
    small_multiples,
    troubles_over_time,
)
from resettle.cli.report.markup import data, tag, text
from resettle.cli.report.script import SCRIPT
from resettle.cli.report.style import STYLE
from resettle.cli.story_text import opening
from resettle.simulate.story import Story

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
        _each(stories, lambda story, _: tables.verdict(story) + tables.cards(story)),
    ]
    if happened := tables.events(stories[0]):
        parts += [tag("h2", "What happened from outside"), happened]
    parts += [
        *_moves_over_time(stories),
        *_nodes_over_time(stories),
        *_troubles(stories),
        tag("h2", "Ping-pong"),
        tag("p", "Pods moved again within ten cycles although nothing had changed.", class_="soft"),
        _each(stories, lambda story, _: tables.ping_pong(story), beside=False),
        tag("h2", "Who was moved most"),
        _each(stories, lambda story, _: tables.restarts(story)),
        tag("h2", "Waiting at the end"),
        _each(stories, lambda story, _: tables.waiting(story), beside=False),
        tag("h2", "All moves"),
        tables.moves(stories),
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
