"""What nodes and pods use, as a test says, served by the API server under `metrics.k8s.io`.

Custom resources stand in for a metrics server: who lists them cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tools.control_plane.api import Api, Object

from .room import Room, eventually

GROUP = "metrics.k8s.io"
PATH = f"/apis/{GROUP}/v1beta1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RIGHTS: Object = {"apiGroups": [GROUP], "resources": ["nodes", "pods"], "verbs": ["list"]}


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
    """Figures of the nodes and pods of a room; each has the time at which it was told."""

    def __init__(self, room: Room) -> None:
        self._room, self._api = room, room.api
        serve(room.api)

    def nodes(self, **cpu: str) -> None:
        """What nodes use now, by the last part of their names (`n0="6"`); the others use little."""
        for name in self._room.nodes:
            amount = cpu.get(name.rpartition("-")[2], "100m")
            self._put(f"{PATH}/nodes", name, {"usage": _usage(amount)})

    def pods(self, cpu: Mapping[str, str] | str) -> None:
        """What pods use now, by name, or all alike."""
        for pod in self._room.running():
            name = pod["metadata"]["name"]
            amount = cpu if isinstance(cpu, str) else cpu[name]
            container = {"name": "main", "usage": _usage(amount)}
            there = f"{PATH}/namespaces/{self._room.name}/pods"
            self._put(there, name, {"containers": [container]})

    def clear(self) -> None:
        """Takes the nodes' figures away; those of pods go with their namespace."""
        for name in self._room.nodes:
            self._api.delete(f"{PATH}/nodes/{name}")

    def _put(self, path: str, name: str, said: Object) -> None:
        kind = "PodMetrics" if path.endswith("/pods") else "NodeMetrics"
        body = {
            "apiVersion": f"{GROUP}/v1beta1",
            "kind": kind,
            "metadata": {"name": name},
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "window": "15s",
            **said,
        }
        if self._api.get(f"{path}/{name}").fine:
            self._api.patch(f"{path}/{name}", body).granted()
        else:
            self._api.post(path, body).granted()


def _usage(cpu: str) -> Object:
    return {"cpu": cpu, "memory": "100Mi"}
