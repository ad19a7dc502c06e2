"""Which of our taints each node should have (pure: no clocks, no requests).

    outside the selector, or of the control plane      none
    not ready, or its usage is unknown                 what it has
    under                                              none
    within                                             `appropriate`, in that style, if one is under
    over                                               one taint a level, the fullest nodes first

The taints of a node are all that is remembered from one pass to the next: a node that has a level
keeps it until its use has fallen by the release margin below where that level begins.

Levels say how far over its line a node is, in steps. With the line at t and use at u,
r = (u - t) / (100 - t) is how much of the space above the line is taken. Of n levels, linear steps
are equal parts of r; exponential ones halve what remains:

    n = 3   linear       1 ──── 1/3 ──── 2 ──── 2/3 ──── 3
            exponential  1 ──────── 1/2 ──── 2 ── 3/4 ── 3

Keys and values, by style:

| style       | a node that is over its line, at level 3 of 3                            |
|-------------|--------------------------------------------------------------------------|
| `Levels`    | `…/overutilized=level1`, `…/overutilized-2=level2`, `…/overutilized-3=…` |
| `OpenShift` | `…/appropriate=true`, `…/overutilized=true`                              |

The scheduler counts soft taints and never looks at their values, and a node may have one taint of a
key and effect; so each level has a key of its own. A taint is ours by key and effect together: a
hard taint under one of our keys belongs to others, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import ceil, floor, inf
from typing import Literal

from msgspec import Struct

from resettle.framework.verdict import Band
from resettle.framework.view import View
from resettle.model.constraints import PREFER_NO_SCHEDULE, Taint
from resettle.model.objects import Node
from resettle.policy.document import PREFIXES, SoftTaints
from resettle.utilization.bands import OVER, UNDER, UNKNOWN, Bands
from resettle.utilization.describe import describe_band
from resettle.utilization.usage import Usage

# -- keys and values -------------------------------------------------------------------------------

OVERUTILIZED = "overutilized"
APPROPRIATE = "appropriate"
NAMES = rf"{APPROPRIATE}|{OVERUTILIZED}(-[1-9][0-9]?)?"
"""What can follow the `/` in one of our keys, as a regular expression."""
_NAME = re.compile(NAMES)


class OwnTaints(Struct, frozen=True):
    """Which taints are ours: those under these prefixes."""

    prefixes: frozenset[str]

    def includes(self, key: str, effect: str) -> bool:
        """Whether a taint with this key and effect is ours."""
        domain, _, name = key.rpartition("/")
        return (
            effect == PREFER_NO_SCHEDULE
            and domain in self.prefixes
            and _NAME.fullmatch(name) is not None
        )

    def on(self, node: Node) -> tuple[Taint, ...]:
        """Our taints on a node, in their order."""
        return tuple(taint for taint in node.taints if self.includes(taint.key, taint.effect))

    def with_prefixes(self, others: Iterable[str]) -> OwnTaints:
        """These, and the taints under more prefixes."""
        return OwnTaints(self.prefixes | frozenset(others))


ALL_STYLES = OwnTaints(frozenset(PREFIXES.values()))
"""The taints of every style under its default prefix: what clean-up removes."""


class TaintScheme(Struct, frozen=True):
    """Which taints stand for which state of a node."""

    settings: SoftTaints

    @property
    def ours(self) -> OwnTaints:
        """Our taints under the prefix in use, of any style and level."""
        return OwnTaints(frozenset({self.settings.domain}))

    def over(self, level: int) -> tuple[Taint, ...]:
        """The taints of a node that is over its line."""
        if self.settings.style == "OpenShift":
            return (*self.appropriate, self._taint(OVERUTILIZED, "true"))
        return tuple(
            self._taint(OVERUTILIZED if k == 1 else f"{OVERUTILIZED}-{k}", f"level{k}")
            for k in range(1, level + 1)
        )

    @property
    def appropriate(self) -> tuple[Taint, ...]:
        """The taints of a node that is as full as it should be, while another is emptier."""
        if self.settings.style == "OpenShift":
            return (self._taint(APPROPRIATE, "true"),)
        return ()

    def level(self, node: Node) -> int:
        """The level a node is marked with: how many of our taints say that it is over its line."""
        return sum(taint.key.rpartition("/")[2] != APPROPRIATE for taint in self.ours.on(node))

    def _taint(self, name: str, value: str) -> Taint:
        return Taint(f"{self.settings.domain}/{name}", PREFER_NO_SCHEDULE, value)


# -- levels ----------------------------------------------------------------------------------------

LevelScale = Literal["Linear", "Exponential"]


def excess(measured: Mapping[str, float], lines: Mapping[str, float], ahead: float = 0.0) -> float:
    """The ratio r of the resource that is farthest over its line; zero or less where none is.

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


def level_of(r: float, levels: int, scale: LevelScale) -> int:
    """The level from 1 on; 0 for a node that is not over its line."""
    if r <= 0:
        return 0
    if scale == "Linear":
        return min(levels, 1 + floor(r * levels))
    return 1 + sum(r >= 1 - 0.5**k for k in range(1, levels))


def _ratio(above: float, space: float) -> float:
    """How much of the space is taken; a node over a line at 100 takes all of it."""
    if space > 0:
        return above / space
    return 1.0 if above > 0 else above


# -- nodes -----------------------------------------------------------------------------------------


class DesiredTaints(Struct, frozen=True, kw_only=True):
    """The taints of ours that a node should have, and why."""

    taints: tuple[Taint, ...] = ()
    because: str
    band: str = ""
    """The band of the node; empty where it is not among those that are balanced."""
    problem: str = ""
    """The code of why it keeps what it has: it is unknown how full the node is; else empty."""


NodeTaints = Mapping[str, DesiredTaints]
"""The desired taints of every node, by name."""


def taints_for_bands(view: View, bands: Bands, usage: Usage, scheme: TaintScheme) -> NodeTaints:
    """The desired taints of every node, in the order of their names."""
    levels = _levels(bands, scheme)

    def desired_of(node: Node) -> DesiredTaints:
        band = describe_band(node, bands, usage, "threshold", "target")
        if band is None:
            return _out_of_scope(node, view, scheme)
        if band.name == UNKNOWN:
            doubt = usage.problem(node)
            code = doubt.code if doubt else "usage-missing"
            return _current_taints(node, scheme, band.says, code, band=UNKNOWN)
        return _desired_in_band(band, levels.get(node, 0), bands, scheme)

    return {node.name: desired_of(node) for node in view.node_index}


def no_taints(view: View, because: str) -> NodeTaints:
    """None of our taints on any node."""
    return {node.name: DesiredTaints(because=because) for node in view.node_index}


def _desired_in_band(placed: Band, level: int, bands: Bands, scheme: TaintScheme) -> DesiredTaints:
    band, because = placed.name, placed.says
    if level:
        return DesiredTaints(taints=scheme.over(level), because=because, band=band)
    if band == OVER:
        because = f"{because}, but enough others are fuller"
    taints = () if band == UNDER else _taints_within(bands, scheme)
    return DesiredTaints(taints=taints, because=because, band=band)


def _out_of_scope(node: Node, view: View, scheme: TaintScheme) -> DesiredTaints:
    if not node.ready and view.node_selector.matches(node.labels):
        return _current_taints(node, scheme, f"{node.name} is not ready", "not-ready")
    return DesiredTaints(because=f"{node.name} is not among the nodes that are balanced")


def _taints_within(bands: Bands, scheme: TaintScheme) -> tuple[Taint, ...]:
    """The taints of nodes neither under nor marked as over; none while no node is under."""
    return scheme.appropriate if bands.under else ()


def _current_taints(
    node: Node, scheme: TaintScheme, because: str, problem: str, band: str = ""
) -> DesiredTaints:
    """The taints that the node has now."""
    taints = scheme.ours.on(node)
    return DesiredTaints(taints=taints, because=because, band=band, problem=problem)


def _levels(bands: Bands, scheme: TaintScheme) -> dict[Node, int]:
    """The level of each node that is to be marked as over."""
    reached = {
        node: level
        for node in (*bands.over, *bands.within)
        if (level := _level(node, bands, scheme))
    }
    share = scheme.settings.max_percent_of_nodes
    if share is None:
        return reached
    # Marks that stay because usage is unknown take their part of what is allowed.
    kept = sum(scheme.level(node) > 0 for node in bands.unknown)
    total = len(bands.measured) + len(bands.unknown)
    most = max(0, ceil(share * total / 100) - kept)
    fullest_first = sorted(reached, key=lambda node: (-_rank(node, bands, scheme), node.name))
    return {node: reached[node] for node in fullest_first[:most]}


def _level(node: Node, bands: Bands, scheme: TaintScheme) -> int:
    """The level by its use, or what is left of the level it has."""
    settings, measured = scheme.settings, bands.measured[node]

    def at(ahead: float) -> int:
        return level_of(excess(measured, bands.high, ahead), settings.levels, settings.scale)

    now = max(1, at(0.0)) if bands.of(node) == OVER else 0
    return max(now, min(scheme.level(node), at(settings.release_margin)))


def _rank(node: Node, bands: Bands, scheme: TaintScheme) -> float:
    """How full it is; a node that is marked already counts as fuller by the margin."""
    ahead = scheme.settings.release_margin if scheme.level(node) else 0.0
    return excess(bands.measured[node], bands.high, ahead)
