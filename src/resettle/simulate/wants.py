"""What pods want of the cpu, and what a query would tell of a node that has to give it.

    use        share of the node's cpu that is in use      min(1, wanted / offered)
    pressure   share of the wanted work that has to wait   max(0, 1 - offered / wanted)

What a pod wants is fixed and goes with it from node to node; what it gets is up to its node. So a
node can be full to any degree: its use ends at 1, and from there on its pressure rises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from resettle.load.shares import offered
from resettle.model.pod import Pod
from resettle.model.quantity import NANO
from resettle.model.readings import Figure, Question, Readings
from resettle.model.snapshot import Snapshot


def use(wanted: float, cores: float) -> float:
    """How much of the cpu is in use, from 0 to 1."""
    return min(1.0, wanted / cores) if cores else 1.0


def pressure(wanted: float, cores: float) -> float:
    """How much of the work has to wait, from 0 to 1."""
    return max(0.0, 1 - cores / wanted) if wanted else 0.0


FIGURES: Mapping[str, Callable[[float, float], float]] = {"Use": use, "Pressure": pressure}
"""What a query can be about."""


class Wants(Struct, frozen=True):
    """What each pod wants, and which queries tell of it."""

    cores: Mapping[str, float]
    """By `namespace/name`; a pod that is not named wants what it requests."""
    queries: Mapping[Question, str]
    """What each query is about, a name of `FIGURES`."""

    def of(self, pods: Iterable[Pod]) -> float:
        """What these pods want together, in cores."""
        return sum(self._of(pod) for pod in pods)

    def told(self, question: Question, snapshot: Snapshot, at: datetime) -> Readings:
        """What the query would answer at this time."""
        figure = FIGURES[self.queries[question]]
        figures = (
            Figure(
                node.name,
                figure(self.of(snapshot.active_on(node)), offered(node).get("cpu", 0) / NANO),
                at,
            )
            for node in snapshot.fleet
        )
        return Readings(figures=tuple(figures))

    def _of(self, pod: Pod) -> float:
        known = self.cores.get(pod.key)
        return pod.spec.requests.get("cpu", 0) / NANO if known is None else known


NONE_KNOWN = Wants({}, {})
