"""Virtual machines and their migration: the pods of a machine, as a descheduler sees them.

source pod ── eviction requested ──► annotated `eviction-in-progress`, a target pod is created
                                       ├── completed ──► the source succeeds and is deleted
                                       └── failed ─────► annotation and target are removed
"""

from __future__ import annotations

from resettle.model.pod import IN_PROGRESS, ON_REQUEST
from tests.e2e.cluster.workloads import pod_spec, report_restarts, report_status
from tests.e2e.cluster.workspace import Workspace, eventually
from tools.control_plane.api import Object

RESTARTS = 50


class Machine:
    """A machine that runs in its source pod; a ConfigMap takes the place of its owner."""

    def __init__(self, workspace: Workspace, name: str, node: str, *, cpu: str = "100m") -> None:
        self._workspace, self._cpu = workspace, cpu
        self.name, self.node = name, node
        self._owner = self._create_owner()
        source = self._create_pod("source", nodeName=node)
        self.uid: str = source["metadata"]["uid"]
        self._path = f"{workspace.pods_path}/{source['metadata']['name']}"
        self._target = ""
        eventually(f"{name} running", lambda: self.pod["status"]["phase"] == "Running")

    @property
    def pod(self) -> Object:
        """The source pod as the API server returns it."""
        return self._workspace.api.get(self._path).granted()

    def report_restarts(self, times: int = RESTARTS) -> None:
        """Reports so many restarts of the source pod that the policy evicts it."""
        report_restarts(self._workspace, [self.pod], times=times)

    def begin_migration(self) -> None:
        """Annotates the source as in progress, and creates a target pod."""
        self._annotate({IN_PROGRESS: "true"})
        created = self._create_pod("target", nodeSelector={"workspace": self._workspace.name})
        self._target = f"{self._workspace.pods_path}/{created['metadata']['name']}"

    def complete_migration(self) -> None:
        """Reports that the source has succeeded; its pod stays."""
        report_status(self._workspace, self.pod, phase="Succeeded")

    def fail(self) -> None:
        """Reports that the source has failed."""
        report_status(self._workspace, self.pod, phase="Failed")

    def delete(self) -> None:
        """Deletes the source pod."""
        self._workspace.api.delete(self._path, grace_seconds=0).granted()

    def cancel_migration(self) -> None:
        """Removes the annotation and the target pod; the machine stays where it is."""
        self._annotate({IN_PROGRESS: None})
        self._workspace.api.delete(self._target, grace_seconds=0)

    def remove_on_request(self) -> None:
        """Removes the annotation by which the machine is migrated on request."""
        self._annotate({ON_REQUEST: None})

    def touch(self) -> None:
        """Changes an annotation of the source that has no meaning."""
        self._annotate({"example.com/touched": self.pod["metadata"]["resourceVersion"]})

    def _annotate(self, annotations: dict[str, str | None]) -> None:
        self._workspace.api.patch(self._path, {"metadata": {"annotations": annotations}}).granted()

    def _create_owner(self) -> Object:
        path = f"/api/v1/namespaces/{self._workspace.name}/configmaps"
        created = self._workspace.api.post(path, {"metadata": {"name": self.name}}).granted()
        reference = {"name": self.name, "uid": created["metadata"]["uid"], "controller": True}
        return {"apiVersion": "v1", "kind": "ConfigMap", **reference}

    def _create_pod(self, role: str, **spec: object) -> Object:
        meta = {
            "name": f"virt-launcher-{self.name}-{role}",
            "labels": {"kubevirt.io": "virt-launcher"},
            "annotations": {ON_REQUEST: ""},
            "ownerReferences": [self._owner],
        }
        body = {"metadata": meta, "spec": pod_spec(self._workspace, spec, self._cpu)}
        return self._workspace.api.post(self._workspace.pods_path, body).granted()
