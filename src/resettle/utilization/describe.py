"""How full nodes are, in words: the band of a node, how near it is to a line, why it is unknown.

Balancing plugins and the soft tainter share it, so that they agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Protocol

from resettle.framework.draft import Draft
from resettle.framework.plan import surveyed
from resettle.framework.verdict import Band, NotProposed
from resettle.framework.view import View
from resettle.model.objects import Node
from resettle.utilization.bands import (
    UNDER,
    UNKNOWN,
    Bands,
    Scale,
    Shares,
    Thresholds,
    balanced,
    banded,
)
from resettle.utilization.metrics_args import MetricsUtilization, usage_of
from resettle.utilization.usage import Doubt, Usage, measured

MOST = 3


class BandArgs(Protocol):
    """The arguments of LowNodeUtilization that put nodes into bands."""

    @property
    def thresholds(self) -> Thresholds:
        """At or below all of these a node is under."""

    @property
    def target_thresholds(self) -> Thresholds:
        """Above any of these a node is over."""

    @property
    def use_deviation_thresholds(self) -> bool:
        """Whether both are distances from the mean."""

    @property
    def metrics_utilization(self) -> MetricsUtilization | None:
        """Where usage is read from; None for what pods request."""


def bands_of(args: BandArgs, view: View, usage: Usage) -> Bands:
    """Nodes that are too empty, nodes that are too full, and the lines that say so."""
    nodes = balanced(view)
    scale = Scale(
        low=args.thresholds,
        high=args.target_thresholds,
        from_mean=args.use_deviation_thresholds,
    )
    return banded(nodes, measured(usage, nodes, args.thresholds, view), scale)


class NodeBands:
    """The bands of all nodes and the usage behind them."""

    def __init__(self, args: BandArgs, view: View) -> None:
        self.usage = usage_of(args.metrics_utilization, view)
        self.bands = bands_of(args, view, self.usage)


def band_of(node: Node, bands: Bands, usage: Usage, low: str, high: str) -> Band | None:
    """The band of a node with its figures; the lines are called by the names a policy has."""
    found = bands.of(node)
    if found is None:
        return None
    if found == UNKNOWN:
        doubt = usage.doubt(node)
        return Band(found, f"{node.name} {doubt.says if doubt else 'was not measured'}")
    if found == UNDER:
        return told(found, node, bands.measured[node], bands.low, low, usage)
    return told(found, node, bands.measured[node], bands.high, high, usage)


def told(
    name: str, node: Node, measured: Shares, limits: Thresholds, line: str, usage: Usage
) -> Band:
    """A band, with the figures that put the node there."""
    parts = [
        f"{share:.0f}% {usage.named(resource)} ({line} {limits[resource]:.0f}%)"
        for resource, share in measured.items()
        if resource in limits
    ]
    return Band(name, f"{node.name} is at {', '.join(parts) or 'nothing that is measured'}")


def not_over(band: Band, doubt: Doubt | None) -> NotProposed:
    """Why pods of a node that is not too full stay."""
    if doubt is not None:
        return NotProposed(doubt.code, band.says)
    return NotProposed("node-under" if band.name == UNDER else "node-within", band.says)


def on_control_plane(node: Node) -> NotProposed:
    """Why pods of a node that is in scope and yet in no band stay."""
    says = f"{node.name} is of the control plane, and `nodeSelector` does not name that role"
    return NotProposed("control-plane", says)


def tell_bands(bands: Bands, usage: Usage, draft: Draft) -> None:
    """Tells where all nodes stand, and notes on each that nobody can place why that is so."""
    from_mean = bands.scale.from_mean
    draft.survey(surveyed(bands.named, bands.measured, bands.low, bands.high, from_mean=from_mean))
    for node in bands.unknown:
        if doubt := usage.doubt(node):
            draft.note(node, doubt.code, doubt.says)


def nearly(bands: Bands, usage: Usage, low: str, high: str) -> Iterator[str]:
    """Nodes that are nearly too full; where none is empty enough, those that nearly are."""
    if not bands.under:
        open_nodes = [node for node in bands.measured if not node.unschedulable]
        return nearest(open_nodes, bands.measured, bands.low, low, usage, below=False)
    return nearest(bands.within, bands.measured, bands.high, high, usage, below=True)


def nearest(
    nodes: Iterable[Node],
    measured: Mapping[Node, Shares],
    limits: Thresholds,
    line: str,
    usage: Usage,
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
        said = f"{node_name} is at {at:.0f}% {usage.named(name)}"
        yield f"{said}, {points} {side} the {line} of {limit:.0f}%"
