"""A client small enough to hide nothing: plain requests, plain JSON."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

PATIENCE_SECONDS = 30
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

Object = dict[str, Any]


class Reply(NamedTuple):
    """A code, its headers, and the body as data; text that is not JSON stays text."""

    code: int
    headers: Mapping[str, str]
    body: Any

    @property
    def names(self) -> list[str]:
        """The names of a list's items."""
        return [item["metadata"]["name"] for item in self.body["items"]]

    @property
    def reason(self) -> str:
        """The reason that a status gives."""
        return str(self.body.get("reason", ""))


class Event(NamedTuple):
    """A line of a watch."""

    type: str
    object: Object

    @property
    def name(self) -> str:
        return str(self.object["metadata"].get("name", ""))


class Client:
    """Asks one server; `headers` may hold a token, `trust` says whose certificates count."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self.url = url
        self.trust = trust
        self._address = urlsplit(url)
        self._headers = dict(headers or {})

    def get(self, path: str, **query: Any) -> Reply:
        return self.call("GET", path, **query)

    def post(self, path: str, body: Object, **query: Any) -> Reply:
        return self.call("POST", path, body, **query)

    def put(self, path: str, body: Object, **query: Any) -> Reply:
        return self.call("PUT", path, body, **query)

    def patch(self, path: str, body: Any, media: str = MERGE, **query: Any) -> Reply:
        return self.call("PATCH", path, body, media, **query)

    def delete(self, path: str, body: Object | None = None, **query: Any) -> Reply:
        return self.call("DELETE", path, body, **query)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        media: str = "application/json",
        **query: Any,
    ) -> Reply:
        """What the server answers."""
        connection = self._connection()
        try:
            answer = self._asked(connection, method, path, body, media, query)
            text = answer.read()
            headers = {key.lower(): value for key, value in answer.getheaders()}
            return Reply(answer.status, headers, _read(text))
        finally:
            connection.close()

    @contextmanager
    def watch(self, path: str, **query: Any) -> Iterator[Iterator[Event]]:
        """The events of a watch, as they come."""
        connection = self._connection()
        try:
            asked = {"watch": "true", "timeoutSeconds": PATIENCE_SECONDS, **query}
            answer = self._asked(connection, "GET", path, None, "", asked)
            yield _events(answer)
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=PATIENCE_SECONDS, context=self.trust
            )
        return http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)

    def _asked(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Any,
        media: str,
        query: Mapping[str, Any],
    ) -> http.client.HTTPResponse:
        parameters = {key.rstrip("_"): value for key, value in query.items() if value is not None}
        where = f"{path}?{urlencode(parameters)}" if parameters else path
        headers = {**self._headers, "Accept": "application/json"}
        sent = None
        if body is not None:
            sent, headers["Content-Type"] = json.dumps(body).encode(), media
        connection.request(method, where, sent, headers)
        return connection.getresponse()


def _read(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


def _events(answer: http.client.HTTPResponse) -> Iterator[Event]:
    if answer.status != 200:
        yield Event("ERROR", _read(answer.read()))
        return
    while line := answer.readline():
        event = json.loads(line)
        yield Event(event["type"], event["object"])
