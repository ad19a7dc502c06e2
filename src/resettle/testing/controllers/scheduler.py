"""The scheduler: nodes for pods that have none, by the code that the planner forecasts with.

All pods that wait are placed on one outlook, one after the other, so each sees where those before
it went. The more important go first, then those that have waited longest.

Objects of a sight as the planner knows them; one that has not changed is decoded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from resettle.model.decoding.decoder import Decoder
from resettle.model.kinds import KINDS
from resettle.model.node_index import Fleet
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.placement.projection import Outlook
from resettle.testing.builders import Object
from resettle.testing.controllers.observed import Sight, key_of
from resettle.testing.controllers.writes import Later, Write, active, change, status_of, told_as


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

    def all(self, kind: str, seen: Sight) -> list[Any]:
        """All objects of a kind, in order."""
        before, now = self._known[kind], {}
        for obj in seen.all(kind):
            uid, version = obj["metadata"]["uid"], obj["metadata"].get("resourceVersion", "")
            known = before.get(uid)
            fresh = known is None or not version or known[0] != version
            now[uid] = (version, self.of(obj)) if known is None or fresh else known
        self._known[kind] = now
        return [model for _, model in now.values()]

    def fleet(self, seen: Sight) -> Fleet:
        """The nodes."""
        return Fleet(self.all("Node", seen))

    def snapshot(self, seen: Sight) -> Snapshot:
        """The cluster as a planner would be given it."""
        objects: dict[str, Any] = {kind.field: self.all(name, seen) for name, kind in KINDS.items()}
        return Snapshot.of(taken_at=seen.now, **objects)


NAME = "default-scheduler"


class Scheduler:
    """The controller."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def __call__(self, seen: Sight) -> Iterator[Write | Later]:
        """Bindings, and for pods that no node takes a condition that says why."""
        waiting = sorted((pod for pod in seen.pods if _waits(pod)), key=_turn)
        if not waiting:
            return
        snapshot = self._models.snapshot(seen)
        outlook = Outlook(snapshot)
        for pod in waiting:
            model = snapshot.pod(*key_of(pod).split("/", 1))
            assert model is not None
            takers = outlook.takers(model)
            if takers:
                node = outlook.likeliest(model, takers)
                outlook.move(model, node)
                yield change(pod, {"spec": {"nodeName": node}, "status": _bound(pod, seen)})
            else:
                says = _nowhere(outlook, model, len(snapshot.fleet.nodes))
                yield from status_of(pod, {"conditions": _refused(pod, says, seen)})


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    return not spec.get("nodeName") and active(pod) and spec.get("schedulerName", NAME) == NAME


def _turn(pod: Object) -> tuple[int, str, str]:
    meta = pod["metadata"]
    return -(pod["spec"].get("priority") or 0), meta.get("creationTimestamp", ""), key_of(pod)


def _bound(pod: Object, seen: Sight) -> Object:
    told = {"type": "PodScheduled", "status": "True", "lastTransitionTime": told_as(seen.now)}
    return {"conditions": [*_others(pod), told]}


def _others(pod: Object) -> list[Object]:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return [it for it in conditions if it["type"] != "PodScheduled"]


def _refused(pod: Object, says: str, seen: Sight) -> list[Object]:
    """The conditions of a pod that waits; the time is that of when it began to."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    since = next(
        (it["lastTransitionTime"] for it in conditions if it["type"] == "PodScheduled"),
        told_as(seen.now),
    )
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": says}
    return [*_others(pod), {**told, "lastTransitionTime": since}]


def _nowhere(outlook: Outlook, pod: Pod, nodes: int) -> str:
    """Such as `0/3 nodes are available: 2 cpu, 1 cordoned.`, the scheduler's own way to say it."""
    everyone = (1 << nodes) - 1
    grounds = outlook.ruled_out(pod, everyone)
    told = ", ".join(f"{it.nodes.bit_count()} {it.says}" for it in grounds)
    return f"0/{nodes} nodes are available: {told or 'there is none'}."
