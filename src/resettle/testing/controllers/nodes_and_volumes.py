"""NoExecute taints, the garbage collector, and volumes.

`tolerationSeconds` counts from the taint's `timeAdded`; a taint without that time was added before
any toleration could end. Objects are deleted when their owners or their node are gone. Every claim
gets a volume of its own, reachable from every node.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from resettle.testing.builders import Object
from resettle.testing.controllers.observed import ObservedCluster, key_of
from resettle.testing.controllers.writes import (
    Delete,
    Later,
    Put,
    Write,
    change,
    delete_object,
    is_active,
    is_terminating,
    parse_time,
)

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def taints(observed: ObservedCluster) -> Iterator[Write | Later]:
    """Delete pods that do not tolerate a taint of their node, or no longer."""
    strict = {
        node["metadata"]["name"]: hard
        for node in observed.all("Node")
        if (hard := [taint for taint in _taints(node) if taint["effect"] == "NoExecute"])
    }
    for pod in observed.pods if strict else ():
        hard = strict.get(pod["spec"].get("nodeName", ""), [])
        ends = [end for taint in hard if (end := eviction_time(pod, taint)) is not None]
        if ends and is_active(pod):
            if min(ends) <= observed.now:
                yield from delete_object(pod, observed.now)
            else:
                yield Later(min(ends))


def _taints(node: Object) -> list[Object]:
    return list((node.get("spec") or {}).get("taints") or ())


def eviction_time(pod: Object, taint: Object) -> datetime | None:
    """When the pod has to leave for this taint; None if it need not."""
    came = parse_time(taint["timeAdded"]) if taint.get("timeAdded") else _LONG_AGO
    matching = [
        toleration
        for toleration in pod["spec"].get("tolerations") or ()
        if tolerates(toleration, taint)
    ]
    if not matching:
        return came
    seconds = [
        toleration["tolerationSeconds"]
        for toleration in matching
        if toleration.get("tolerationSeconds") is not None
    ]
    return came + timedelta(seconds=max(min(seconds), 0)) if seconds else None


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


def collect_garbage(observed: ObservedCluster) -> Iterator[Write | Later]:
    """Delete objects whose owners are gone, and pods whose node is gone."""
    for replica_set in observed.all("ReplicaSet"):
        if _is_orphan(replica_set, observed):
            yield from delete_object(replica_set, observed.now)
    nodes = {node["metadata"]["name"] for node in observed.all("Node")}
    for pod in observed.pods:
        node = pod["spec"].get("nodeName", "")
        if node and node not in nodes:
            yield Delete("Pod", key_of(pod))
        elif _is_orphan(pod, observed) and not is_terminating(pod):
            yield from delete_object(pod, observed.now)


def _is_orphan(obj: Object, observed: ObservedCluster) -> bool:
    """Whether the object had owners of kinds that are known here, and all of them are gone."""
    references = obj["metadata"].get("ownerReferences") or ()
    return bool(references) and all(
        reference["kind"] in _OWNERS and reference["uid"] not in observed.uids
        for reference in references
    )


def volumes(observed: ObservedCluster) -> Iterator[Write | Later]:
    """A volume for each claim that has none, and the claim bound to it."""
    for claim in observed.all("PersistentVolumeClaim"):
        if (claim.get("spec") or {}).get("volumeName"):
            continue
        name = f"pvc-{claim['metadata']['uid']}"
        if observed.get("PersistentVolume", name) is None:
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
