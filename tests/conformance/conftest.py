"""The servers that are there to be asked: the test API server always, a real one if it is named."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator

import pytest

from resettle.testing import ApiServer
from tests.conformance.harness import Place

from .client import Client

URL, TOKEN, CA = (os.environ.get(f"RESETTLE_E2E_{name}", "") for name in ("URL", "TOKEN", "CA"))
SERVERS = ("test", "real") if URL else ("test",)


def real() -> Client:
    trust = ssl.create_default_context(cafile=CA or None)
    return Client(URL, {"Authorization": f"Bearer {TOKEN}"}, trust)


@pytest.fixture(scope="session", params=SERVERS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    if request.param == "real":
        yield real()
    else:
        with ApiServer(token="conformance") as server:
            yield Client(server.url, {"Authorization": "Bearer conformance"})


@pytest.fixture
def place(client: Client) -> Iterator[Place]:
    made = Place(client)
    made.open()
    try:
        yield made
    finally:
        made.close()
