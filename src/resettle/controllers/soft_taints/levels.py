"""Levels: how far over its line a node is, in steps.

With the line at t and use at u, r = (u - t) / (100 - t) is how much of the room above the line is
taken. Of n levels, linear steps are equal parts of r; exponential ones halve what remains:

    n = 3   linear       1 ──── 1/3 ──── 2 ──── 2/3 ──── 3
            exponential  1 ──────── 1/2 ──── 2 ── 3/4 ── 3
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, inf
from typing import Literal

Scale = Literal["Linear", "Exponential"]


def excess(measured: Mapping[str, float], lines: Mapping[str, float], ahead: float = 0.0) -> float:
    """R of the resource that is farthest over its line; zero or less where none is.

    `ahead` adds points to the use of each.
    """
    return max(
        (
            _ratio(measured[name] + ahead - line, 100 - line)
            for name, line in lines.items()
            if name in measured
        ),
        default=-inf,
    )


def level(r: float, levels: int, scale: Scale) -> int:
    """The level from 1 on; 0 for a node that is not over its line."""
    if r <= 0:
        return 0
    if scale == "Linear":
        return min(levels, 1 + floor(r * levels))
    return 1 + sum(r >= 1 - 0.5**k for k in range(1, levels))


def _ratio(above: float, room: float) -> float:
    """How much of the room is taken; over a line at 100 there is none, and all of it is."""
    if room > 0:
        return above / room
    return 1.0 if above > 0 else above
