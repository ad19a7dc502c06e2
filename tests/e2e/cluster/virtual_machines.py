"""Virtual machines and who moves them: the pods of a machine, as far as a descheduler sees them.

source pod ── asked to leave ──► marked `eviction-in-progress`, and a target pod is made
                                   ├── completed ──► the source succeeds, and goes
                                   └── failed ─────► the mark and the target go
"""

from __future__ import annotations

from resettle.model.pod import IN_PROGRESS, ON_REQUEST
from tests.e2e.cluster.workloads import pod_spec, report, restarted
from tests.e2e.cluster.workspace import Room, eventually
from tools.control_plane.api import Object

RESTARTS = 50


class Machine:
    """One machine, running in its source pod on a node; a ConfigMap stands for the machine."""

    def __init__(self, room: Room, name: str, node: str, *, cpu: str = "100m") -> None:
        self._room, self._cpu = room, cpu
        self.name, self.node = name, node
        self._owner = self._made_owner()
        source = self._made("source", nodeName=node)
        self.uid: str = source["metadata"]["uid"]
        self._path = f"{room.pods}/{source['metadata']['name']}"
        self._target = ""
        eventually(f"{name} running", lambda: self.pod["status"]["phase"] == "Running")

    @property
    def pod(self) -> Object:
        """The source pod, as the API server has it."""
        return self._room.api.get(self._path).granted()

    def restarts(self, times: int = RESTARTS) -> None:
        """Has the source pod restart so often that it should leave."""
        restarted(self._room, [self.pod], times=times)

    def begins(self) -> None:
        """The migration is under way: the source is marked, and a target is scheduled."""
        self._annotate({IN_PROGRESS: "true"})
        made = self._made("target", nodeSelector={"room": self._room.name})
        self._target = f"{self._room.pods}/{made['metadata']['name']}"

    def succeeds(self) -> None:
        """The migration is done: the source has run its course, and stays to be seen."""
        report(self._room, self.pod, phase="Succeeded")

    def dies(self) -> None:
        """The source fails, with the machine in it."""
        report(self._room, self.pod, phase="Failed")

    def goes(self) -> None:
        """The source is taken away."""
        self._room.api.delete(self._path, grace_seconds=0).granted()

    def fails(self) -> None:
        """The migration is given up: the machine stays, and is no longer marked."""
        self._annotate({IN_PROGRESS: None})
        self._room.api.delete(self._target, grace_seconds=0)

    def no_longer_on_request(self) -> None:
        """Nobody moves the machine any more when its pod is asked to leave."""
        self._annotate({ON_REQUEST: None})

    def touched(self) -> None:
        """Something about the source changes that matters to nobody."""
        self._annotate({"example.com/touched": self.pod["metadata"]["resourceVersion"]})

    def _annotate(self, annotations: dict[str, str | None]) -> None:
        self._room.api.patch(self._path, {"metadata": {"annotations": annotations}}).granted()

    def _made_owner(self) -> Object:
        path = f"/api/v1/namespaces/{self._room.name}/configmaps"
        made = self._room.api.post(path, {"metadata": {"name": self.name}}).granted()
        ours = {"name": self.name, "uid": made["metadata"]["uid"], "controller": True}
        return {"apiVersion": "v1", "kind": "ConfigMap", **ours}

    def _made(self, role: str, **spec: object) -> Object:
        meta = {
            "name": f"virt-launcher-{self.name}-{role}",
            "labels": {"kubevirt.io": "virt-launcher"},
            "annotations": {ON_REQUEST: ""},
            "ownerReferences": [self._owner],
        }
        body = {"metadata": meta, "spec": pod_spec(self._room, spec, self._cpu)}
        return self._room.api.post(self._room.pods, body).granted()
