"""A namespace and nodes with KWOK for a kubelet, made for one test and taken away after it."""

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

PATIENCE_SECONDS = 60
NODES = 6
Found = TypeVar("Found")

_rooms = count(1)


class Room:
    """Where a test has its objects."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.name = f"room-{os.getpid()}-{next(_rooms)}"
        self.nodes = [f"{self.name}-n{i}" for i in range(NODES)]
        self.pods = f"/api/v1/namespaces/{self.name}/pods"

    def __enter__(self) -> Room:
        self.api.post("/api/v1/namespaces", {"metadata": {"name": self.name}}).granted()
        for name in self.nodes:
            self._furnish(name)
        # Pods are refused until the namespace has its account.
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
        self.api.delete(self.pods, grace_seconds=0)
        eventually("an empty room", lambda: not self.running())
        for name in self.nodes:
            self.api.delete(f"/api/v1/nodes/{name}")

    def another_node(self) -> None:
        """One more node."""
        self.nodes.append(f"{self.name}-n{len(self.nodes)}")
        self._furnish(self.nodes[-1])

    def _furnish(self, name: str) -> None:
        zone = "abc"[self.nodes.index(name) % 3]
        made = node(name, cpu="8", zone=zone, labels={"room": self.name}).node
        made["metadata"]["annotations"] = MANAGED
        self.api.post("/api/v1/nodes", made).granted()

    def deploy(self, name: str, replicas: int, **template: object) -> None:
        """A Deployment whose pods ask for a little, all of them Ready."""
        labels = {"app": name}
        wanted = {"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        spec = {
            "containers": [{"name": "main", "image": "registry.example/app:1", **wanted}],
            "nodeSelector": {"room": self.name},
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
        eventually(f"{replicas} ready pods", lambda: len(self.ready()) == replicas)

    def cordon(self) -> None:
        """Closes all nodes to newcomers, so that nothing that goes is replaced."""
        for name in self.nodes:
            path = f"/api/v1/nodes/{name}"
            self.api.patch(path, {"spec": {"unschedulable": True}}).granted()

    def running(self) -> list[Object]:
        """The pods of the room."""
        return self.api.items(self.pods)

    def ready(self) -> list[Object]:
        """Those of them that run and say that they are ready."""
        return [it for it in self.running() if it["status"]["phase"] == "Running" and _ready(it)]

    def budget(self, app: str, *, at_most_away: int) -> None:
        """A disruption budget over pods of the app, as soon as it is reckoned with."""
        path = f"/apis/policy/v1/namespaces/{self.name}/poddisruptionbudgets"
        spec = {"maxUnavailable": at_most_away, "selector": {"matchLabels": {"app": app}}}
        self.api.post(path, {"metadata": {"name": app}, "spec": spec}).granted()

        def reckoned() -> bool:
            status = self.api.get(f"{path}/{app}").granted().get("status") or {}
            return bool(status.get("disruptionsAllowed") == at_most_away)

        eventually("a budget with room", reckoned)


def _ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)


def eventually(what: str, seen: Callable[[], Found]) -> Found:
    """The first answer that is something; a failure that names it if none comes in time."""
    for _ in pauses(PATIENCE_SECONDS):
        if found := seen():
            return found
    raise AssertionError(f"{what}: not seen within {PATIENCE_SECONDS} s")


def pauses(seconds: float, pause: float = 0.05) -> Iterator[None]:
    """A turn now and then until the time is up."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield
        time.sleep(pause)
