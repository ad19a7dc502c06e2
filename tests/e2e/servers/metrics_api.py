"""Usage of nodes and pods that a test sets, served by the API server under `metrics.k8s.io`.

Custom resources take the place of a metrics server: a client that lists them sees no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType

from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import RULES
from tools.control_plane.api import Api, Object

GROUP = "metrics.k8s.io"
PATH = f"/apis/{GROUP}/v1beta1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PERMISSION: Object = {"apiGroups": [GROUP], "resources": ["nodes", "pods"], "verbs": ["list"]}
RULES_WITH_METRICS = [*RULES, PERMISSION]
"""The permissions of a run that reads the metrics API."""


def serve_metrics_api(api: Api) -> None:
    """Makes the API server serve the metrics API, if it does not do so yet."""
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


class UsageMetrics:
    """The metrics of the nodes and pods of a workspace; each has the time at which it was set.

    Those of nodes are deleted when the block ends, those of pods with their namespace.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._api = workspace, workspace.api
        serve_metrics_api(workspace.api)

    def __enter__(self) -> UsageMetrics:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in self._workspace.nodes:
            self._api.delete(f"{PATH}/nodes/{name}")

    def nodes(self, *, others: str = "100m", **cpu: str) -> None:
        """Sets the cpu usage of nodes, by the last part of their names (`n0="6"`)."""
        for name in self._workspace.nodes:
            amount = cpu.get(name.rpartition("-")[2], others)
            self._put(f"{PATH}/nodes", name, {"usage": _usage(amount)})

    def set_age(self, node: str, ago: timedelta) -> None:
        """Sets the age of the metrics of a node."""
        self._api.patch(f"{PATH}/nodes/{node}", {"timestamp": _stamp(ago)}).granted()

    def pods(self, cpu: Mapping[str, str] | str) -> None:
        """Sets the usage of pods, by name or the same for all."""
        for pod in self._workspace.list_pods():
            name = pod["metadata"]["name"]
            amount = cpu if isinstance(cpu, str) else cpu[name]
            container = {"name": "main", "usage": _usage(amount)}
            pods_path = f"{PATH}/namespaces/{self._workspace.name}/pods"
            self._put(pods_path, name, {"containers": [container]})

    def _put(self, path: str, name: str, metrics: Object) -> None:
        kind = "PodMetrics" if path.endswith("/pods") else "NodeMetrics"
        body = {
            "apiVersion": f"{GROUP}/v1beta1",
            "kind": kind,
            "metadata": {"name": name},
            "timestamp": _stamp(),
            "window": "15s",
            **metrics,
        }
        if self._api.get(f"{path}/{name}").fine:
            self._api.patch(f"{path}/{name}", body).granted()
        else:
            self._api.post(path, body).granted()


def _usage(cpu: str) -> Object:
    return {"cpu": cpu, "memory": "100Mi"}


def _stamp(ago: timedelta = timedelta(0)) -> str:
    return (datetime.now(UTC) - ago).isoformat().replace("+00:00", "Z")
