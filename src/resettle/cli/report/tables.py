"""What the page says in words and tables."""

from __future__ import annotations

from collections.abc import Sequence

from resettle.cli.report.markup import table, tag, text
from resettle.cli.story_compared import fullest
from resettle.cli.story_document import became
from resettle.cli.story_ending import settling
from resettle.simulate.story import Story
from resettle.simulate.troubles import broken

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
