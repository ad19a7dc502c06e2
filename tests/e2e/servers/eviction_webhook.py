"""A webhook on evictions that has virtual machines migrated, as KubeVirt's does.

The eviction of a machine's pod is refused with 429 and the message that its evacuation has begun.
The eviction of a pod without the annotation, or of a finished pod, is allowed.
"""

from __future__ import annotations

import base64
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from resettle.model.pod import ON_REQUEST
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.servers.admission_server import AdmissionServer
from tools.control_plane.api import Object
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = "virt-launcher-eviction-interceptor.kubevirt.io"
NO_SUCH_POD = "no-such-pod"
"""A pod that does not exist; its eviction shows whether the webhook is in force."""
FINISHED = ("Succeeded", "Failed")


class EvictionRequest(NamedTuple):
    """A request to evict the pod of a machine."""

    pod: str
    """Namespace and name."""
    uid: str
    requested_by: str
    """The annotation `requested-by` of the request."""


class EvictionWebhook:
    """The webhook, in force for evictions in some workspaces while its block lasts."""

    def __init__(
        self, plane: Access, folder: Path, *workspaces: Workspace, ignore_phase: bool = False
    ) -> None:
        self.requests: list[EvictionRequest] = []
        """The requests about machines, in order; those about other pods are not recorded."""
        self._ignore_phase = ignore_phase
        self._api = plane.api(QUIET)
        self._workspaces = workspaces
        self._server = AdmissionServer(folder, self._answer)

    def __enter__(self) -> EvictionWebhook:
        self._server.start()
        self._api.post(CONFIGURATIONS, self._configuration()).granted()
        for workspace in self._workspaces:
            eventually("the webhook in force", partial(self._is_active, workspace))
        return self

    def __exit__(self, *_: object) -> None:
        self._api.delete(f"{CONFIGURATIONS}/{self._workspaces[0].name}")
        self._server.stop()
        self._api.close()

    def request_count(self, uid: str) -> int:
        """How often the eviction of this pod was requested."""
        return sum(request.uid == uid for request in self.requests)

    def _configuration(self) -> Object:
        names = [workspace.name for workspace in self._workspaces]
        in_workspaces = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}]
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
        ca_bundle = base64.b64encode(self._server.ca_certificate).decode()
        webhook = {
            "name": NAME,
            "clientConfig": {"url": self._server.url, "caBundle": ca_bundle},
            "rules": [{**rule, "resources": ["pods/eviction"]}],
            "namespaceSelector": {"matchExpressions": in_workspaces},
            "failurePolicy": "Fail",
            "sideEffects": "NoneOnDryRun",
            "admissionReviewVersions": ["v1"],
        }
        return {"metadata": {"name": self._workspaces[0].name}, "webhooks": [webhook]}

    def _is_active(self, workspace: Workspace) -> bool:
        meta = {"name": NO_SUCH_POD, "namespace": workspace.name}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        return NAME in str(
            workspace.api.post(f"{workspace.pods_path}/{NO_SUCH_POD}/eviction", eviction).body
        )

    def _answer(self, request: dict[str, Any]) -> Object:
        """The answer to a request for an eviction."""
        namespace, name = request["namespace"], request["name"]
        if name == NO_SUCH_POD:
            return _refusal("no such pod")
        answer = self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        if not answer.fine or not self._is_migrated(answer.body):
            return {"allowed": True}
        pod, eviction = f"{namespace}/{name}", request["object"]
        uid = eviction["deleteOptions"]["preconditions"]["uid"]
        prefix = "Evacuation in progress: " if self.request_count(uid) else ""
        self.requests.append(
            EvictionRequest(pod, uid, eviction["metadata"]["annotations"]["requested-by"])
        )
        return _refusal(f'{prefix}Eviction triggered evacuation of VMI "{pod}"')

    def _is_migrated(self, pod: Object) -> bool:
        """Whether the pod is a machine's and not finished (unless `ignore_phase`)."""
        on_request = ON_REQUEST in pod["metadata"].get("annotations", {})
        return on_request and (self._ignore_phase or pod["status"]["phase"] not in FINISHED)


def _refusal(words: str) -> Object:
    return {"allowed": False, "status": {"code": 429, "message": words}}
