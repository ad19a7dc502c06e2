"""How full a node is: percent of what it offers, and what a limit in percent allows.

Floating point with the operations in a fixed order, so that a node on the edge falls on the same
side as it does for kubernetes-sigs/descheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from resettle.model.node import Node
from resettle.model.quantity import NANO, counted

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
