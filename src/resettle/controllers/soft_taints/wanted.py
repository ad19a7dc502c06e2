"""Which of our taints each node should have.

    outside the selector, or of the control plane      none
    not ready, or nobody can say how full it is        what it has: doubt changes nothing
    under                                              none
    within                                             `appropriate`, in that style, if one is under
    over                                               one taint a level, the fullest nodes first

What a node is marked with is all that is remembered from one round to the next: a node that has a
level keeps it until its use has fallen by the release margin below where that level begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from msgspec import Struct

from resettle.controllers.soft_taints.levels import excess, level
from resettle.controllers.soft_taints.scheme import Scheme
from resettle.controllers.soft_taints.task import Mode, Task
from resettle.framework.verdict import Band
from resettle.framework.view import View
from resettle.load.bands import OVER, UNDER, UNKNOWN, Bands
from resettle.load.usage import Usage
from resettle.model.node import Node
from resettle.model.taint import Taint
from resettle.plugins.fullness import band_of
from resettle.plugins.low_node_utilization import Seen


class Wish(Struct, frozen=True, kw_only=True):
    """The taints of ours that a node should have, and why."""

    taints: tuple[Taint, ...] = ()
    because: str
    band: str = ""
    """The band of the node; empty where it is not among those that are balanced."""
    doubt: str = ""
    """The code of why it only keeps what it has: nobody can say what it should have."""


NodeTaints = Mapping[str, Wish]
"""A wish for every node there is, by name."""


def wished(task: Task, view: View) -> NodeTaints:
    """What every node should have, be it written or not."""
    if task.mode is Mode.REMOVE_ONLY:
        return nothing_wanted(view, "all are to be removed")
    if task.thresholds is None:
        return nothing_wanted(view, "the policy does not balance nodes by their use")
    seen = Seen(task.thresholds, view)
    return wanted_taints(view, seen.bands, seen.usage, task.scheme)


def wanted_taints(view: View, bands: Bands, usage: Usage, scheme: Scheme) -> NodeTaints:
    """What every node should have, in the order of their names; `usage` says where doubt is."""
    levels = _levels(bands, scheme)

    def wish(node: Node) -> Wish:
        if (found := band_of(node, bands, usage, "threshold", "target")) is None:
            return _out_of_scope(node, view, scheme)
        if found.name == UNKNOWN:
            doubt = usage.doubt(node)
            code = doubt.code if doubt else "usage-missing"
            return _kept(node, scheme, found.says, code, band=UNKNOWN)
        return _wish(found, levels.get(node, 0), bands, scheme)

    return {node.name: wish(node) for node in view.fleet}


def nothing_wanted(view: View, because: str) -> NodeTaints:
    """No taint of ours, anywhere."""
    return {node.name: Wish(because=because) for node in view.fleet}


def _wish(found: Band, reached: int, bands: Bands, scheme: Scheme) -> Wish:
    band, because = found.name, found.says
    if reached:
        return Wish(taints=scheme.over(reached), because=because, band=band)
    if band == OVER:
        because = f"{because}, but enough others are fuller"
    calm = () if band == UNDER else _calm(bands, scheme)
    return Wish(taints=calm, because=because, band=band)


def _out_of_scope(node: Node, view: View, scheme: Scheme) -> Wish:
    if not node.ready and view.node_selector.matches(node.labels):
        return _kept(node, scheme, f"{node.name} is not ready", "not-ready")
    return Wish(because=f"{node.name} is not among the nodes that are balanced")


def _calm(bands: Bands, scheme: Scheme) -> tuple[Taint, ...]:
    """What nodes have that are neither under nor marked as over; a uniform cluster stays clean."""
    return scheme.appropriate if bands.under else ()


def _kept(node: Node, scheme: Scheme, because: str, doubt: str, band: str = "") -> Wish:
    return Wish(taints=scheme.ours.on(node), because=because, band=band, doubt=doubt)


def _levels(bands: Bands, scheme: Scheme) -> dict[Node, int]:
    """The level of each node that is to be marked as over."""
    reached = {
        node: found
        for node in (*bands.over, *bands.within)
        if (found := _level(node, bands, scheme))
    }
    share = scheme.settings.max_percent_of_nodes
    if share is None:
        return reached
    # Marks that doubt keeps in place take their part of what is allowed.
    kept = sum(scheme.level(node) > 0 for node in bands.unknown)
    there = len(bands.measured) + len(bands.unknown)
    most = max(0, ceil(share * there / 100) - kept)
    fullest_first = sorted(reached, key=lambda node: (-_rank(node, bands, scheme), node.name))
    return {node: reached[node] for node in fullest_first[:most]}


def _level(node: Node, bands: Bands, scheme: Scheme) -> int:
    """What its use comes to, or what is left of the level it has."""
    settings, measured = scheme.settings, bands.measured[node]

    def at(ahead: float) -> int:
        return level(excess(measured, bands.high, ahead), settings.levels, settings.scale)

    now = max(1, at(0.0)) if bands.of(node) == OVER else 0
    return max(now, min(scheme.level(node), at(settings.release_margin)))


def _rank(node: Node, bands: Bands, scheme: Scheme) -> float:
    """How full it is; who is marked already stays ahead by the margin."""
    ahead = scheme.settings.release_margin if scheme.level(node) else 0.0
    return excess(bands.measured[node], bands.high, ahead)
