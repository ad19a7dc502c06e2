"""A namespace and nodes with KWOK as kubelet, created for one test and deleted after it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from types import TracebackType
from typing import TypeVar

from resettle.testing import node
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import MANAGED

TIMEOUT_SECONDS = 60
NODES = 6
Value = TypeVar("Value")

_numbers = count(1)


class Workspace:
    """The namespace and nodes of one test, deleted when the block ends."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.name = f"workspace-{os.getpid()}-{next(_numbers)}"
        self.nodes = [f"{self.name}-n{i}" for i in range(NODES)]
        self.pods_path = f"/api/v1/namespaces/{self.name}/pods"

    def __enter__(self) -> Workspace:
        self.api.post("/api/v1/namespaces", {"metadata": {"name": self.name}}).granted()
        for name in self.nodes:
            self._create_node(name)
        # Pods are refused until the namespace has its default ServiceAccount.
        account = f"/api/v1/namespaces/{self.name}/serviceaccounts/default"
        eventually("the default account", lambda: self.api.get(account).fine)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.api.delete(f"/apis/apps/v1/namespaces/{self.name}/deployments")
        self.api.delete(f"/api/v1/namespaces/{self.name}")
        self.api.delete(self.pods_path, grace_seconds=0)
        eventually("no pods", lambda: not self.list_pods())
        for name in self.nodes:
            self.api.delete(f"/api/v1/nodes/{name}")

    def add_node(self) -> None:
        """Creates one more node."""
        self.nodes.append(f"{self.name}-n{len(self.nodes)}")
        self._create_node(self.nodes[-1])

    def _create_node(self, name: str) -> None:
        zone = "abc"[self.nodes.index(name) % 3]
        created = node(name, cpu="8", zone=zone, labels={"workspace": self.name}).node
        created["metadata"]["annotations"] = MANAGED
        self.api.post("/api/v1/nodes", created).granted()

    def deploy(self, name: str, replicas: int, **template: object) -> None:
        """Creates a Deployment with small requests; returns once all pods are Ready."""
        labels = {"app": name}
        wanted = {"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        spec = {
            "containers": [{"name": "main", "image": "registry.example/app:1", **wanted}],
            "nodeSelector": {"workspace": self.name},
            **template,
        }
        self.api.post(
            f"/apis/apps/v1/namespaces/{self.name}/deployments",
            {
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            },
        ).granted()
        eventually(f"{replicas} ready pods", lambda: len(self.list_ready_pods()) == replicas)

    def cordon(self) -> None:
        """Cordons all nodes, so that no replacement is scheduled."""
        for name in self.nodes:
            path = f"/api/v1/nodes/{name}"
            self.api.patch(path, {"spec": {"unschedulable": True}}).granted()

    def list_pods(self) -> list[Object]:
        """The pods of the workspace."""
        return self.api.items(self.pods_path)

    def list_ready_pods(self) -> list[Object]:
        """The pods of the workspace that are running and ready."""
        return [
            pod for pod in self.list_pods() if pod["status"]["phase"] == "Running" and is_ready(pod)
        ]

    def create_budget(self, app: str, *, max_unavailable: int) -> None:
        """Creates a disruption budget for the app; returns once its controller has updated it."""
        path = f"/apis/policy/v1/namespaces/{self.name}/poddisruptionbudgets"
        spec = {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": app}}}
        self.api.post(path, {"metadata": {"name": app}, "spec": spec}).granted()

        def is_up_to_date() -> bool:
            status = self.api.get(f"{path}/{app}").granted().get("status") or {}
            return bool(status.get("disruptionsAllowed") == max_unavailable)

        eventually("a budget that allows disruptions", is_up_to_date)


def is_ready(pod: Object) -> bool:
    """Whether the pod is Ready."""
    conditions = pod["status"].get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def eventually(what: str, check: Callable[[], Value]) -> Value:
    """Polls until the check returns something true, and returns that; fails after a timeout."""
    for _ in poll(TIMEOUT_SECONDS):
        if value := check():
            return value
    raise AssertionError(f"{what}: not seen within {TIMEOUT_SECONDS} s")


def poll(seconds: float, pause: float = 0.05) -> Iterator[None]:
    """Yields again and again, with a pause between, until the time is up."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield
        time.sleep(pause)
