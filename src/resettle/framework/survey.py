"""A survey: how full a plugin found its nodes, before it chose who should move.

Nothing is decided by it. It goes with the account of a plugin's turn, for those who watch from
outside; a plan as other programs read it does not have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from resettle.model.node import Node


class Survey(Struct, frozen=True, kw_only=True):
    """Nodes by band, what each uses, and the lines that it was held against."""

    bands: dict[str, tuple[str, ...]]
    """Names of nodes by band: `under`, `within`, `over`, or `unknown` for those not measured."""
    shares: dict[str, Mapping[str, float]]
    """What each measured node uses, in percent of what it offers, by resource."""
    low: Mapping[str, float] = {}
    """At or below all of these, in percent, a node is under."""
    high: Mapping[str, float] = {}
    """Above any of these it is over."""
    from_mean: bool = False
    """Whether the lines follow the mean of all nodes."""


def surveyed(
    bands: Mapping[str, Iterable[Node]],
    shares: Mapping[Node, Mapping[str, float]],
    low: Mapping[str, float],
    high: Mapping[str, float],
    *,
    from_mean: bool = False,
) -> Survey:
    """The survey of these nodes; it holds on to their names and not to them."""
    return Survey(
        bands={band: tuple(node.name for node in nodes) for band, nodes in bands.items()},
        shares={node.name: row for node, row in shares.items()},
        low=low,
        high=high,
        from_mean=from_mean,
    )
