"""Bands: nodes sorted into under, within and over by how full they are.

        0 %            low                         high           100 %
        ├───── under ───┼──────────── within ────────┼──── over ────┤
                        all resources at or below    any one above

One function for whoever goes by bands: balancing plugins move pods from over to under, a tainter
marks what is over, and so they agree. It takes shares and gives back bands; where the shares come
from, and what became of them in earlier cycles, is for others to know (`usage`, `streaks`). A node
without shares is in no band: nobody takes from it, and nobody counts on it.

How full a node is: percent of what it offers, and what a limit in percent allows.

Floating point with the operations in a fixed order, so that a node on the edge falls on the same
side as it does for kubernetes-sigs/descheduler.

Which nodes are balanced: ready ones that the policy selects, and no control plane unasked.

A control-plane node looks empty, takes no pods, and would drag every mean down. It is left out
unless it is a worker as well, or the policy's `nodeSelector` names its role.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from resettle.framework.view import View
from resettle.model.objects import Node
from resettle.model.resources import NANO, counted

Shares = dict[str, float]
Thresholds = Mapping[str, float]
_MILLI = NANO // 1000


def offered(node: Node) -> Mapping[str, int]:
    """What the node offers to pods: allocatable, else its capacity."""
    return node.allocatable or node.capacity


def shares(used: Mapping[str, int], offer: Mapping[str, int], resources: Iterable[str]) -> Shares:
    """Percent of the offer in use; resources that are not on offer are left out."""
    result: Shares = {}
    for name in resources:
        if name in offer:
            cap = counted(name, offer[name])
            result[name] = (
                float(counted(name, used.get(name, 0))) / float(cap) * 100 if cap > 0 else 0
            )
    return result


def within(measured: Shares, limits: Thresholds) -> bool:
    """Whether no resource is above its limit; one that is not on offer counts as unused."""
    return all(measured.get(name, 0) <= limit for name, limit in limits.items())


def allowance(name: str, offer: Mapping[str, int], limits: Thresholds) -> int:
    """How much of a resource the limits allow a node to use, in nano units."""
    if name not in offer:
        return 0
    if name not in limits:
        return offer[name]
    cap = counted(name, offer[name])
    return int((limits[name] * 0.01) * float(cap)) * (_MILLI if name == "cpu" else NANO)


def average(measured: Iterable[Shares], resources: Iterable[str]) -> Shares:
    """Mean share of each resource over the nodes that offer it."""
    rows = list(measured)
    result: Shares = {}
    for name in resources:
        values = [row[name] for row in rows if name in row]
        if values:
            result[name] = sum(values) / len(values)
    return result


def around(mean: Shares, deviation: Thresholds, sign: int) -> Shares:
    """The mean moved down (-1) or up (+1) by a deviation, kept between 0 and 100."""
    return {
        name: min(max(value + sign * deviation[name], 0.0), 100.0)
        for name, value in mean.items()
        if name in deviation
    }


UNDER, WITHIN, OVER, UNKNOWN = BANDS = "under", "within", "over", "unknown"


class Scale(Struct, frozen=True, kw_only=True):
    """Where a policy draws the two lines: at percentages, or at distances from the mean."""

    low: Thresholds
    """At or below all of these a node is under."""
    high: Thresholds
    """Above any of these a node is over."""
    from_mean: bool = False
    """The figures are distances from the mean of all nodes: down for low, up for high."""
    margin: float = 0.0
    """Points by which a node that was over must fall below the high line to be over no more."""
    cordoned_too: bool = False
    """A cordoned node can be under: under is who is to be emptied, not who takes pods."""

    def lines(self, measured: Iterable[Shares]) -> Lines:
        """The lines in percent, given the shares of all nodes that count."""
        if not self.from_mean:
            return Lines(dict(self.low), dict(self.high))
        mean = average(measured, self.low)
        return Lines(around(mean, self.low, -1), around(mean, self.high, +1))


class Lines(NamedTuple):
    """Both lines in percent, for each resource."""

    low: Shares
    high: Shares


class Bands:
    """Nodes in their bands, in the order they came, with the lines and shares that put them there.

    `banded` makes them; `of(node)` answers for one.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        measured: Mapping[Node, Shares],
        scale: Scale,
        over_before: frozenset[str],
    ) -> None:
        self._nodes = list(nodes)
        self.scale = scale
        known = [node for node in self._nodes if node in measured]
        self.measured: Mapping[Node, Shares] = measured
        self.low, self.high = scale.lines(measured[node] for node in known)
        released = {name: line - scale.margin for name, line in self.high.items()}
        self.under: list[Node] = []
        """Nodes with room; a cordoned node is one of them only if the scale says so."""
        self.within: list[Node] = []
        self.over: list[Node] = []
        self.unknown: list[Node] = [it for it in self._nodes if it not in measured]
        """Nodes of which nobody can say how full they are."""
        for node in known:
            line = released if node.name in over_before else self.high
            eligible = scale.cordoned_too or not node.unschedulable
            if eligible and within(measured[node], self.low):
                self.under.append(node)
            elif not within(measured[node], line):
                self.over.append(node)
            else:
                self.within.append(node)
        self.named: Mapping[str, list[Node]] = {
            UNDER: self.under,
            WITHIN: self.within,
            OVER: self.over,
            UNKNOWN: self.unknown,
        }
        """All four by their names."""
        self._of = {node: band for band, found in self.named.items() for node in found}

    def of(self, node: Node) -> str | None:
        """The band of a node, `unknown` for one without shares; None if it was not asked about."""
        return self._of.get(node)

    @property
    def open(self) -> list[Node]:
        """Nodes that may take pods without harm: those under, and those within; none cordoned."""
        closed = {*self.over, *self.unknown}
        return [it for it in self._nodes if it not in closed and not it.unschedulable]


def banded(
    nodes: Iterable[Node],
    measured: Mapping[Node, Shares],
    scale: Scale,
    *,
    over_before: Iterable[str] = (),
) -> Bands:
    """The bands of these nodes, going by their shares; the mean is over those that have some.

    `over_before` names the nodes that were over the last time, for a scale with a margin.
    """
    return Bands(nodes, measured, scale, frozenset(over_before))


# -- scales that have a name -----------------------------------------------------------------------

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


def named_scale(word: str, resources: Iterable[str], *, from_mean: bool = False) -> Scale:
    """The scale that a word stands for, the same for each of the resources."""
    low, high = (FROM_MEAN if from_mean else STATIC)[word]
    names = list(resources)
    return Scale(
        low=dict.fromkeys(names, low), high=dict.fromkeys(names, high), from_mean=from_mean
    )


CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
WORKER = "node-role.kubernetes.io/worker"


def balanced(view: View) -> list[Node]:
    """The nodes in scope whose load counts, in order."""
    return [node for node in view.nodes if not left_out(view, node)]


def left_out(view: View, node: Node) -> bool:
    """Whether a node in scope is left out as one of the control plane."""
    if view.semantics.control_plane_balanced or WORKER in node.labels:
        return False
    named = {it.key for it in view.node_selector.requirements}
    return any(role in node.labels and role not in named for role in CONTROL_PLANE)
