"""Taints that pods have to leave for (`NoExecute`), at once or when their patience is over.

Patience (`tolerationSeconds`) counts from the taint's `timeAdded`; a taint that does not say when
it came has been there for longer than anyone is patient.

Garbage: what is left when its owners are gone, or the node it ran on.

Volumes: every claim gets one of its own, reachable from every node.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from resettle.testing.builders import Object
from resettle.testing.controllers.observed import Sight, key_of
from resettle.testing.controllers.writes import (
    Gone,
    Later,
    Put,
    Write,
    active,
    change,
    farewell,
    leaving,
    read_as,
)

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def taints(seen: Sight) -> Iterator[Write | Later]:
    """Farewells to pods that a taint of their node does not suffer any longer."""
    strict = {
        node["metadata"]["name"]: hard
        for node in seen.all("Node")
        if (hard := [it for it in _taints(node) if it["effect"] == "NoExecute"])
    }
    for pod in seen.pods if strict else ():
        hard = strict.get(pod["spec"].get("nodeName", ""), [])
        ends = [end for taint in hard if (end := end_of_stay(pod, taint)) is not None]
        if ends and active(pod):
            if min(ends) <= seen.now:
                yield from farewell(pod, seen.now)
            else:
                yield Later(min(ends))


def _taints(node: Object) -> list[Object]:
    return list((node.get("spec") or {}).get("taints") or ())


def end_of_stay(pod: Object, taint: Object) -> datetime | None:
    """When the pod has to leave for this taint; None if it need not."""
    came = read_as(taint["timeAdded"]) if taint.get("timeAdded") else _LONG_AGO
    consenting = [it for it in pod["spec"].get("tolerations") or () if tolerates(it, taint)]
    if not consenting:
        return came
    patience = [
        it["tolerationSeconds"] for it in consenting if it.get("tolerationSeconds") is not None
    ]
    return came + timedelta(seconds=max(min(patience), 0)) if patience else None


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether the toleration is about this taint."""
    exists = toleration.get("operator") == "Exists"
    key, effect = toleration.get("key", ""), toleration.get("effect", "")
    return (
        (effect in ("", taint["effect"]))
        and (key == taint["key"] or (exists and not key))
        and (exists or toleration.get("value", "") == taint.get("value", ""))
    )


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


def volumes(seen: Sight) -> Iterator[Write | Later]:
    """A volume for each claim that has none, and the claim bound to it."""
    for claim in seen.all("PersistentVolumeClaim"):
        if (claim.get("spec") or {}).get("volumeName"):
            continue
        name = f"pvc-{claim['metadata']['uid']}"
        if seen.get("PersistentVolume", name) is None:
            yield Put(_volume(name, claim))
        yield change(claim, {"spec": {"volumeName": name}, "status": {"phase": "Bound"}})


def _volume(name: str, claim: Object) -> Object:
    meta, spec = claim["metadata"], claim.get("spec") or {}
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")
    held_by = {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": asked},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.get("storageClassName") or "",
            "claimRef": {**held_by, "name": meta["name"], "uid": meta["uid"]},
        },
        "status": {"phase": "Bound"},
    }
