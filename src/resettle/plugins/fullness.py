"""How the utilization plugins tell how full a node is, and how near to a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest

from resettle.framework.verdict import Band
from resettle.load.bands import Shares, Thresholds
from resettle.model.node import Node

MOST = 3


def told(name: str, node: Node, measured: Shares, limits: Thresholds, line: str) -> Band:
    """A band, with the figures that put the node there."""
    parts = [
        f"{share:.0f}% {resource} ({line} {limits[resource]:.0f}%)"
        for resource, share in measured.items()
        if resource in limits
    ]
    return Band(name, f"{node.name} is at {', '.join(parts) or 'nothing that is measured'}")


def nearest(
    nodes: Iterable[Node],
    measured: dict[Node, Shares],
    limits: Thresholds,
    line: str,
    *,
    below: bool,
) -> Iterator[str]:
    """The nodes closest to the line that would make them the plugin's business.

    From below, any resource that crosses its line is enough; from above, all must, so the one
    that is farthest from it counts.
    """
    gaps: list[tuple[float, str, str]] = []
    for node in nodes:
        row = [
            (limits[name] - share if below else share - limits[name], name)
            for name, share in measured[node].items()
            if name in limits
        ]
        if row:
            gap, name = min(row) if below else max(row)
            gaps.append((gap, node.name, name))
    side = "below" if below else "above"
    for gap, node_name, name in nsmallest(MOST, gaps):
        limit = limits[name]
        at = limit - gap if below else limit + gap
        points = "just" if gap < 1 else f"{gap:.0f} point{'' if round(gap) == 1 else 's'}"
        yield f"{node_name} is at {at:.0f}% {name}, {points} {side} the {line} of {limit:.0f}%"
