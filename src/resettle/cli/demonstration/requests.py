"""Evictions and deletions, as any client of the API sends them."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

from msgspec import Struct

from resettle.cluster.access import Access
from resettle.evict.eviction_api import eviction_of
from resettle.framework.mover import Options
from resettle.framework.plan import Move
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


def evict(access: Access, move: Move) -> Answer:
    """Asks for an eviction, in the words of a run."""
    options = Options(initiator=move.plugin, profile=move.profile, reason=move.reason)
    body = eviction_of(move.pod, options)
    return _sent(access, "POST", f"{_path(move.pod)}/eviction", body)


def delete(access: Access, pod: Pod) -> Answer:
    """Deletes a pod, whatever its budget says."""
    return _sent(access, "DELETE", _path(pod), b"{}")


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _sent(access: Access, method: str, path: str, body: bytes) -> Answer:
    address = urlsplit(access.server)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        told = json.loads(response.read())
    finally:
        connection.close()
    causes = (told.get("details") or {}).get("causes") or ()
    says = next((it["message"] for it in causes if it.get("message")), told.get("message", ""))
    return Answer(response.status, says)
