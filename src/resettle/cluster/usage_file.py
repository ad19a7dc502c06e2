"""Usage on paper: objects of `metrics.k8s.io` as the API has them, and answers of Prometheus.

A dump may hold both. What kubectl writes of the metrics API is read as it is; for an answer of
Prometheus there is no such object, so there is one of our own, `QueryAnswer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from mmap import mmap
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from resettle.errors import InputError
from resettle.model.parts import parse_time
from resettle.model.quantity import parse_quantity
from resettle.model.readings import (
    METRICS_API,
    NODE_LABEL,
    PROMETHEUS,
    SMOOTHED,
    Figure,
    Measured,
    Question,
    Readings,
    Used,
)

METRICS_VERSION = "metrics.k8s.io/v1beta1"
TITLES = {
    "NodeMetrics": "nodes.metrics.k8s.io",
    "PodMetrics": "pods.metrics.k8s.io",
    "QueryAnswer": "answers of Prometheus",
}
"""What many of them are called."""
NEEDED = ("cpu", "memory")
"""What must be known of a pod's container for its use to be known at all."""


class Meta(Struct):
    name: str = ""
    namespace: str = ""


class NodeMetrics(Struct):
    """What a node uses, as the metrics API says it."""

    metadata: Meta
    timestamp: str | None = None
    usage: dict[str, str] | None = None


class ContainerMetrics(Struct):
    usage: dict[str, str] | None = None


class PodMetrics(Struct):
    """The same of a pod, container by container."""

    metadata: Meta
    timestamp: str | None = None
    containers: list[ContainerMetrics] | None = None

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


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


KINDS: dict[str, type[Struct]] = {
    "NodeMetrics": NodeMetrics,
    "PodMetrics": PodMetrics,
    "QueryAnswer": QueryAnswer,
}
_decoders = {kind: msgspec.json.Decoder(struct) for kind, struct in KINDS.items()}


class UsageReader:
    """Usage read from a dump, object by object."""

    def __init__(self) -> None:
        self._nodes: dict[str, Used] = {}
        self._pods: dict[str, Used] = {}
        self._answers: dict[Question, Readings] = {}

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
                f"{place} is not a {kind} as it should be: {error}; mend it or leave it out"
            ) from None

    def _answer(self, item: QueryAnswer) -> None:
        figures = tuple(
            Figure(it.node, float(it.number), at)
            for it in item.samples
            if (at := parse_time(it.at)) is not None
        )
        question = Question(PROMETHEUS, item.query, item.node_label)
        self._answers[question] = Readings(figures=figures)

    @property
    def usage(self) -> Measured:
        """All of it; nothing is known of whom the dump does not speak."""
        found = dict(self._answers)
        if self._nodes or self._pods:
            # A single look has nothing to be evened out with.
            found[METRICS_API] = found[SMOOTHED] = Readings(nodes=self._nodes, pods=self._pods)
        return found


def used_by_node(item: NodeMetrics) -> Used | None:
    """What a node uses; None if nobody says when that was so."""
    at = parse_time(item.timestamp)
    return None if at is None else Used(at, _amounts(item.usage or {}))


def used_by_pod(item: PodMetrics) -> Used | None:
    """What a pod uses, all containers together; None if that is known only in part."""
    at, parts = parse_time(item.timestamp), [it.usage or {} for it in item.containers or ()]
    if at is None or not parts or any(name not in it for it in parts for name in NEEDED):
        return None
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in _amounts(part).items():
            total[name] = total.get(name, 0) + amount
    return Used(at, total)


def _amounts(usage: Mapping[str, str]) -> dict[str, int]:
    return {name: parse_quantity(text) for name, text in usage.items()}


# -- writing --------------------------------------------------------------------------------------


def objects_of(usage: Measured) -> Iterator[dict[str, Any]]:
    """The objects that a dump keeps it in; what could not be asked leaves nothing to keep."""
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


def _written_answer(question: Question, readings: Readings) -> dict[str, Any]:
    return {
        "apiVersion": "resettle/v1",
        "kind": "QueryAnswer",
        "metadata": {},
        "query": question.query,
        "nodeLabel": question.label,
        "samples": [
            {"node": it.node, "number": repr(it.number), "at": _written_time(it.at)}
            for it in readings.figures
        ],
    }


def _written_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
