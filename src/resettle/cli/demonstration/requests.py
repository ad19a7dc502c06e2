"""Evictions and deletions, as any client of the API sends them."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from resettle.cluster.kubeconfig import Access
from resettle.model.pod import Pod

TOO_MANY = 429


class Answer(Struct, frozen=True):
    """What the API server said of one request."""

    code: int
    says: str = ""

    @property
    def granted(self) -> bool:
        """Whether it was done."""
        return self.code < 300


def evict(access: Access, pod: Pod) -> Answer:
    """Asks for the eviction of this very pod, and of no namesake."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    return _sent(access, "POST", f"{_path(pod)}/eviction", eviction)


def delete(access: Access, pod: Pod) -> Answer:
    """Deletes a pod, whatever its budget says."""
    return _sent(access, "DELETE", _path(pod), {})


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _sent(access: Access, method: str, path: str, body: Any) -> Answer:
    address = urlsplit(access.server)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body), headers)
        response = connection.getresponse()
        told = json.loads(response.read())
    finally:
        connection.close()
    causes = (told.get("details") or {}).get("causes") or ()
    says = next((it["message"] for it in causes if it.get("message")), told.get("message", ""))
    return Answer(response.status, says)
