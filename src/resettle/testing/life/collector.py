"""Garbage: what is left when its owners are gone, or the node it ran on."""

from __future__ import annotations

from collections.abc import Iterator

from resettle.testing.life.births import leaving
from resettle.testing.life.sight import Sight, key_of
from resettle.testing.life.writes import Gone, Later, Write, farewell
from resettle.testing.objects import Object

_OWNERS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Node"}) | {
    "ReplicationController"
}


def garbage(seen: Sight) -> Iterator[Write | Later]:
    """Farewells to what nobody owns any more, and the end of pods whose node is gone."""
    for replica_set in seen.all("ReplicaSet"):
        if _orphaned(replica_set, seen):
            yield from farewell(replica_set, seen.now)
    nodes = {node["metadata"]["name"] for node in seen.all("Node")}
    for pod in seen.pods:
        node = pod["spec"].get("nodeName", "")
        if node and node not in nodes:
            yield Gone("Pod", key_of(pod))
        elif _orphaned(pod, seen) and not leaving(pod):
            yield from farewell(pod, seen.now)


def _orphaned(obj: Object, seen: Sight) -> bool:
    """Whether the object had owners of kinds that are known here, and all of them are gone."""
    references = obj["metadata"].get("ownerReferences") or ()
    return bool(references) and all(
        it["kind"] in _OWNERS and it["uid"] not in seen.uids for it in references
    )
