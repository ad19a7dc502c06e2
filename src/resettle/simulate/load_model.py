"""What nodes would be measured to use once pods have moved.

A pod takes its use along: what the metrics API said of it, or else what it requests. What a node
used beside its pods stays there. The number of a Prometheus query has no parts. Where it is told
what each pod wants, the number follows from that; else the pods of a node are taken to share it as
they share the cpu that they request. That is a guess, and good enough to see whether a policy comes
to rest.

What pods want of the cpu, and what a query would tell of a node that has to give it.

    use        share of the node's cpu that is in use      min(1, wanted / offered)
    pressure   share of the wanted work that has to wait   max(0, 1 - offered / wanted)

What a pod wants is fixed and goes with it from node to node; what it gets is up to its node. So a
node can be full to any degree: its use ends at 1, and from there on its pressure rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from resettle.model.measurements import PROMETHEUS, Figure, Measured, Question, Readings, Used
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.model.resources import NANO
from resettle.model.snapshot import Snapshot
from resettle.utilization.bands import offered


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

Amounts = Mapping[str, int]
MEASURED = ("cpu", "memory")


class Use:
    """What each pod uses and each node uses beside its pods, as first measured."""

    def __init__(self, snapshot: Snapshot, wants: Wants = NONE_KNOWN) -> None:
        self._first = snapshot.usage
        self._wants = wants
        self._pods: dict[Question, dict[str, Amounts]] = {}
        self._rest: dict[Question, dict[str, Amounts]] = {}
        self._weights: dict[Question, dict[str, float]] = {}
        for question, readings in snapshot.usage.items():
            if question.source == PROMETHEUS:
                self._weights[question] = _shared_out(snapshot, readings)
            else:
                self._take_apart(question, readings, snapshot)

    def measured(self, snapshot: Snapshot, at: datetime) -> Measured:
        """What would be measured of the cluster as it is now, at this time."""
        found: dict[Question, Readings] = {}
        for question, readings in self._first.items():
            if readings.failure:
                found[question] = readings
            elif question.source == PROMETHEUS:
                found[question] = self._answer(question, readings, snapshot, at)
            else:
                found[question] = self._told(question, snapshot, at)
        for question in self._wants.queries:
            found[question] = self._wants.told(question, snapshot, at)
        return found

    # -- the metrics API ------------------------------------------------------------------------

    def _take_apart(self, question: Question, readings: Readings, snapshot: Snapshot) -> None:
        pods = {key: used.amounts for key, used in readings.pods.items()}
        rest: dict[str, Amounts] = {}
        for node in snapshot.fleet:
            if node.name in readings.nodes:
                used = readings.nodes[node.name].amounts
                within = [_use(pod, pods) for pod in snapshot.active_on(node)]
                rest[node.name] = {
                    name: max(0, amount - sum(it.get(name, 0) for it in within))
                    for name, amount in used.items()
                }
        self._pods[question], self._rest[question] = pods, rest

    def _told(self, question: Question, snapshot: Snapshot, at: datetime) -> Readings:
        known, rest = self._pods[question], self._rest[question]
        nodes, pods = {}, {}
        for node in snapshot.fleet:
            total = dict(rest.get(node.name, dict.fromkeys(MEASURED, 0)))
            for pod in snapshot.active_on(node):
                use = _use(pod, known)
                pods[pod.key] = Used(at, use)
                for name in total:
                    total[name] += use.get(name, 0)
            nodes[node.name] = Used(at, total)
        return Readings(nodes=nodes, pods=pods)

    # -- Prometheus -----------------------------------------------------------------------------

    def _answer(
        self, question: Question, readings: Readings, snapshot: Snapshot, at: datetime
    ) -> Readings:
        weights = self._weights[question]
        figures = []
        for figure in readings.figures:
            node = snapshot.fleet.get(figure.node)
            number = figure.number
            if node is not None and _sound(figure):
                pods = snapshot.active_on(node)
                known = [weights.get(pod.key, 0.0) for pod in pods]
                beside = weights.get(figure.node, 0.0)
                number = min(1.0, (beside + sum(known)) / _size(node))
            figures.append(Figure(figure.node, number, at))
        return Readings(figures=tuple(figures))


def _use(pod: Pod, known: Mapping[str, Amounts]) -> Amounts:
    """What was measured of the pod; of one that is new, what it requests."""
    found = known.get(pod.key)
    return {name: pod.spec.requests.get(name, 0) for name in MEASURED} if found is None else found


def _shared_out(snapshot: Snapshot, readings: Readings) -> dict[str, float]:
    """What each pod has of its node's number, in cores; a node without pods keeps its own."""
    weights: dict[str, float] = {}
    for figure in filter(_sound, readings.figures):
        node = snapshot.fleet.get(figure.node)
        if node is None:
            continue
        whole, pods = figure.number * _size(node), snapshot.active_on(node)
        asks = [pod.spec.requests.get("cpu", 0) for pod in pods]
        total = sum(asks)
        if not pods:
            weights[node.name] = whole
        for pod, ask in zip(pods, asks, strict=True):
            weights[pod.key] = whole * (ask / total if total else 1 / len(pods))
    return weights


def _size(node: Node) -> float:
    return float(offered(node).get("cpu", 0)) or 1.0


def _sound(figure: Figure) -> bool:
    return not math.isnan(figure.number) and 0 <= figure.number <= 1
