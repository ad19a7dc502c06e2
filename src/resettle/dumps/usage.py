"""Measured usage in a dump: objects of `metrics.k8s.io`, and answers of Prometheus.

What kubectl writes of the metrics API is read as it is; Kubernetes has no object for an answer of
Prometheus, so there is one of our own, `QueryAnswer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from mmap import mmap
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct, field

from resettle.errors import InputError
from resettle.model.decoding.wire import NodeMetrics, PodMetrics
from resettle.model.measurements import (
    METRICS_API,
    NODE_LABEL,
    PROMETHEUS,
    SMOOTHED,
    Figure,
    Measured,
    MetricsQuery,
    Readings,
    Used,
    used_by_node,
    used_by_pod,
)
from resettle.times import parse_time

METRICS_VERSION = "metrics.k8s.io/v1beta1"


class Sample(Struct):
    """One figure of an answer."""

    number: str
    at: str
    node: str = ""


class QueryAnswer(Struct, rename="camel"):
    """What Prometheus said to a query."""

    query: str
    node_label: str = NODE_LABEL
    samples: list[Sample] = field(default_factory=list)


class UsageKind(NamedTuple):
    """A kind of object that holds usage: how it is read, and what many of them are called."""

    struct: type[Struct]
    title: str


KINDS = {
    "NodeMetrics": UsageKind(NodeMetrics, "nodes.metrics.k8s.io"),
    "PodMetrics": UsageKind(PodMetrics, "pods.metrics.k8s.io"),
    "QueryAnswer": UsageKind(QueryAnswer, "answers of Prometheus"),
}
_decoders = {name: msgspec.json.Decoder(kind.struct) for name, kind in KINDS.items()}


class UsageReader:
    """Usage read from a dump, object by object."""

    def __init__(self) -> None:
        self._nodes: dict[str, Used] = {}
        self._pods: dict[str, Used] = {}
        self._answers: dict[MetricsQuery, Readings] = {}

    def add(self, kind: str, content: bytes | mmap | Raw, place: str) -> None:
        """Takes one object as the bytes of its JSON."""
        try:
            item: Any = _decoders[kind].decode(content)
            match item:
                case NodeMetrics() if used := used_by_node(item):
                    self._nodes[item.metadata.name] = used
                case PodMetrics() if used := used_by_pod(item):
                    self._pods[item.key] = used
                case QueryAnswer():
                    self._answer(item)
        except (InputError, msgspec.ValidationError, ValueError) as error:
            raise InputError(
                f"{place} is not a {kind} as it should be: {error}; correct it or leave it out"
            ) from None

    def _answer(self, item: QueryAnswer) -> None:
        figures = tuple(
            Figure(sample.node, float(sample.number), at)
            for sample in item.samples
            if (at := parse_time(sample.at)) is not None
        )
        question = MetricsQuery(PROMETHEUS, item.query, item.node_label)
        self._answers[question] = Readings(figures=figures)

    @property
    def usage(self) -> Measured:
        """All usage in the dump; nodes and pods without an object have none."""
        measured = dict(self._answers)
        if self._nodes or self._pods:
            # One measurement alone cannot be smoothed.
            readings = Readings(nodes=self._nodes, pods=self._pods)
            measured[METRICS_API] = measured[SMOOTHED] = readings
        return measured


# -- writing --------------------------------------------------------------------------------------


def objects_of(usage: Measured) -> Iterator[dict[str, Any]]:
    """The objects of a dump for this usage; none for sources that could not be read."""
    for question, readings in sorted(usage.items()):
        twice = question == SMOOTHED and METRICS_API in usage
        if readings.failure or twice:
            continue
        if question.source == PROMETHEUS:
            yield _written_answer(question, readings)
            continue
        for name, used in readings.nodes.items():
            yield {
                **_head("NodeMetrics", {"name": name}, used),
                "usage": _written_amounts(used),
            }
        for key, used in readings.pods.items():
            namespace, _, name = key.partition("/")
            yield {
                **_head("PodMetrics", {"namespace": namespace, "name": name}, used),
                "containers": [{"usage": _written_amounts(used)}],
            }


def _head(kind: str, metadata: dict[str, str], used: Used) -> dict[str, Any]:
    return {
        "apiVersion": METRICS_VERSION,
        "kind": kind,
        "metadata": metadata,
        "timestamp": _written_time(used.at),
    }


def _written_amounts(used: Used) -> dict[str, str]:
    return {name: f"{amount}n" for name, amount in used.amounts.items()}


def _written_answer(question: MetricsQuery, readings: Readings) -> dict[str, Any]:
    return {
        "apiVersion": "resettle/v1",
        "kind": "QueryAnswer",
        "metadata": {},
        "query": question.query,
        "nodeLabel": question.label,
        "samples": [
            {"node": figure.node, "number": repr(figure.number), "at": _written_time(figure.at)}
            for figure in readings.figures
        ],
    }


def _written_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
