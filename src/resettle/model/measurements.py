"""Measured usage of nodes and pods, unfiltered: valid samples, invalid ones, and their times.

Whether a sample is used depends on the policy and on the time of the snapshot, so
`resettle.utilization` decides that; a dump keeps even samples that no policy would use.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from resettle.model.decoding.wire import NodeMetrics, PodMetrics
from resettle.model.resources import parse_quantity
from resettle.times import parse_time

KUBERNETES_METRICS, PROMETHEUS = "KubernetesMetrics", "Prometheus"
NODE_LABEL = "instance"
NEEDED = ("cpu", "memory")
"""Resources that every container must report for the usage of its pod to be known."""


class MetricsQuery(Struct, frozen=True, order=True):
    """A query for the usage of nodes: the source and what is asked of it."""

    source: str = KUBERNETES_METRICS
    query: str = ""
    """A Prometheus query that returns a number for each node."""
    label: str = NODE_LABEL
    """The label of the result that has the name of the node."""
    smoothed: bool = False
    """Whether samples of the metrics API are smoothed from poll to poll."""


METRICS_API = MetricsQuery()
SMOOTHED = MetricsQuery(smoothed=True)


class Used(Struct, frozen=True):
    """The usage of a node or a pod, from the metrics API."""

    at: datetime
    amounts: Mapping[str, int]
    """Resource name to nano units."""


class Figure(Struct, frozen=True):
    """One sample of a query's result."""

    node: str
    """The value of the node label; empty if the sample has no such label."""
    number: float
    """From 0 to 1 if it is valid; otherwise whatever the server sent, NaN included."""
    at: datetime


class Readings(Struct, frozen=True, kw_only=True):
    """The result of one query."""

    nodes: Mapping[str, Used] = {}
    pods: Mapping[str, Used] = {}
    """By `namespace/name`."""
    figures: tuple[Figure, ...] = ()
    """In the order of the result."""
    failure: str = ""
    """Why the query failed; empty if it did not."""


Measured = Mapping[MetricsQuery, Readings]
"""All measurements of a snapshot, by query."""


def used_by_node(item: NodeMetrics) -> Used | None:
    """The usage of a node; None if it has no time."""
    at = parse_time(item.timestamp)
    return None if at is None else Used(at, _amounts(item.usage or {}))


def used_by_pod(item: PodMetrics) -> Used | None:
    """The usage of a pod, summed over its containers; None if a container reports none."""
    at = parse_time(item.timestamp)
    usages = [container.usage or {} for container in item.containers or ()]
    if at is None or not usages or any(name not in usage for usage in usages for name in NEEDED):
        return None
    total: dict[str, int] = {}
    for usage in usages:
        for name, amount in _amounts(usage).items():
            total[name] = total.get(name, 0) + amount
    return Used(at, total)


def _amounts(usage: Mapping[str, str]) -> dict[str, int]:
    return {name: parse_quantity(text) for name, text in usage.items()}
