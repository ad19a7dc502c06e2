"""Sentences about node usage: the band of a node, how near it is to a limit, why it is unknown.

Balancing plugins and the soft tainter share them, so that both say the same of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Protocol

from resettle.framework.draft import Draft
from resettle.framework.plan import summarize_node_utilization
from resettle.framework.verdict import Band, NotProposed
from resettle.framework.view import View
from resettle.model.objects import Node
from resettle.utilization.bands import (
    UNDER,
    UNKNOWN,
    BandLimits,
    Bands,
    Shares,
    Thresholds,
    nodes_to_balance,
    sort_into_bands,
)
from resettle.utilization.metrics_args import MetricsUtilization, usage_of
from resettle.utilization.usage import Usage, UsageProblem, node_shares

MAX_NODES_NAMED = 3


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
    """The bands of all nodes that are balanced, by the thresholds of the policy."""
    nodes = nodes_to_balance(view)
    limits = BandLimits(
        low=args.thresholds,
        high=args.target_thresholds,
        from_mean=args.use_deviation_thresholds,
    )
    return sort_into_bands(nodes, node_shares(usage, nodes, args.thresholds, view), limits)


class NodeBands:
    """The bands of all nodes and the usage behind them."""

    def __init__(self, args: BandArgs, view: View) -> None:
        self.usage = usage_of(args.metrics_utilization, view)
        self.bands = bands_of(args, view, self.usage)


def describe_band(node: Node, bands: Bands, usage: Usage, low: str, high: str) -> Band | None:
    """The band of a node with its figures; `low` and `high` are the policy's words for limits."""
    name = bands.of(node)
    if name is None:
        return None
    if name == UNKNOWN:
        problem = usage.problem(node)
        return Band(name, f"{node.name} {problem.says if problem else 'was not measured'}")
    if name == UNDER:
        return band_with_figures(name, node, bands.measured[node], bands.low, low, usage)
    return band_with_figures(name, node, bands.measured[node], bands.high, high, usage)


def band_with_figures(
    name: str, node: Node, measured: Shares, limits: Thresholds, line: str, usage: Usage
) -> Band:
    """A band, with the figures that put the node there."""
    parts = [
        f"{share:.0f}% {usage.display_name(resource)} ({line} {limits[resource]:.0f}%)"
        for resource, share in measured.items()
        if resource in limits
    ]
    return Band(name, f"{node.name} is at {', '.join(parts) or 'nothing that was measured'}")


def why_not_over(band: Band, problem: UsageProblem | None) -> NotProposed:
    """Why pods of a node that is not too full stay."""
    if problem is not None:
        return NotProposed(problem.code, band.says)
    return NotProposed("node-under" if band.name == UNDER else "node-within", band.says)


def why_control_plane_stays(node: Node) -> NotProposed:
    """Why pods of a control-plane node stay: it is in scope, but in no band."""
    says = f"{node.name} is a control-plane node, and `nodeSelector` does not name that role"
    return NotProposed("control-plane", says)


def report_bands(bands: Bands, usage: Usage, draft: Draft) -> None:
    """Adds the bands of all nodes to the draft, and a note on each node whose usage is unknown."""
    from_mean = bands.limits.from_mean
    draft.record_utilization(
        summarize_node_utilization(
            bands.by_name, bands.measured, bands.low, bands.high, from_mean=from_mean
        )
    )
    for node in bands.unknown:
        if problem := usage.problem(node):
            draft.note(node, problem.code, problem.says)


def nodes_near_limit(bands: Bands, usage: Usage, low: str, high: str) -> Iterator[str]:
    """Nodes that are nearly over; where no node is under, those that nearly are."""
    if not bands.under:
        open_nodes = [node for node in bands.measured if not node.unschedulable]
        return nearest_to_limit(open_nodes, bands.measured, bands.low, low, usage, below=False)
    return nearest_to_limit(bands.within, bands.measured, bands.high, high, usage, below=True)


def nearest_to_limit(
    nodes: Iterable[Node],
    measured: Mapping[Node, Shares],
    limits: Thresholds,
    line: str,
    usage: Usage,
    *,
    below: bool,
) -> Iterator[str]:
    """Sentences about the nodes that are closest to a limit.

    From below, one resource above its limit is enough; from above, all must fall below theirs,
    so the one that is farthest away counts.
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
    for gap, node_name, name in nsmallest(MAX_NODES_NAMED, gaps):
        limit = limits[name]
        at = limit - gap if below else limit + gap
        points = "just" if gap < 1 else f"{gap:.0f} point{'' if round(gap) == 1 else 's'}"
        figure = f"{node_name} is at {at:.0f}% {usage.display_name(name)}"
        yield f"{figure}, {points} {side} the {line} of {limit:.0f}%"
