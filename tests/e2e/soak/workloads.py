"""A large workspace with many Deployments, and a thread that scales them and deletes pods."""

from __future__ import annotations

import threading
from random import Random
from types import TracebackType

from tests.e2e.cluster.workloads import pod_spec
from tests.e2e.cluster.workspace import Workspace, poll
from tools.control_plane.api import Api, Object

NODES = 40
APPS = 20
STEP_SECONDS = 1.0
PODS_IN_A_STEP = 12
"""Pods created or deleted in one step; controllers create about twenty a second."""
TIMEOUT_SECONDS = 300
LARGEST_FACTOR = 1.1
"""How much larger or smaller than at first the number of pods may get."""


class SoakCluster(Workspace):
    """A workspace with forty nodes and twenty Deployments of equal size."""

    def __init__(self, api: Api, pods: int) -> None:
        super().__init__(api)
        self.nodes = [f"{self.name}-n{i}" for i in range(NODES)]
        self.apps = [f"app-{i}" for i in range(APPS)]
        self.size = pods
        self._deployments = f"/apis/apps/v1/namespaces/{self.name}/deployments"

    def __enter__(self) -> SoakCluster:
        super().__enter__()
        return self

    def create_deployments(self) -> None:
        """Creates the Deployments; returns once all their pods run."""
        for app in self.apps:
            self.api.post(self._deployments, self._deployment(app)).granted()
        self.wait_until_stable()

    def wait_until_stable(self) -> None:
        """Scales every Deployment back; returns once all pods run and none is being deleted."""
        for app in self.apps:
            self.scale(app, self.size // APPS)
        for _ in poll(TIMEOUT_SECONDS, 1):
            if self._is_stable():
                return
        raise AssertionError(f"{self.name} is not stable after {TIMEOUT_SECONDS} s")

    def scale(self, app: str, replicas: int) -> None:
        """Scales the app to so many pods."""
        path = f"{self._deployments}/{app}"
        self.api.patch(path, {"spec": {"replicas": replicas}}).granted()

    def pod_names(self, app: str) -> list[str]:
        """The names of the pods of the app."""
        pods = self.api.items(f"{self.pods_path}?labelSelector=app%3D{app}")
        return sorted(pod["metadata"]["name"] for pod in pods)

    def _deployment(self, app: str) -> Object:
        labels = {"app": app}
        soft_constraint = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
        spec = pod_spec(self, {"topologySpreadConstraints": [soft_constraint]}, "50m")
        return {
            "metadata": {"name": app},
            "spec": {
                "replicas": self.size // APPS,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }

    def _is_stable(self) -> bool:
        for deployment in self.api.items(self._deployments):
            status, wanted = deployment.get("status") or {}, deployment["spec"]["replicas"]
            if status.get("observedGeneration") != deployment["metadata"]["generation"]:
                return False
            if not status.get("replicas") == status.get("readyReplicas") == wanted:
                return False
        return not any("deletionTimestamp" in pod["metadata"] for pod in self.list_pods())


class Churn:
    """Scales up, scales down and deletes pods, step after step while its block lasts."""

    def __init__(self, soak_cluster: SoakCluster, seed: int = 6) -> None:
        self.ups = self.downs = self.deletions = 0
        """Pods scaled up, scaled down, and deleted."""
        self._soak_cluster, self._rng = soak_cluster, Random(seed)
        self._wanted = dict.fromkeys(soak_cluster.apps, soak_cluster.size // APPS)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: Exception | None = None

    def __enter__(self) -> Churn:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopped.wait(STEP_SECONDS):
                self._scale()
                self._delete()
        except Exception as error:
            self._failure = error

    def _scale(self) -> None:
        app, step = self._rng.choice(self._soak_cluster.apps), self._rng.randint(1, PODS_IN_A_STEP)
        total, size = sum(self._wanted.values()), self._soak_cluster.size
        if total > size * LARGEST_FACTOR or (
            total > size / LARGEST_FACTOR and self._rng.random() < 0.5
        ):
            step = -min(step, self._wanted[app])
        self._wanted[app] += step
        self._soak_cluster.scale(app, self._wanted[app])
        self.ups += max(step, 0)
        self.downs += max(-step, 0)

    def _delete(self) -> None:
        pod_names = self._soak_cluster.pod_names(self._rng.choice(self._soak_cluster.apps))
        for name in self._rng.sample(pod_names, min(len(pod_names), PODS_IN_A_STEP // 2)):
            self.deletions += self._soak_cluster.api.delete(
                f"{self._soak_cluster.pods_path}/{name}"
            ).fine
