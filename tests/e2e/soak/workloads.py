"""A wide room with many Deployments, and somebody who scales them and deletes their pods."""

from __future__ import annotations

import threading
from random import Random
from types import TracebackType

from tests.e2e.cluster.workloads import pod_spec
from tests.e2e.cluster.workspace import Room, pauses
from tools.control_plane.api import Api, Object

NODES = 40
APPS = 20
BEAT_SECONDS = 1.0
AT_ONCE = 12
"""Pods that come or go at one beat; controllers make some twenty a second."""
PATIENCE_SECONDS = 300
GROWN = 1.1
"""How much larger than at first the estate may get, and smaller."""


class Estate(Room):
    """Forty nodes, and twenty Deployments that share some pods out among them."""

    def __init__(self, api: Api, pods: int) -> None:
        super().__init__(api)
        self.nodes = [f"{self.name}-n{i}" for i in range(NODES)]
        self.apps = [f"app-{i}" for i in range(APPS)]
        self.size = pods
        self._deployments = f"/apis/apps/v1/namespaces/{self.name}/deployments"

    def __enter__(self) -> Estate:
        super().__enter__()
        return self

    def settle(self) -> None:
        """Makes the Deployments, and returns once all their pods run."""
        for app in self.apps:
            self.api.post(self._deployments, self._deployment(app)).granted()
        self.rest()

    def rest(self) -> None:
        """Returns once every Deployment has what it had at first, and nobody is on the way out."""
        for app in self.apps:
            self.scale(app, self.size // APPS)
        for _ in pauses(PATIENCE_SECONDS, 1):
            if self._rests():
                return
        raise AssertionError(f"{self.name} is not at rest after {PATIENCE_SECONDS} s")

    def scale(self, app: str, replicas: int) -> None:
        """Has the app want so many pods."""
        path = f"{self._deployments}/{app}"
        self.api.patch(path, {"spec": {"replicas": replicas}}).granted()

    def names(self, app: str) -> list[str]:
        """Of the app's pods."""
        found = self.api.items(f"{self.pods}?labelSelector=app%3D{app}")
        return sorted(it["metadata"]["name"] for it in found)

    def _deployment(self, app: str) -> Object:
        labels = {"app": app}
        soft = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
        spec = pod_spec(self, {"topologySpreadConstraints": [soft]}, "50m")
        return {
            "metadata": {"name": app},
            "spec": {
                "replicas": self.size // APPS,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }

    def _rests(self) -> bool:
        for it in self.api.items(self._deployments):
            status, wanted = it.get("status") or {}, it["spec"]["replicas"]
            if status.get("observedGeneration") != it["metadata"]["generation"]:
                return False
            if not status.get("replicas") == status.get("readyReplicas") == wanted:
                return False
        return not any("deletionTimestamp" in it["metadata"] for it in self.running())


class Churn:
    """Scales up, scales down and deletes, beat after beat while its block lasts."""

    def __init__(self, estate: Estate, seed: int = 6) -> None:
        self.ups = self.downs = self.deletions = 0
        """Pods asked for, given up, and deleted."""
        self._estate, self._chance = estate, Random(seed)
        self._wanted = dict.fromkeys(estate.apps, estate.size // APPS)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
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
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            while not self._over.wait(BEAT_SECONDS):
                self._scale()
                self._delete()
        except Exception as error:
            self._failure = error

    def _scale(self) -> None:
        app, step = self._chance.choice(self._estate.apps), self._chance.randint(1, AT_ONCE)
        total, size = sum(self._wanted.values()), self._estate.size
        if total > size * GROWN or (total > size / GROWN and self._chance.random() < 0.5):
            step = -min(step, self._wanted[app])
        self._wanted[app] += step
        self._estate.scale(app, self._wanted[app])
        self.ups += max(step, 0)
        self.downs += max(-step, 0)

    def _delete(self) -> None:
        names = self._estate.names(self._chance.choice(self._estate.apps))
        for name in self._chance.sample(names, min(len(names), AT_ONCE // 2)):
            self.deletions += self._estate.api.delete(f"{self._estate.pods}/{name}").fine
