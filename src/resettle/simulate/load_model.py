"""Models the usage that would be measured on nodes after pods have moved.

A pod takes its usage along: what the metrics API reported, or else what it requests. What a node
used outside its pods stays there. The value of a Prometheus query has no parts by pod. Where a load
file gives the cpu that each pod demands, the value follows from that; else the pods of a node share
it in proportion to their cpu requests. That is an estimate, good enough to see whether a policy
settles.

    use        share of the node's cpu that is in use        min(1, demand / capacity)
    pressure   share of the demanded work that has to wait   max(0, 1 - capacity / demand)

The demand of a pod is fixed and moves with it; what it gets depends on its node. So use ends at 1,
and from there on the pressure rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from resettle.model.measurements import PROMETHEUS, Figure, Measured, MetricsQuery, Readings, Used
from resettle.model.objects import Node
from resettle.model.pod import Pod
from resettle.model.resources import NANO
from resettle.model.snapshot import Snapshot
from resettle.utilization.bands import node_capacity


def use(demand: float, cores: float) -> float:
    """The share of the cpu that is in use, from 0 to 1."""
    return min(1.0, demand / cores) if cores else 1.0


def pressure(demand: float, cores: float) -> float:
    """The share of the work that has to wait, from 0 to 1."""
    return max(0.0, 1 - cores / demand) if demand else 0.0


FIGURES: Mapping[str, Callable[[float, float], float]] = {"Use": use, "Pressure": pressure}
"""The values that a query can return."""


class CpuDemand(Struct, frozen=True):
    """The cpu that each pod demands, and which queries measure it."""

    cores: Mapping[str, float]
    """By `namespace/name`; a pod that is not listed demands what it requests."""
    queries: Mapping[MetricsQuery, str]
    """The value that each query returns, a name of `FIGURES`."""

    def of(self, pods: Iterable[Pod]) -> float:
        """The demand of these pods together, in cores."""
        return sum(self._cores_of(pod) for pod in pods)

    def readings_for(self, query: MetricsQuery, snapshot: Snapshot, at: datetime) -> Readings:
        """What the query would return at this time."""
        figure = FIGURES[self.queries[query]]
        figures = (
            Figure(
                node.name,
                figure(self.of(snapshot.active_on(node)), node_capacity(node).get("cpu", 0) / NANO),
                at,
            )
            for node in snapshot.node_index
        )
        return Readings(figures=tuple(figures))

    def _cores_of(self, pod: Pod) -> float:
        known = self.cores.get(pod.key)
        return pod.spec.requests.get("cpu", 0) / NANO if known is None else known


NO_DEMAND = CpuDemand({}, {})

Amounts = Mapping[str, int]
MEASURED = ("cpu", "memory")


class UsageModel:
    """What each pod uses and each node uses outside its pods, as first measured."""

    def __init__(self, snapshot: Snapshot, demand: CpuDemand = NO_DEMAND) -> None:
        self._first = snapshot.usage
        self._demand = demand
        self._pods: dict[MetricsQuery, dict[str, Amounts]] = {}
        self._outside_pods: dict[MetricsQuery, dict[str, Amounts]] = {}
        self._weights: dict[MetricsQuery, dict[str, float]] = {}
        for query, readings in snapshot.usage.items():
            if query.source == PROMETHEUS:
                self._weights[query] = _cores_by_pod(snapshot, readings)
            else:
                self._split_node_usage(query, readings, snapshot)

    def measurements(self, snapshot: Snapshot, at: datetime) -> Measured:
        """The usage that would be measured in this snapshot at this time."""
        readings_by_query: dict[MetricsQuery, Readings] = {}
        for query, readings in self._first.items():
            if readings.failure:
                readings_by_query[query] = readings
            elif query.source == PROMETHEUS:
                readings_by_query[query] = self._prometheus_readings(query, readings, snapshot, at)
            else:
                readings_by_query[query] = self._metrics_api_readings(query, snapshot, at)
        for query in self._demand.queries:
            readings_by_query[query] = self._demand.readings_for(query, snapshot, at)
        return readings_by_query

    # -- the metrics API ------------------------------------------------------------------------

    def _split_node_usage(
        self, query: MetricsQuery, readings: Readings, snapshot: Snapshot
    ) -> None:
        pods = {key: used.amounts for key, used in readings.pods.items()}
        rest: dict[str, Amounts] = {}
        for node in snapshot.node_index:
            if node.name in readings.nodes:
                used = readings.nodes[node.name].amounts
                within = [_pod_usage(pod, pods) for pod in snapshot.active_on(node)]
                rest[node.name] = {
                    name: max(0, amount - sum(usage.get(name, 0) for usage in within))
                    for name, amount in used.items()
                }
        self._pods[query], self._outside_pods[query] = pods, rest

    def _metrics_api_readings(
        self, query: MetricsQuery, snapshot: Snapshot, at: datetime
    ) -> Readings:
        known, rest = self._pods[query], self._outside_pods[query]
        nodes, pods = {}, {}
        for node in snapshot.node_index:
            total = dict(rest.get(node.name, dict.fromkeys(MEASURED, 0)))
            for pod in snapshot.active_on(node):
                use = _pod_usage(pod, known)
                pods[pod.key] = Used(at, use)
                for name in total:
                    total[name] += use.get(name, 0)
            nodes[node.name] = Used(at, total)
        return Readings(nodes=nodes, pods=pods)

    # -- Prometheus -----------------------------------------------------------------------------

    def _prometheus_readings(
        self, query: MetricsQuery, readings: Readings, snapshot: Snapshot, at: datetime
    ) -> Readings:
        weights = self._weights[query]
        figures = []
        for figure in readings.figures:
            node = snapshot.node_index.get(figure.node)
            number = figure.number
            if node is not None and _is_valid(figure):
                pods = snapshot.active_on(node)
                known = [weights.get(pod.key, 0.0) for pod in pods]
                beside = weights.get(figure.node, 0.0)
                number = min(1.0, (beside + sum(known)) / _node_cores(node))
            figures.append(Figure(figure.node, number, at))
        return Readings(figures=tuple(figures))


def _pod_usage(pod: Pod, known: Mapping[str, Amounts]) -> Amounts:
    """The measured usage of the pod; for a new pod, what it requests."""
    usage = known.get(pod.key)
    return {name: pod.spec.requests.get(name, 0) for name in MEASURED} if usage is None else usage


def _cores_by_pod(snapshot: Snapshot, readings: Readings) -> dict[str, float]:
    """The share of each pod in the value of its node, in cores; a node without pods keeps it."""
    weights: dict[str, float] = {}
    for figure in filter(_is_valid, readings.figures):
        node = snapshot.node_index.get(figure.node)
        if node is None:
            continue
        whole, pods = figure.number * _node_cores(node), snapshot.active_on(node)
        asks = [pod.spec.requests.get("cpu", 0) for pod in pods]
        total = sum(asks)
        if not pods:
            weights[node.name] = whole
        for pod, ask in zip(pods, asks, strict=True):
            weights[pod.key] = whole * (ask / total if total else 1 / len(pods))
    return weights


def _node_cores(node: Node) -> float:
    return float(node_capacity(node).get("cpu", 0)) or 1.0


def _is_valid(figure: Figure) -> bool:
    return not math.isnan(figure.number) and 0 <= figure.number <= 1
