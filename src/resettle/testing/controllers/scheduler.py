"""The scheduler: binds pending pods, with the code that the planner projects with.

All pending pods are placed on one projection, one after the other, so each sees where those before
it went: higher priority first, then the oldest. Objects that have not changed are decoded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from resettle.model.decoding.decoder import Decoder
from resettle.model.kinds import KINDS
from resettle.model.node_index import NodeIndex
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import WORKLOAD_KINDS
from resettle.placement.projection import Projection
from resettle.testing.builders import Object
from resettle.testing.controllers.observed import ObservedCluster, key_of
from resettle.testing.controllers.writes import (
    Later,
    Write,
    change,
    format_time,
    is_active,
    status_of,
)


class Models:
    """What has been decoded so far, by kind and uid."""

    def __init__(self) -> None:
        decoder = Decoder()
        self._convert = {name: kind.converter(decoder) for name, kind in KINDS.items()}
        self._wire = {name: msgspec.json.Decoder(kind.struct) for name, kind in KINDS.items()}
        self._known: dict[str, dict[str, tuple[str, Any]]] = {kind: {} for kind in KINDS}

    def of(self, obj: Object) -> Any:
        """The object as the planner knows it."""
        kind = obj["kind"]
        return self._convert[kind](self._wire[kind].decode(msgspec.json.encode(obj)))

    def all(self, kind: str, observed: ObservedCluster) -> list[Any]:
        """All objects of a kind, in order."""
        before, now = self._known[kind], {}
        for obj in observed.all(kind):
            uid, version = obj["metadata"]["uid"], obj["metadata"].get("resourceVersion", "")
            known = before.get(uid)
            fresh = known is None or not version or known[0] != version
            now[uid] = (version, self.of(obj)) if known is None or fresh else known
        self._known[kind] = now
        return [model for _, model in now.values()]

    def node_index(self, observed: ObservedCluster) -> NodeIndex:
        """The nodes."""
        return NodeIndex(self.all("Node", observed))

    def snapshot(self, observed: ObservedCluster) -> Snapshot:
        """The cluster as a planner would be given it."""
        objects: dict[str, Any] = {
            kind.field: self.all(name, observed)
            for name, kind in KINDS.items()
            if name not in WORKLOAD_KINDS
        }
        return Snapshot.of(taken_at=observed.now, **objects)


NAME = "default-scheduler"


class Scheduler:
    """The controller."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def __call__(self, observed: ObservedCluster) -> Iterator[Write | Later]:
        """Bindings, and for pods that no node takes a condition that says why."""
        waiting = sorted((pod for pod in observed.pods if _waits(pod)), key=_turn)
        if not waiting:
            return
        snapshot = self._models.snapshot(observed)
        projection = Projection(snapshot)
        for pod in waiting:
            model = snapshot.pod(*key_of(pod).split("/", 1))
            assert model is not None
            feasible = projection.feasible_nodes(model)
            if feasible:
                node = projection.highest_scored_node(model, feasible)
                projection.move(model, node)
                yield change(
                    pod, {"spec": {"nodeName": node}, "status": _scheduled_status(pod, observed)}
                )
            else:
                says = _unschedulable_message(projection, model, len(snapshot.node_index.nodes))
                yield from status_of(
                    pod, {"conditions": _unschedulable_conditions(pod, says, observed)}
                )


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    return not spec.get("nodeName") and is_active(pod) and spec.get("schedulerName", NAME) == NAME


def _turn(pod: Object) -> tuple[int, str, str]:
    meta = pod["metadata"]
    return -(pod["spec"].get("priority") or 0), meta.get("creationTimestamp", ""), key_of(pod)


def _scheduled_status(pod: Object, observed: ObservedCluster) -> Object:
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": format_time(observed.now),
    }
    return {"conditions": [*_others(pod), scheduled]}


def _others(pod: Object) -> list[Object]:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return [condition for condition in conditions if condition["type"] != "PodScheduled"]


def _unschedulable_conditions(pod: Object, says: str, observed: ObservedCluster) -> list[Object]:
    """The conditions of a pod that waits; the time is that of when it began to."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    since = next(
        (
            condition["lastTransitionTime"]
            for condition in conditions
            if condition["type"] == "PodScheduled"
        ),
        format_time(observed.now),
    )
    waiting = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": says,
    }
    return [*_others(pod), {**waiting, "lastTransitionTime": since}]


def _unschedulable_message(projection: Projection, pod: Pod, nodes: int) -> str:
    """Such as `0/3 nodes are available: 2 cpu, 1 cordoned.`, the scheduler's own way to say it."""
    everyone = (1 << nodes) - 1
    grounds = projection.ruled_out(pod, everyone)
    counts = ", ".join(f"{ground.nodes.bit_count()} {ground.says}" for ground in grounds)
    return f"0/{nodes} nodes are available: {counts or 'there is none'}."
