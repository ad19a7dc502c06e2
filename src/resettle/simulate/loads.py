"""How full each node is, in the few figures that a story of many cycles can keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from resettle.load.shares import offered, shares
from resettle.model.readings import PROMETHEUS, Question
from resettle.model.snapshot import Snapshot


class Load(Struct, frozen=True):
    """What the pods of a node request, in percent of its offer; None where it does not say."""

    cpu: float | None
    memory: float | None
    pods: int
    measured: float | None = None
    """What the query of the policy says of it, in percent; of several, the largest."""

    @property
    def shown(self) -> float | None:
        """The one figure to show: what is measured, else the larger share that is requested."""
        return self.larger if self.measured is None else self.measured

    @property
    def larger(self) -> float | None:
        """The larger share of the two."""
        return max((it for it in (self.cpu, self.memory) if it is not None), default=None)


def loads(snapshot: Snapshot, asked: Collection[Question] = ()) -> Mapping[str, Load]:
    """The load of each node, by name and in order, with what these queries say of it."""
    found = {}
    measured = _measured(snapshot, asked)
    for node in snapshot.fleet:
        used = shares(snapshot.requested(node), offered(node), ("cpu", "memory"))
        pods = len(snapshot.pods_on(node))
        found[node.name] = Load(used.get("cpu"), used.get("memory"), pods, measured.get(node.name))
    return found


def _measured(snapshot: Snapshot, asked: Collection[Question]) -> dict[str, float]:
    found: dict[str, float] = {}
    for question in asked:
        if question.source == PROMETHEUS and question in snapshot.usage:
            for figure in snapshot.usage[question].figures:
                if 0 <= figure.number <= 1:
                    percent = figure.number * 100
                    found[figure.node] = max(percent, found.get(figure.node, percent))
    return found
