"""A webhook on evictions that has virtual machines moved by others, as KubeVirt's does.

Whoever asks a machine's pod to leave is refused with 429 and told that its evacuation has begun. A
pod that does not say that others move it, or that has run its course, may leave as any other.
"""

from __future__ import annotations

import base64
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from resettle.model.pod import ON_REQUEST
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.servers.admission_server import Reviewer
from tools.control_plane.api import Object
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = "virt-launcher-eviction-interceptor.kubevirt.io"
NOBODY = "anybody-there"
"""A pod that there is not, by which to learn whether the webhook is asked at all."""
FINISHED = ("Succeeded", "Failed")


class Asked(NamedTuple):
    """A request to evict a pod that others move."""

    pod: str
    """Namespace and name."""
    uid: str
    who: str
    """What the request says of who asks."""


class Interceptor:
    """The webhook, asked about evictions in some rooms while its block lasts."""

    def __init__(self, plane: Access, folder: Path, *rooms: Room, rash: bool = False) -> None:
        self.asked: list[Asked] = []
        """What it was asked about machines, in order; plain pods are not noted."""
        self._rash = rash
        self._api = plane.api(QUIET)
        self._rooms = rooms
        self._reviewer = Reviewer(folder, self._answered)

    def __enter__(self) -> Interceptor:
        self._reviewer.start()
        self._api.post(CONFIGURATIONS, self._configuration()).granted()
        for room in self._rooms:
            eventually("the webhook in force", partial(self._listens, room))
        return self

    def __exit__(self, *_: object) -> None:
        self._api.delete(f"{CONFIGURATIONS}/{self._rooms[0].name}")
        self._reviewer.stop()
        self._api.close()

    def times(self, uid: str) -> int:
        """How often this pod was asked to leave."""
        return sum(it.uid == uid for it in self.asked)

    def _configuration(self) -> Object:
        names = [room.name for room in self._rooms]
        only = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}]
        asked = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
        trusted = base64.b64encode(self._reviewer.authority).decode()
        webhook = {
            "name": NAME,
            "clientConfig": {"url": self._reviewer.url, "caBundle": trusted},
            "rules": [{**asked, "resources": ["pods/eviction"]}],
            "namespaceSelector": {"matchExpressions": only},
            "failurePolicy": "Fail",
            "sideEffects": "NoneOnDryRun",
            "admissionReviewVersions": ["v1"],
        }
        return {"metadata": {"name": self._rooms[0].name}, "webhooks": [webhook]}

    def _listens(self, room: Room) -> bool:
        meta = {"name": NOBODY, "namespace": room.name}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        return NAME in str(room.api.post(f"{room.pods}/{NOBODY}/eviction", eviction).body)

    def _answered(self, request: dict[str, Any]) -> Object:
        """What the webhook has to say to a request for an eviction."""
        namespace, name = request["namespace"], request["name"]
        if name == NOBODY:
            return _refused("nobody is there")
        found = self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        if not found.fine or not self._moves(found.body):
            return {"allowed": True}
        pod, eviction = f"{namespace}/{name}", request["object"]
        uid = eviction["deleteOptions"]["preconditions"]["uid"]
        again = "Evacuation in progress: " if self.times(uid) else ""
        self.asked.append(Asked(pod, uid, eviction["metadata"]["annotations"]["requested-by"]))
        return _refused(f'{again}Eviction triggered evacuation of VMI "{pod}"')

    def _moves(self, pod: Object) -> bool:
        """Whether the pod is a machine's, and alive; a rash webhook does not mind the latter."""
        willing = ON_REQUEST in pod["metadata"].get("annotations", {})
        return willing and (self._rash or pod["status"]["phase"] not in FINISHED)


def _refused(words: str) -> Object:
    return {"allowed": False, "status": {"code": 429, "message": words}}
