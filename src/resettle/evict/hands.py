"""What movers act with: one API server, asked only while we may act."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from resettle.kube.transport.client import Answer, Client


class ApiHands:
    """Requests, each held back until its turn and checked as it goes out."""

    def __init__(self, client: Client, may_act: Callable[[], None]) -> None:
        self._client = client
        self._may_act = may_act

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
    ) -> Coroutine[Any, Any, Answer]:
        """The API server's answer; raises what `may_act` raises if we may not act any more."""
        return self._client.send(
            method, path, body, content_type=content_type, before=self._may_act
        )
