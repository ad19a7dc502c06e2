"""A picture of a rebalance, as SVG: what the query says of each node, cycle by cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from resettle.simulate.measures import Load
from resettle.simulate.result import SimulationResult

SHOWN = 10
"""Cycles in the picture, beside the start."""
CELL, TALL, LEFT, TOP, GAP = 30, 19, 62, 94, 26
SHADES = 8
FULL = 40.0
"""The darkest shade stands for so many percent and more."""
_LIGHT = ("#eef2f6", "#fdf0d5", "#fbdca2", "#f7c06f", "#ee9c4c", "#dd7238", "#bd482d", "#8f2430")
_DARK = ("#242b33", "#3a3226", "#574227", "#7a552a", "#a06a31", "#c98240", "#e8a562", "#ffd39b")
_STYLE = f"""
text {{ fill: #1f2933; font: 12px system-ui, sans-serif }} .title {{ font-weight: 600 }}
.soft {{ fill: #52606d }} .in {{ font-size: 11px; text-anchor: middle }} .bar {{ fill: #486581 }}
.bright {{ fill: #ffffff }} .taint {{ fill: #0b6e99 }} .page {{ fill: #ffffff }}
{" ".join(f".s{i} {{ fill: {shade} }}" for i, shade in enumerate(_LIGHT))}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #f5f7fa }} .soft {{ fill: #9fb3c8 }} .bar {{ fill: #9fb3c8 }}
  .bright {{ fill: #1f2933 }} .taint {{ fill: #6fd3f7 }} .page {{ fill: #16191d }}
  {" ".join(f".s{i} {{ fill: {shade} }}" for i, shade in enumerate(_DARK))}
}}"""


def picture(stories: Sequence[SimulationResult]) -> str:
    """The stories side by side: a row for each node, a column for each cycle."""
    nodes = list(stories[0].loads)
    wide = LEFT + CELL * (SHOWN + 1)
    width = wide * len(stories) + GAP * (len(stories) - 1) + 10
    bottom = TOP + TALL * len(nodes)
    height = bottom + 46
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        ' aria-labelledby="title">',
        '<title id="title">Pressure on each node, cycle by cycle, without soft taints and with'
        " them</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
    ]
    for i, story in enumerate(stories):
        parts += [f'<g transform="translate({i * (wide + GAP)} 0)">', *_panel(story), "</g>"]
    parts += _legend(bottom + 30)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(story: SimulationResult) -> Iterator[str]:
    after = story.settled_after
    yield f'<text class="title" x="{LEFT}" y="18">{story.policy}</text>'
    says = f"{story.move_count} moves, still after cycle {after}"
    yield f'<text class="soft" x="{LEFT}" y="35">{says}</text>'
    yield from _moves(story)
    columns = [story.loads, *(cycle.after for cycle in story.cycles[:SHOWN])]
    for column in range(len(columns)):
        x = LEFT + column * CELL + CELL / 2
        yield f'<text class="in soft" x="{x:g}" y="{TOP - 5}">{column or "start"}</text>'
    for row, name in enumerate(story.loads):
        y = TOP + row * TALL
        yield f'<text class="soft" x="{LEFT - 6}" y="{y + 14}" text-anchor="end">{name}</text>'
        for column, loads in enumerate(columns):
            yield from _cell(LEFT + column * CELL, y, loads[name])
            # Taints of a cycle were set by how things were before it.
            if column < SHOWN and name in story.cycles[column].tainted:
                marks = len(story.cycles[column].tainted[name])
                yield from _marks(LEFT + column * CELL, y, marks)


def _moves(story: SimulationResult) -> Iterator[str]:
    """A bar above each cycle in which something moved, and how much."""
    for i, cycle in enumerate(story.cycles[:SHOWN], 1):
        if moves := len(cycle.moves):
            x, y = LEFT + i * CELL, TOP - 19 - 4 * moves
            yield (
                f'<rect class="bar" x="{x + 7}" y="{y}" width="{CELL - 15}" height="{4 * moves}"/>'
            )
            yield f'<text class="in soft" x="{x + CELL / 2:g}" y="{y - 3}">{moves}</text>'


def _cell(x: float, y: float, load: Load) -> Iterator[str]:
    share = load.measured or 0.0
    shade = min(int(share / FULL * (SHADES - 1) + 0.999), SHADES - 1)
    bright = " bright" if shade >= SHADES - 2 else ""
    yield f'<rect class="s{shade}" x="{x}" y="{y}" width="{CELL - 1}" height="{TALL - 1}"/>'
    if share >= 0.5:
        yield f'<text class="in{bright}" x="{x + CELL / 2:g}" y="{y + 13}">{share:.0f}</text>'


def _marks(x: float, y: float, count: int) -> Iterator[str]:
    """A corner for each soft taint."""
    for i in range(count):
        yield f'<path class="taint" d="M{x} {y + i * 8}h6l-6 6z"/>'


def _legend(y: float) -> Iterator[str]:
    at = LEFT
    for shade in range(SHADES):
        yield f'<rect class="s{shade}" x="{at + shade * 16}" y="{y - 10}" width="16" height="12"/>'
    at += SHADES * 16 + 8
    yield f'<text class="soft" x="{at}" y="{y}">0 to {FULL:.0f}% of the work waits</text>'
    at += 178
    yield from _marks(at, y - 10, 1)
    yield f'<text class="soft" x="{at + 12}" y="{y}">a soft taint for the next cycle</text>'
    at += 200
    yield f'<rect class="bar" x="{at}" y="{y - 10}" width="12" height="12"/>'
    yield f'<text class="soft" x="{at + 18}" y="{y}">machines that moved</text>'
