"""A log-log plot of how cost grows with the cluster, written by hand as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Point = tuple[float, float]
_WIDTH, _HEIGHT = 374, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 30, 40, 48
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-weight:600}"
    ".grid{stroke:#ddd}.fit{stroke:#bbb;stroke-dasharray:4 4}"
    ".line{fill:none;stroke:#1a6fb5;stroke-width:2}.dot{fill:#1a6fb5}"
)


@dataclass(frozen=True)
class Panel:
    """One curve with its axes."""

    title: str
    points: Sequence[Point]
    """Nodes and cost."""
    fit_from: float = 0
    """The exponent is fitted to points from here on; below, start-up counts for most."""

    @property
    def exponent(self) -> float:
        """The power of the number of nodes that the cost grows with."""
        return fitted([point for point in self.points if point[0] >= self.fit_from])[0]


def fitted(points: Sequence[Point]) -> tuple[float, float]:
    """Exponent and factor of the power law nearest to the points, in logarithms."""
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(y) for _, y in points]
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - middle_x) ** 2 for x in xs)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread
    return slope, math.exp(middle_y - slope * middle_x)


def svg(panels: Sequence[Panel]) -> str:
    """The panels side by side."""
    width = _WIDTH * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" role="img">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{_HEIGHT}" fill="#fff"/>',
    ]
    for i, panel in enumerate(panels):
        parts += [f'<g transform="translate({i * _WIDTH} 0)">', *_drawn(panel), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(panel: Panel) -> Iterator[str]:
    xs, ys = _decades(x for x, _ in panel.points), _decades(y for _, y in panel.points)
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def across(x: float) -> float:
        return _LEFT + (right - _LEFT) * _share(x, xs)

    def down(y: float) -> float:
        return bottom - (bottom - _TOP) * _share(y, ys)

    yield f'<text class="title" x="{_LEFT}" y="22">{panel.title}</text>'
    for x in xs:
        yield f'<path class="grid" d="M{across(x):.1f} {_TOP}V{bottom}"/>'
        yield f'<text x="{across(x):.1f}" y="{bottom + 18}" text-anchor="middle">{x:,.6g}</text>'
    for y in ys:
        yield f'<path class="grid" d="M{_LEFT} {down(y):.1f}H{right}"/>'
        yield f'<text x="{_LEFT - 6}" y="{down(y) + 4:.1f}" text-anchor="end">{y:,.6g}</text>'
    middle = (_LEFT + right) / 2
    yield f'<text x="{middle:.1f}" y="{_HEIGHT - 10}" text-anchor="middle">nodes</text>'
    slope, factor = fitted([point for point in panel.points if point[0] >= panel.fit_from])
    ends = max(panel.fit_from, panel.points[0][0]), panel.points[-1][0]
    start, end = (f"{across(x):.1f} {down(factor * x**slope):.1f}" for x in ends)
    yield f'<path class="fit" d="M{start}L{end}"/>'
    yield f'<text x="{right - 4}" y="{bottom - 10}" text-anchor="end">∝ nodes^{slope:.2f}</text>'
    path = "L".join(f"{across(x):.1f} {down(y):.1f}" for x, y in panel.points)
    yield f'<path class="line" d="M{path}"/>'
    for x, y in panel.points:
        yield f'<circle class="dot" cx="{across(x):.1f}" cy="{down(y):.1f}" r="3.5"/>'


def _decades(values: Iterator[float]) -> list[float]:
    """The powers of ten that enclose the values."""
    logs = [math.log10(value) for value in values]
    return [10.0**power for power in range(math.floor(min(logs)), math.ceil(max(logs)) + 1)]


def _share(value: float, decades: Sequence[float]) -> float:
    """How far along the axis a value lies, from 0 to 1."""
    first, last = math.log10(decades[0]), math.log10(decades[-1])
    return (math.log10(value) - first) / ((last - first) or 1)
