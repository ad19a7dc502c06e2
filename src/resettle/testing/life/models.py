"""Objects of a sight as the planner knows them; one that has not changed is decoded once."""

from __future__ import annotations

from typing import Any

import msgspec

from resettle.model import wire
from resettle.model.decode import Decoder
from resettle.model.fleet import Fleet
from resettle.model.snapshot import Snapshot
from resettle.testing.life.sight import Sight
from resettle.testing.objects import Object


class Models:
    """What has been decoded so far, by kind and uid."""

    def __init__(self) -> None:
        decoder = Decoder()
        self._made_by: dict[str, Any] = {
            "Node": decoder.node,
            "Pod": decoder.pod,
            "Namespace": decoder.namespace,
            "PriorityClass": decoder.priority_class,
            "PodDisruptionBudget": decoder.budget,
            "PersistentVolumeClaim": decoder.claim,
            "PersistentVolume": decoder.volume,
            "CSINode": decoder.attach_limits,
        }
        self._wire = {kind: msgspec.json.Decoder(wire.KINDS[kind]) for kind in self._made_by}
        self._known: dict[str, dict[str, tuple[str, Any]]] = {kind: {} for kind in self._made_by}

    def of(self, obj: Object) -> Any:
        """The object as the planner knows it."""
        kind = obj["kind"]
        return self._made_by[kind](self._wire[kind].decode(msgspec.json.encode(obj)))

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
        return Snapshot.of(
            nodes=self.all("Node", seen),
            pods=self.all("Pod", seen),
            taken_at=seen.now,
            namespaces=self.all("Namespace", seen),
            priority_classes=self.all("PriorityClass", seen),
            budgets=self.all("PodDisruptionBudget", seen),
            claims=self.all("PersistentVolumeClaim", seen),
            volumes=self.all("PersistentVolume", seen),
            attach_limits=self.all("CSINode", seen),
        )
