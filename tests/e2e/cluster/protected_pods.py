"""One of every kind of pod that DefaultEvictor may keep from leaving, and one that nothing keeps.

All carry their kind as the label `app`. They say of themselves that they started long ago, but for
those that are to be young.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from tests.e2e.cluster.workloads import pod_spec, pods_of, report, workload
from tests.e2e.cluster.workspace import Room, eventually
from tools.control_plane.api import Object

PREFIX = "descheduler.alpha.kubernetes.io"
IMPORTANT = 1000
"""The priority of the important ones."""
SCRATCH = {"name": "scratch", "emptyDir": {}}
SIZE = {"storage": "1Gi"}


@contextmanager
def zoo(room: Room) -> Iterator[None]:
    """The pods, all of them Ready or failed as their kind has it, while the block lasts."""
    priority, volumes = "/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/persistentvolumes"
    try:
        meta = {"metadata": {"name": room.name}}
        room.api.post(priority, {**meta, "value": IMPORTANT}).granted()
        source = {"nfs": {"server": "127.0.0.1", "path": "/"}}
        disk = {"capacity": SIZE, "accessModes": ["ReadWriteMany"], **source}
        room.api.post(volumes, {**meta, "spec": disk}).granted()
        _of_deployments(room)
        _of_others(room)
        yield
    finally:
        sets = f"/apis/apps/v1/namespaces/{room.name}/daemonsets"
        for path in (sets, f"{priority}/{room.name}", f"{volumes}/{room.name}"):
            room.api.delete(path)


def _of_deployments(room: Room) -> None:
    one_node = {"kubernetes.io/hostname": room.nodes[0]}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": _claim(room)}}
    workload(room, "plain", 3)
    workload(room, "alone", 1)
    workload(room, "young", 3)
    workload(room, "critical", 3, priorityClassName="system-cluster-critical")
    workload(room, "important", 3, priorityClassName=room.name)
    workload(room, "hoarding", 3, volumes=[SCRATCH])
    workload(room, "claiming", 3, volumes=[claim])
    workload(room, "unselected", 3, labels={"stays": "yes"})
    workload(room, "pinned", 3, nodeSelector=one_node)
    workload(room, "reluctant", 3, annotations={f"{PREFIX}/prefer-no-eviction": "true"})
    workload(room, "called", 3, annotations={f"{PREFIX}/evict": "true"}, volumes=[SCRATCH])
    workload(room, "declining", 3, annotations={f"{PREFIX}/evict": "false"})


def _of_others(room: Room) -> None:
    labels = {"app": "daemon"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(room, {})}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    daemon = {"metadata": {"name": "daemon"}, "spec": spec}
    room.api.post(f"/apis/apps/v1/namespaces/{room.name}/daemonsets", daemon).granted()
    _post_pod(room, "bare")
    _post_pod(room, "bare-and-failed")
    home = room.api.get(f"/api/v1/nodes/{room.nodes[0]}").granted()["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": home["name"], "uid": home["uid"]}
    mirrored = {"annotations": {"kubernetes.io/config.mirror": "1"}, "ownerReferences": [owner]}
    _post_pod(room, "mirror", mirrored, nodeName=home["name"])
    for name, count in (("daemon", 6), ("bare", 1), ("bare-and-failed", 1), ("mirror", 1)):
        eventually(f"{count} {name}", partial(_so_many, room, name, count))
    for pod in pods_of(room.running(), "bare-and-failed"):
        report(room, pod, phase="Failed")


def _so_many(room: Room, app: str, count: int) -> bool:
    return len(pods_of(room.ready(), app)) == count


def _claim(room: Room) -> str:
    """A claim that its volume is bound to, as far as a scheduler cares."""
    claims = f"/api/v1/namespaces/{room.name}/persistentvolumeclaims"
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    spec = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": SIZE},
        "storageClassName": "",
        "volumeName": room.name,
    }
    meta = {"name": "data", "annotations": bound}
    made = room.api.post(claims, {"metadata": meta, "spec": spec}).granted()
    who = {"name": "data", "namespace": room.name, "uid": made["metadata"]["uid"]}
    room.api.patch(f"/api/v1/persistentvolumes/{room.name}", {"spec": {"claimRef": who}}).granted()
    room.api.patch(f"{claims}/data/status", {"status": {"phase": "Bound"}}).granted()
    return "data"


def _post_pod(room: Room, app: str, meta: Object | None = None, **spec: object) -> None:
    mine = {"name": app, "labels": {"app": app}, **(meta or {})}
    room.api.post(room.pods, {"metadata": mine, "spec": pod_spec(room, spec)}).granted()


def aged(room: Room) -> None:
    """Has every pod but the young ones say that it started hours ago."""
    then = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for pod in room.running():
        if pod["metadata"]["labels"]["app"] != "young":
            report(room, pod, startTime=then)
