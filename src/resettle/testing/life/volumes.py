"""Volumes: every claim gets one of its own, reachable from every node."""

from __future__ import annotations

from collections.abc import Iterator

from resettle.testing.life.sight import Sight
from resettle.testing.life.writes import Later, Put, Write, change
from resettle.testing.objects import Object


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
