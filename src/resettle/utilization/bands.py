"""Bands: nodes sorted into under, within and over by how full they are.

        0 %            low                         high           100 %
        ├───── under ───┼──────────── within ────────┼──── over ────┤
                        all resources at or below    any one above

Balancing plugins and the soft tainter use the same function, so they agree. Shares (percent of
capacity in use) come from `usage`; earlier cycles are in `history`. A node whose usage is unknown
is in no band: no pods are moved off it, and it is no target.

Floating-point operations are in a fixed order, so that a node at the edge is in the same band as in
kubernetes-sigs/descheduler. A control-plane node takes no pods and would lower every mean, so it
is left out unless it is also a worker or the policy's `nodeSelector` names its role.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from resettle.framework.view import View
from resettle.model.objects import Node
from resettle.model.resources import NANO, in_resource_unit

Shares = dict[str, float]
Thresholds = Mapping[str, float]
_MILLI = NANO // 1000


def node_capacity(node: Node) -> Mapping[str, int]:
    """What pods can use of the node: `allocatable`, or `capacity` where that is missing."""
    return node.allocatable or node.capacity


def shares(
    used: Mapping[str, int], capacity: Mapping[str, int], resources: Iterable[str]
) -> Shares:
    """Percent of the capacity in use; resources the node does not have are left out."""
    result: Shares = {}
    for name in resources:
        if name in capacity:
            cap = in_resource_unit(name, capacity[name])
            result[name] = (
                float(in_resource_unit(name, used.get(name, 0))) / float(cap) * 100
                if cap > 0
                else 0
            )
    return result


def is_within(measured: Shares, limits: Thresholds) -> bool:
    """Whether no resource is above its limit; one that the node does not have counts as unused."""
    return all(measured.get(name, 0) <= limit for name, limit in limits.items())


def allowance(name: str, capacity: Mapping[str, int], limits: Thresholds) -> int:
    """How much of a resource the limits allow a node to use, in nano units."""
    if name not in capacity:
        return 0
    if name not in limits:
        return capacity[name]
    cap = in_resource_unit(name, capacity[name])
    return int((limits[name] * 0.01) * float(cap)) * (_MILLI if name == "cpu" else NANO)


def average(measured: Iterable[Shares], resources: Iterable[str]) -> Shares:
    """Mean share of each resource over the nodes that have it."""
    rows = list(measured)
    result: Shares = {}
    for name in resources:
        values = [row[name] for row in rows if name in row]
        if values:
            result[name] = sum(values) / len(values)
    return result


def offset_from_mean(mean: Shares, deviation: Thresholds, sign: int) -> Shares:
    """The mean, moved down (-1) or up (+1) by a deviation, kept between 0 and 100."""
    return {
        name: min(max(value + sign * deviation[name], 0.0), 100.0)
        for name, value in mean.items()
        if name in deviation
    }


UNDER, WITHIN, OVER, UNKNOWN = BANDS = "under", "within", "over", "unknown"


class BandLimits(Struct, frozen=True, kw_only=True):
    """The two limits of a policy: percentages, or distances from the mean."""

    low: Thresholds
    """At or below all of these a node is under."""
    high: Thresholds
    """Above any of these a node is over."""
    from_mean: bool = False
    """Both are distances from the mean of all nodes: down for low, up for high."""
    margin: float = 0.0
    """Points below the high limit that a node which was over must reach to be over no more."""
    include_cordoned: bool = False
    """A cordoned node can be under: for plugins that drain nodes that are under."""

    def in_percent(self, measured: Iterable[Shares]) -> PercentLimits:
        """Both limits in percent, given the shares of all nodes that count."""
        if not self.from_mean:
            return PercentLimits(dict(self.low), dict(self.high))
        mean = average(measured, self.low)
        return PercentLimits(
            offset_from_mean(mean, self.low, -1), offset_from_mean(mean, self.high, +1)
        )


class PercentLimits(NamedTuple):
    """Both limits in percent, for each resource."""

    low: Shares
    high: Shares


class Bands:
    """Nodes by band, in the order they came, with the limits and shares that decided it.

    `sort_into_bands` makes them; `of(node)` answers for one.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        measured: Mapping[Node, Shares],
        limits: BandLimits,
        over_before: frozenset[str],
    ) -> None:
        self._nodes = list(nodes)
        self.limits = limits
        known = [node for node in self._nodes if node in measured]
        self.measured: Mapping[Node, Shares] = measured
        self.low, self.high = limits.in_percent(measured[node] for node in known)
        released = {name: limit - limits.margin for name, limit in self.high.items()}
        self.under: list[Node] = []
        """Nodes with room; a cordoned node is one of them only if the limits say so."""
        self.within: list[Node] = []
        self.over: list[Node] = []
        self.unknown: list[Node] = [node for node in self._nodes if node not in measured]
        """Nodes whose usage is unknown."""
        for node in known:
            high = released if node.name in over_before else self.high
            eligible = limits.include_cordoned or not node.unschedulable
            if eligible and is_within(measured[node], self.low):
                self.under.append(node)
            elif not is_within(measured[node], high):
                self.over.append(node)
            else:
                self.within.append(node)
        self.by_name: Mapping[str, list[Node]] = {
            UNDER: self.under,
            WITHIN: self.within,
            OVER: self.over,
            UNKNOWN: self.unknown,
        }
        """All four by their names."""
        self._of = {node: band for band, nodes in self.by_name.items() for node in nodes}

    def of(self, node: Node) -> str | None:
        """The band of a node, `unknown` without shares; None for a node that was not sorted."""
        return self._of.get(node)

    @property
    def possible_targets(self) -> list[Node]:
        """Nodes that may take pods: those under and within, without cordoned ones."""
        closed = {*self.over, *self.unknown}
        return [node for node in self._nodes if node not in closed and not node.unschedulable]


def sort_into_bands(
    nodes: Iterable[Node],
    measured: Mapping[Node, Shares],
    limits: BandLimits,
    *,
    over_before: Iterable[str] = (),
) -> Bands:
    """The bands of these nodes by their shares; the mean is over nodes that have shares.

    `over_before` names the nodes that were over the last time, for limits with a margin.
    """
    return Bands(nodes, measured, limits, frozenset(over_before))


# -- limits that have a name -----------------------------------------------------------------------

STATIC = {"Low": (10.0, 30.0), "Medium": (20.0, 50.0), "High": (40.0, 70.0)}
"""Percentages (under, over) as operators choose them by a word."""
FROM_MEAN = {
    "Low": (10.0, 10.0),
    "Medium": (20.0, 20.0),
    "High": (30.0, 30.0),
    "AsymmetricLow": (0.0, 10.0),
    "AsymmetricMedium": (0.0, 20.0),
    "AsymmetricHigh": (0.0, 30.0),
}
"""Distances from the mean; asymmetric ones have every node up to the mean count as under."""


def named_limits(word: str, resources: Iterable[str], *, from_mean: bool = False) -> BandLimits:
    """The limits that a word stands for, equal for each of the resources."""
    low, high = (FROM_MEAN if from_mean else STATIC)[word]
    names = list(resources)
    return BandLimits(
        low=dict.fromkeys(names, low), high=dict.fromkeys(names, high), from_mean=from_mean
    )


CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
WORKER = "node-role.kubernetes.io/worker"


def nodes_to_balance(view: View) -> list[Node]:
    """The nodes in scope whose load counts, in order."""
    return [node for node in view.nodes if not is_excluded_control_plane(view, node)]


def is_excluded_control_plane(view: View, node: Node) -> bool:
    """Whether a node in scope is left out as part of the control plane."""
    if view.semantics.control_plane_balanced or WORKER in node.labels:
        return False
    named = {requirement.key for requirement in view.node_selector.requirements}
    return any(role in node.labels and role not in named for role in CONTROL_PLANE)
