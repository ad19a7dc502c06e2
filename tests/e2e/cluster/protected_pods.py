"""One workload for each protection of DefaultEvictor, and one that nothing protects.

The label `app` names the kind. The reported start time is hours ago, except for the young pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from tests.e2e.cluster.workloads import create_deployment, pod_spec, pods_of, report_status
from tests.e2e.cluster.workspace import Workspace, eventually
from tools.control_plane.api import Object

PREFIX = "descheduler.alpha.kubernetes.io"
IMPORTANT = 1000
"""The priority of the important pods."""
SCRATCH = {"name": "scratch", "emptyDir": {}}
SIZE = {"storage": "1Gi"}


@contextmanager
def protected_pods(workspace: Workspace) -> Iterator[None]:
    """Creates the pods, Ready or failed as their kind needs, while the block lasts."""
    priority, volumes = "/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/persistentvolumes"
    try:
        meta = {"metadata": {"name": workspace.name}}
        workspace.api.post(priority, {**meta, "value": IMPORTANT}).granted()
        source = {"nfs": {"server": "127.0.0.1", "path": "/"}}
        disk = {"capacity": SIZE, "accessModes": ["ReadWriteMany"], **source}
        workspace.api.post(volumes, {**meta, "spec": disk}).granted()
        _create_deployments(workspace)
        _create_other_pods(workspace)
        yield
    finally:
        sets = f"/apis/apps/v1/namespaces/{workspace.name}/daemonsets"
        for path in (sets, f"{priority}/{workspace.name}", f"{volumes}/{workspace.name}"):
            workspace.api.delete(path)


def _create_deployments(workspace: Workspace) -> None:
    one_node = {"kubernetes.io/hostname": workspace.nodes[0]}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": _create_claim(workspace)}}
    create_deployment(workspace, "plain", 3)
    create_deployment(workspace, "single", 1)
    create_deployment(workspace, "young", 3)
    create_deployment(workspace, "critical", 3, priorityClassName="system-cluster-critical")
    create_deployment(workspace, "important", 3, priorityClassName=workspace.name)
    create_deployment(workspace, "with-local-storage", 3, volumes=[SCRATCH])
    create_deployment(workspace, "with-claim", 3, volumes=[claim])
    create_deployment(workspace, "unselected", 3, labels={"stays": "yes"})
    create_deployment(workspace, "pinned", 3, nodeSelector=one_node)
    create_deployment(
        workspace, "prefers-to-stay", 3, annotations={f"{PREFIX}/prefer-no-eviction": "true"}
    )
    create_deployment(
        workspace, "evict-true", 3, annotations={f"{PREFIX}/evict": "true"}, volumes=[SCRATCH]
    )
    create_deployment(workspace, "evict-false", 3, annotations={f"{PREFIX}/evict": "false"})


def _create_other_pods(workspace: Workspace) -> None:
    labels = {"app": "daemon"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(workspace, {})}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    daemon = {"metadata": {"name": "daemon"}, "spec": spec}
    workspace.api.post(f"/apis/apps/v1/namespaces/{workspace.name}/daemonsets", daemon).granted()
    _create_pod(workspace, "bare")
    _create_pod(workspace, "bare-and-failed")
    node = workspace.api.get(f"/api/v1/nodes/{workspace.nodes[0]}").granted()["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"]}
    mirror_meta = {"annotations": {"kubernetes.io/config.mirror": "1"}, "ownerReferences": [owner]}
    _create_pod(workspace, "mirror", mirror_meta, nodeName=node["name"])
    for name, count in (("daemon", 6), ("bare", 1), ("bare-and-failed", 1), ("mirror", 1)):
        eventually(f"{count} {name}", partial(_has_ready_pods, workspace, name, count))
    for pod in pods_of(workspace.list_pods(), "bare-and-failed"):
        report_status(workspace, pod, phase="Failed")


def _has_ready_pods(workspace: Workspace, app: str, count: int) -> bool:
    return len(pods_of(workspace.list_ready_pods(), app)) == count


def _create_claim(workspace: Workspace) -> str:
    """Creates a claim that the scheduler takes for bound to its volume; returns its name."""
    claims = f"/api/v1/namespaces/{workspace.name}/persistentvolumeclaims"
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    spec = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": SIZE},
        "storageClassName": "",
        "volumeName": workspace.name,
    }
    meta = {"name": "data", "annotations": bound}
    created = workspace.api.post(claims, {"metadata": meta, "spec": spec}).granted()
    claim_ref = {"name": "data", "namespace": workspace.name, "uid": created["metadata"]["uid"]}
    workspace.api.patch(
        f"/api/v1/persistentvolumes/{workspace.name}", {"spec": {"claimRef": claim_ref}}
    ).granted()
    workspace.api.patch(f"{claims}/data/status", {"status": {"phase": "Bound"}}).granted()
    return "data"


def _create_pod(workspace: Workspace, app: str, meta: Object | None = None, **spec: object) -> None:
    metadata = {"name": app, "labels": {"app": app}, **(meta or {})}
    workspace.api.post(
        workspace.pods_path, {"metadata": metadata, "spec": pod_spec(workspace, spec)}
    ).granted()


def report_start_times(workspace: Workspace) -> None:
    """Reports for every pod but the young ones that it started hours ago."""
    start_time = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for pod in workspace.list_pods():
        if pod["metadata"]["labels"]["app"] != "young":
            report_status(workspace, pod, startTime=start_time)
