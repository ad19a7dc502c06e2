"""A client for tests of the test API server itself."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme

from resettle.testing import ApiServer
from tests.conformance.client import Client


def client_of(server: ApiServer, token: str = "") -> Client:
    """Asks this server, with this token if there is one."""
    return Client(server.url, {"Authorization": f"Bearer {token}"} if token else {})


PODS = "/api/v1/pods"
DEFAULT_PODS = "/api/v1/namespaces/default/pods"


def eviction(name: str) -> dict[str, object]:
    """An eviction as a client sends it."""
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


def certified(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What a server on the loopback shows, and the file of its CA certificate."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context, folder / "ca.pem"
