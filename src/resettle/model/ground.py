"""Why nodes do not take a pod: one ground for all nodes that one check rules out.

And how much a node lacks of what, where room is the only thing that is missing.
"""

from __future__ import annotations

from msgspec import Struct

from resettle.model.fleet import NodeSet


class Ground(Struct, frozen=True):
    """A check, and the nodes it is the first to rule out."""

    code: str
    says: str
    """A few words to follow a number of nodes: `cpu`, `taint dedicated=gpu:NoSchedule`."""
    nodes: NodeSet


class Shortage(Struct, frozen=True):
    """What a node has too little of to take a pod, in the unit the resource is counted in."""

    node: str
    resource: str
    amount: int
    share: float
    """The amount as a part of what the node offers."""
