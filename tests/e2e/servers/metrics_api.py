"""What nodes and pods use, as a test says, served by the API server under `metrics.k8s.io`.

Custom resources stand in for a metrics server: who lists them cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType

from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import RULES
from tools.control_plane.api import Api, Object

GROUP = "metrics.k8s.io"
PATH = f"/apis/{GROUP}/v1beta1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RIGHTS: Object = {"apiGroups": [GROUP], "resources": ["nodes", "pods"], "verbs": ["list"]}
RULES_TO_MEASURE = [*RULES, RIGHTS]
"""What a run may do that goes by what is measured."""


def serve(api: Api) -> None:
    """Has the API server serve the metrics API, if it does not do so yet."""
    for plural, kind, scope in (
        ("nodes", "NodeMetrics", "Cluster"),
        ("pods", "PodMetrics", "Namespaced"),
    ):
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {
            "name": "v1beta1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": anything},
        }
        body = {
            "metadata": {
                "name": f"{plural}.{GROUP}",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
            },
            "spec": {
                "group": GROUP,
                "scope": scope,
                "names": {"plural": plural, "singular": plural[:-1], "kind": kind},
                "versions": [version],
            },
        }
        if not api.get(f"{DEFINITIONS}/{plural}.{GROUP}").fine:
            api.post(DEFINITIONS, body).granted()
    eventually("the metrics API", lambda: api.get(f"{PATH}/nodes").fine)
    eventually("the metrics API of pods", lambda: api.get(f"{PATH}/pods").fine)


class Figures:
    """Figures of the nodes and pods of a room; each has the time at which it was told.

    Those of nodes are taken away when the block ends, and those of pods go with their namespace.
    """

    def __init__(self, room: Room) -> None:
        self._room, self._api = room, room.api
        serve(room.api)

    def __enter__(self) -> Figures:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in self._room.nodes:
            self._api.delete(f"{PATH}/nodes/{name}")

    def nodes(self, *, others: str = "100m", **cpu: str) -> None:
        """What nodes use now, by the last part of their names (`n0="6"`); `others` is the rest."""
        for name in self._room.nodes:
            amount = cpu.get(name.rpartition("-")[2], others)
            self._put(f"{PATH}/nodes", name, {"usage": _usage(amount)})

    def is_from(self, node: str, ago: timedelta) -> None:
        """Has the figure of a node be that old."""
        self._api.patch(f"{PATH}/nodes/{node}", {"timestamp": _stamp(ago)}).granted()

    def pods(self, cpu: Mapping[str, str] | str) -> None:
        """What pods use now, by name, or all alike."""
        for pod in self._room.running():
            name = pod["metadata"]["name"]
            amount = cpu if isinstance(cpu, str) else cpu[name]
            container = {"name": "main", "usage": _usage(amount)}
            there = f"{PATH}/namespaces/{self._room.name}/pods"
            self._put(there, name, {"containers": [container]})

    def _put(self, path: str, name: str, said: Object) -> None:
        kind = "PodMetrics" if path.endswith("/pods") else "NodeMetrics"
        body = {
            "apiVersion": f"{GROUP}/v1beta1",
            "kind": kind,
            "metadata": {"name": name},
            "timestamp": _stamp(),
            "window": "15s",
            **said,
        }
        if self._api.get(f"{path}/{name}").fine:
            self._api.patch(f"{path}/{name}", body).granted()
        else:
            self._api.post(path, body).granted()


def _usage(cpu: str) -> Object:
    return {"cpu": cpu, "memory": "100Mi"}


def _stamp(ago: timedelta = timedelta(0)) -> str:
    return (datetime.now(UTC) - ago).isoformat().replace("+00:00", "Z")
