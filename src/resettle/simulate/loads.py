"""How full each node is, in the few figures that a story of many cycles can keep."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from resettle.load.shares import offered, shares
from resettle.model.snapshot import Snapshot


class Load(Struct, frozen=True):
    """What the pods of a node request, in percent of its offer; None where it does not say."""

    cpu: float | None
    memory: float | None
    pods: int

    @property
    def larger(self) -> float | None:
        """The larger share of the two."""
        return max((it for it in (self.cpu, self.memory) if it is not None), default=None)


def loads(snapshot: Snapshot) -> Mapping[str, Load]:
    """The load of each node, by name and in order."""
    found = {}
    for node in snapshot.fleet:
        used = shares(snapshot.requested(node), offered(node), ("cpu", "memory"))
        pods = len(snapshot.pods_on(node))
        found[node.name] = Load(used.get("cpu"), used.get("memory"), pods)
    return found
