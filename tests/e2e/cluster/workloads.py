"""Creates workloads, changes nodes and reports pod status in a workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import Account, Policy, Run
from tools.control_plane.api import Object

SetUp = Callable[[Workspace], None]
NO_BACKGROUND_EVICTIONS = ("--feature-gates", "EvictionsInBackground=false")
"""For tests of limits: pods that move in the background in any namespace would count too."""
MOST_RUNS = 6
"""Runs after which nothing must be left to move."""


class ClusterState(NamedTuple):
    """The nodes and pods of a workspace, as the API server returns them."""

    nodes: list[Object]
    pods: list[Object]


def read_cluster(workspace: Workspace) -> ClusterState:
    """Reads the nodes and pods of the workspace."""
    nodes = {node["metadata"]["name"]: node for node in workspace.api.items("/api/v1/nodes")}
    return ClusterState([nodes[name] for name in workspace.nodes], workspace.list_pods())


def create_deployment(
    workspace: Workspace,
    name: str,
    replicas: int,
    *,
    cpu: str = "100m",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: object,
) -> None:
    """Creates a Deployment with pods labelled `app: <name>`; returns once all are Ready."""
    pod_labels = {"app": name, **(labels or {})}
    template = {"labels": pod_labels, "annotations": dict(annotations or {})}
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": template, "spec": pod_spec(workspace, spec, cpu)},
        },
    }
    workspace.api.post(f"/apis/apps/v1/namespaces/{workspace.name}/deployments", body).granted()
    _wait_for_ready_pods(workspace, name, replicas)


def create_replica_set(
    workspace: Workspace,
    name: str,
    pods_of_nodes: Mapping[str, int],
    *,
    cpu: str = "100m",
    **spec: object,
) -> None:
    """Creates a ReplicaSet with so many pods on each node; returns once all are Ready.

    The pods are created with a node, since a scheduler may learn of a cordon later than of a pod.
    Replacements are scheduled.
    """
    path = f"/apis/apps/v1/namespaces/{workspace.name}/replicasets"
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(workspace, spec, cpu)}
    body = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    workspace.api.post(path, {"metadata": {"name": name}, "spec": body}).granted()
    replicas = 0
    for node, count in pods_of_nodes.items():
        replicas += count
        change = {"replicas": replicas, "template": {"spec": {"nodeName": node}}}
        workspace.api.patch(f"{path}/{name}", {"spec": change}).granted()
        _wait_for_ready_pods(workspace, name, replicas)
    scheduled = {"template": {"spec": {"nodeName": None}}}
    workspace.api.patch(f"{path}/{name}", {"spec": scheduled}).granted()


def create_stateful_set(workspace: Workspace, name: str, replicas: int) -> None:
    """Creates a StatefulSet whose pods start side by side; returns once all are Ready."""
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec(workspace, {})},
    }
    path = f"/apis/apps/v1/namespaces/{workspace.name}/statefulsets"
    workspace.api.post(path, {"metadata": {"name": name}, "spec": spec}).granted()
    eventually(f"{replicas} ready pods", lambda: len(workspace.list_ready_pods()) == replicas)


def replace_pod(workspace: Workspace, pod: Object) -> Object:
    """Deletes a pod of a StatefulSet; returns the next pod of that name once it is Ready."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    workspace.api.delete(f"{workspace.pods_path}/{name}").granted()

    def next_pods() -> list[Object]:
        return [
            ready
            for ready in workspace.list_ready_pods()
            if ready["metadata"]["name"] == name and ready["metadata"]["uid"] != uid
        ]

    return eventually("another pod of that name", next_pods)[0]


def _wait_for_ready_pods(workspace: Workspace, name: str, replicas: int) -> None:
    eventually(
        f"{replicas} pods of {name}",
        lambda: len(pods_of(workspace.list_ready_pods(), name)) == replicas,
    )


def pod_spec(workspace: Workspace, more: Mapping[str, object], cpu: str = "100m") -> Object:
    """The spec of a pod of the workspace that requests a little cpu."""
    wanted = {"requests": {"cpu": cpu, "memory": "16Mi"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": wanted}
    return {"containers": [container], "nodeSelector": {"workspace": workspace.name}, **more}


def pods_of(pods: Iterable[Object], app: str) -> list[Object]:
    """The pods labelled with this app."""
    return [pod for pod in pods if pod["metadata"].get("labels", {}).get("app") == app]


def uids(pods: Iterable[Object]) -> set[str]:
    """The uids of the pods; a replacement has another uid."""
    return {pod["metadata"]["uid"] for pod in pods}


def cordon_all_but(workspace: Workspace, *names: str) -> None:
    """Cordons every node of the workspace except these."""
    for name in workspace.nodes:
        change = {"spec": {"unschedulable": name not in names}}
        workspace.api.patch(f"/api/v1/nodes/{name}", change).granted()


def uncordon_all(workspace: Workspace) -> None:
    """Uncordons every node of the workspace."""
    cordon_all_but(workspace, *workspace.nodes)


def label(workspace: Workspace, node: str, **labels: str | None) -> None:
    """Labels a node; None removes a label."""
    workspace.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}}).granted()


def report_status(workspace: Workspace, pod: Object, **status: Any) -> None:
    """Writes the status of the pod, as its kubelet would."""
    path = f"{workspace.pods_path}/{pod['metadata']['name']}/status"
    workspace.api.patch(path, {"status": status}).granted()


def report_restarts(workspace: Workspace, pods: Iterable[Object], times: int) -> None:
    """Reports so many restarts for the only container of each pod."""
    for pod in pods:
        report_status(
            workspace, pod, containerStatuses=[_container_status(pod, restartCount=times)]
        )


def report_crashes(workspace: Workspace, pods: Iterable[Object]) -> None:
    """Reports CrashLoopBackOff for the only container of each pod."""
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    for pod in pods:
        report_status(
            workspace, pod, containerStatuses=[_container_status(pod, state=state, ready=False)]
        )


def _container_status(pod: Object, **changed: Any) -> Object:
    status: Object = pod["status"]["containerStatuses"][0]
    return {**status, **changed}


def is_stable(workspace: Workspace) -> bool:
    """Whether Deployments and ReplicaSets have all pods, Ready, and none is being deleted."""
    path = f"/apis/apps/v1/namespaces/{workspace.name}"
    wanted = sum(
        workload["spec"]["replicas"]
        for kind in ("deployments", "replicasets")
        for workload in workspace.api.items(f"{path}/{kind}")
        if "ownerReferences" not in workload["metadata"]
    )
    created = [
        pod
        for pod in workspace.list_pods()
        if _is_of_replica_set(pod) and pod["status"]["phase"] != "Failed"
    ]
    leaving = any("deletionTimestamp" in pod["metadata"] for pod in created)
    return not leaving and len(created) == wanted == len(
        list(filter(_is_of_replica_set, workspace.list_ready_pods()))
    )


def _is_of_replica_set(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == "ReplicaSet" for owner in owners)


def run_once(account: Account, policy: Policy, *words: str) -> Run:
    """Runs one cycle, which must end without an error."""
    with account.run(policy, *words) as run:
        assert run.wait_for_exit() == 0, run.log_text
    assert not run.lines_of("plugin failed"), run.log_text
    return run


def run_until_nothing_moves(account: Account, policy: Policy, workspace: Workspace) -> list[Run]:
    """Runs, each on a stable cluster, up to and including the first that moves nothing."""
    runs: list[Run] = []
    while len(runs) < MOST_RUNS:
        eventually("a stable cluster", partial(is_stable, workspace))
        runs.append(run_once(account, policy))
        if not runs[-1].evicted:
            return runs
    logs = "\n".join(run.log_text for run in runs)
    raise AssertionError(f"there is still something to move after {MOST_RUNS} runs\n{logs}")


def wait_until_old(workspace: Workspace, seconds: float = 2) -> None:
    """Waits until every pod of the workspace is older than this."""

    def youngest() -> float:
        now = datetime.now(UTC)
        created = [
            datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
            for pod in workspace.list_pods()
        ]
        return min(((now - created_at).total_seconds() for created_at in created), default=seconds)

    eventually("pods that are old enough", lambda: youngest() > seconds)
