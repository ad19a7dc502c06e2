"""One pod to move from its node to another, and a move that is stopped where a test wants it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from resettle.model.migration_job import JOBS_PATH, TAINT
from resettle.testing import node
from tests.e2e.cluster.workloads import cordon_all_but, create_deployment, pod_spec, pods_of
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    TERMINAL,
    create_job,
    job_policy,
    job_status,
    list_placeholders,
    start_controller,
)
from tests.e2e.processes.run import Policy, Run
from tools.control_plane.api import Api, Object

APP = "web"
CPU = "5"
"""More than half of a node: two such pods never share one."""
WAIT = "example.com/wait"
"""The finalizer that keeps a deleted pod until the test lets it go."""


def held_place_policy(account: ControllerAccount, **args: Any) -> Policy:
    """A policy for jobs that leaves it to the scheduler whether another node has room."""
    return job_policy(account, evictor={"nodeFit": False}, **args)


class Scene:
    """A workload of one pod on the source node; only source and target may have room for it.

    `kubelet` is whether pods on the target start. A workload that is a StatefulSet gets its new pod
    only once the old one is gone, so that a move can be stopped between the two.
    """

    def __init__(
        self,
        workspace: Workspace,
        account: ControllerAccount,
        *,
        kind: str = "Deployment",
        kubelet: bool = True,
    ) -> None:
        self.workspace, self.account = workspace, account
        self.api: Api = workspace.api
        self.kind = kind
        self.source, self.target = workspace.nodes[:2]
        self.victim: Object = {}
        self._kubelet = kubelet
        self._controller: Run | None = None
        self._cluster_objects: list[str] = []

    def __enter__(self) -> Scene:
        if not self._kubelet:
            self.target = f"{self.workspace.name}-idle"
            labels = {"workspace": self.workspace.name}
            created = node(self.target, cpu="8", labels=labels, cordoned=True).node
            self.api.post("/api/v1/nodes", created).granted()
            self.workspace.nodes.append(self.target)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pod in self.workspace.list_pods():
            if pod["metadata"].get("finalizers"):
                self._change_finalizers(pod["metadata"]["name"], None)
        for job in self.api.items(JOBS_PATH):
            self.api.delete(f"{JOBS_PATH}/{job['metadata']['name']}")
        for path in self._cluster_objects:
            self.api.delete(path, grace_seconds=0)

    # -- before the move -------------------------------------------------------------------------

    def start_workload(self, cpu: str = CPU, **spec: Any) -> Object:
        """Starts the workload with its one pod on the source, and returns the pod."""
        cordon_all_but(self.workspace, self.source)
        if self.kind == "StatefulSet":
            create_stateful_set(self.workspace, APP, 1, cpu=cpu, **spec)
        else:
            create_deployment(self.workspace, APP, 1, cpu=cpu, **spec)
        self.victim = pods_of(self.workspace.list_ready_pods(), APP)[0]
        self.open()
        return self.victim

    def open(self, *nodes: str) -> None:
        """Lets new pods go to these nodes and to no others of the workspace."""
        cordon_all_but(self.workspace, *nodes)

    def create_cluster_object(self, path: str, body: Object) -> None:
        """Creates an object that is in no namespace, until the scene ends."""
        self.api.post(path, body).granted()
        self._cluster_objects.append(f"{path}/{body['metadata']['name']}")

    # -- moves that stop ---------------------------------------------------------------------------

    def start_controller(self, folder: Path, policy: Policy) -> Run:
        """Starts the controller as the shipped account."""
        self._controller = start_controller(self.account, folder, policy)
        return self._controller

    def create_job(self, **spec: Any) -> str:
        """Creates a job for the pod."""
        return create_job(self.api, self.victim, **spec)

    def create_job_with(self, *nodes: str, **spec: Any) -> str:
        """Creates a job for the pod while these nodes are open."""
        self.open(*nodes)
        return self.create_job(**spec)

    def hold_without_place(self, **spec: Any) -> str:
        """A job whose placeholder waits for a node; opening the target gives it one."""
        self.open()
        name = self.create_job(**spec)
        self._wait(name, "a placeholder", lambda status: self.placeholder())
        return name

    def hold_before_eviction(self, *nodes: str, **spec: Any) -> str:
        """A job that has its place and whose eviction a budget refuses; these nodes are open."""
        name = self.hold_without_place(**spec)
        self.workspace.create_budget(APP, max_unavailable=0)
        self.open(*(nodes or (self.target,)))
        self._wait(name, "a refused eviction", lambda status: _has_condition(status, "Eviction"))
        return name

    def allow_eviction(self) -> None:
        """Removes the budget that refuses the eviction."""
        path = f"/apis/policy/v1/namespaces/{self.workspace.name}/poddisruptionbudgets/{APP}"
        self.api.delete(path).granted()

    def hold_after_eviction(self, *nodes: str, **spec: Any) -> str:
        """A job whose pod has been asked to leave and has not left; these nodes are open."""
        self.keep_pod()
        self.open(*(nodes or (self.target,)))
        name = self.create_job(**spec)
        self._wait(name, "an eviction", lambda status: status.get("evictionRequestedAt"))
        return name

    def hold_unready(self, **spec: Any) -> str:
        """A job whose replacement is on the target, where nothing starts it."""
        self.open(self.target)
        name = self.create_job(**spec)
        self._wait(name, "a place taken", lambda status: _has_condition(status, "BoundPodReady"))
        return name

    def _wait(self, job: str, what: str, check: Callable[[Object], object]) -> None:
        """Waits until the status of the job passes the check; fails if the job ends before."""

        def passes() -> bool:
            status = self.status(job)
            passed = bool(check(status))
            assert passed or status.get("phase") not in TERMINAL, f"{what}: {status}"
            return passed

        try:
            eventually(f"{what} for {job}", passes)
        except AssertionError as error:
            log = self._controller.log_text if self._controller else ""
            raise AssertionError(f"{error}; {self.status(job)}\n{log}") from None

    def keep_pod(self) -> None:
        """Keeps the pod, once it is deleted, until it is let go."""
        self._change_finalizers(self.victim["metadata"]["name"], [WAIT])

    def let_pod_go(self) -> None:
        """Lets the pod that was kept go."""
        self._change_finalizers(self.victim["metadata"]["name"], None)

    def _change_finalizers(self, name: str, finalizers: list[str] | None) -> None:
        change = {"metadata": {"finalizers": finalizers}}
        self.api.patch(f"{self.workspace.pods_path}/{name}", change)

    def end_ttl(self, job: str) -> None:
        """Makes the time of the job be over."""
        self.api.patch(f"{JOBS_PATH}/{job}", {"spec": {"ttl": "1s"}}).granted()

    # -- what can be seen --------------------------------------------------------------------------

    def status(self, job: str) -> Object:
        """The status of the job."""
        return job_status(self.api, job)

    def placeholder(self) -> Object | None:
        """The placeholder, while there is one."""
        pods = list_placeholders(self.api, self.account)
        return pods[0] if pods else None

    def has_victim(self) -> bool:
        """Whether the pod is there, unharmed: the same one, on its node, and not on its way out."""
        meta = self.victim["metadata"]
        answer = self.api.get(f"{self.workspace.pods_path}/{meta['name']}")
        return (
            answer.fine
            and answer.body["metadata"]["uid"] == meta["uid"]
            and "deletionTimestamp" not in answer.body["metadata"]
            and answer.body["spec"]["nodeName"] == self.source
        )

    def new_pod(self) -> Object | None:
        """The pod of the workload that is not the one to move, while there is one."""
        uid = self.victim["metadata"]["uid"]
        pods = [pod for pod in self.workspace.list_pods() if pod["metadata"]["uid"] != uid]
        return next((pod for pod in pods if pod["metadata"]["labels"].get("app") == APP), None)

    def wait_for_new_pod(self) -> Object:
        """Waits until the new pod runs, and returns it."""

        def running() -> Object | None:
            pod = self.new_pod()
            return pod if pod and pod["status"]["phase"] == "Running" else None

        found = eventually("a new pod that runs", running)
        assert found is not None
        return found

    def taints(self) -> list[str]:
        """The effects of our taint on the source."""
        spec = self.api.get(f"/api/v1/nodes/{self.source}").granted()["spec"]
        return [taint["effect"] for taint in spec.get("taints") or () if taint["key"] == TAINT]

    def assert_room_on(self, name: str) -> None:
        """Asserts that a pod of the same size fits on the node, and removes it again."""
        path = self.create_pod("probe", name)
        eventually("room", lambda: self.api.get(path).granted()["spec"].get("nodeName") == name)
        self.api.delete(path, grace_seconds=0)

    def create_pod(self, name: str, only_node: str, **spec: Any) -> str:
        """Creates a pod of the same size that only this node may take; returns its path."""
        where = {"nodeSelector": {"kubernetes.io/hostname": only_node}}
        body = {
            "metadata": {"name": name},
            "spec": pod_spec(self.workspace, {**where, **spec}, CPU),
        }
        # The API server admits pods of a new PriorityClass a moment after it was created.
        eventually(f"a pod {name}", lambda: self.api.post(self.workspace.pods_path, body).fine)
        return f"{self.workspace.pods_path}/{name}"


def create_stateful_set(
    workspace: Workspace, name: str, replicas: int, *, cpu: str = "100m", **spec: Any
) -> None:
    """Creates a StatefulSet with pods labelled `app: <name>`; returns once all are Ready."""
    labels = {"app": name}
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(workspace, spec, cpu)},
        },
    }
    path = f"/apis/apps/v1/namespaces/{workspace.name}/statefulsets"
    workspace.api.post(path, body).granted()
    eventually(
        f"{replicas} pods of {name}",
        lambda: len(pods_of(workspace.list_ready_pods(), name)) == replicas,
    )


def _has_condition(status: Object, kind: str) -> bool:
    return any(condition["type"] == kind for condition in status.get("conditions") or ())
