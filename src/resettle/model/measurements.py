"""What was measured of nodes and pods, just as it came: good figures, bad ones, and their age.

Nothing here has been judged. Whether a figure can be gone by depends on the policy and on the time
of the snapshot, so that is for `resettle.utilization` to say; a dump keeps even what is of no use.
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
"""What must be known of each container of a pod for the use of the pod to be known."""


class Question(Struct, frozen=True, order=True):
    """What is asked of whom about how busy nodes are."""

    source: str = KUBERNETES_METRICS
    query: str = ""
    """A Prometheus query that answers with a number for each node."""
    label: str = NODE_LABEL
    """The label of its answer that holds the name of the node."""
    smoothed: bool = False
    """Whether short peaks of what the metrics API tells are evened out, poll by poll."""


METRICS_API = Question()
SMOOTHED = Question(smoothed=True)


class Used(Struct, frozen=True):
    """What a node or a pod uses, by the metrics API."""

    at: datetime
    amounts: Mapping[str, int]
    """Resource name to nano units."""


class Figure(Struct, frozen=True):
    """One sample of the answer to a query."""

    node: str
    """The name that its label holds; empty if it has no such label."""
    number: float
    """From 0 to 1 if all is well; whatever the server said, be it no number at all."""
    at: datetime


class Readings(Struct, frozen=True, kw_only=True):
    """The answer to one question."""

    nodes: Mapping[str, Used] = {}
    pods: Mapping[str, Used] = {}
    """By `namespace/name`."""
    figures: tuple[Figure, ...] = ()
    """In the order of the answer."""
    failure: str = ""
    """Why there is none."""


Measured = Mapping[Question, Readings]
"""All that was measured for a snapshot."""


def used_by_node(item: NodeMetrics) -> Used | None:
    """What a node uses; None if the metrics API does not say when."""
    at = parse_time(item.timestamp)
    return None if at is None else Used(at, _amounts(item.usage or {}))


def used_by_pod(item: PodMetrics) -> Used | None:
    """What a pod uses, all containers together; None if that is known only in part."""
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
