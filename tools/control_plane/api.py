"""A small client of an API server: JSON there, JSON back, whatever the status.

Each thread keeps a connection of its own open. Nothing of resettle is used here.
"""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from threading import local
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Object = dict[str, Any]
MERGE = "application/merge-patch+json"


class Answer(NamedTuple):
    """What the API server said."""

    status: int
    body: Any
    """The decoded object; text where the answer is no JSON."""

    @property
    def fine(self) -> bool:
        """Whether the request was granted."""
        return self.status < 300

    def granted(self) -> Object:
        """The object of a request that had to be granted."""
        if not self.fine:
            raise Declined(self)
        found: Object = self.body
        return found


class Declined(Exception):
    """A request that had to be granted was not."""

    def __init__(self, answer: Answer) -> None:
        text = answer.body.get("message") if isinstance(answer.body, dict) else answer.body
        super().__init__(f"{answer.status}: {text}")
        self.answer = answer


class Api:
    """An API server, spoken to with one token; `acting_as` is a user and a group to pass for."""

    def __init__(
        self,
        url: str,
        token: str,
        ca: Path,
        *,
        timeout: float = 30,
        acting_as: tuple[str, str] | None = None,
    ) -> None:
        self.url, self.token, self.ca = url, token, ca
        self._address = urlsplit(url).netloc
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._timeout = timeout
        self._always = {"Authorization": f"Bearer {token}"}
        if acting_as is not None:
            user, group = acting_as
            self._always |= {"Impersonate-User": user, "Impersonate-Group": group}
        self._mine = local()
        self._lines: list[http.client.HTTPSConnection] = []

    def __enter__(self) -> Api:
        """Itself, hung up at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hangs up."""
        self.close()

    def get(self, path: str) -> Answer:
        """The object or list at a path."""
        return self.ask("GET", path)

    def post(self, path: str, body: Object) -> Answer:
        """A new object."""
        return self.ask("POST", path, body)

    def put(self, path: str, body: Object) -> Answer:
        """The object in place of the one that is there."""
        return self.ask("PUT", path, body)

    def patch(self, path: str, body: Object) -> Answer:
        """The object with these parts laid over it."""
        return self.ask("PATCH", path, body, content_type=MERGE)

    def delete(self, path: str, *, grace_seconds: int | None = None) -> Answer:
        """The deletion of an object, or of all that a list holds."""
        options = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        return self.ask("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    def items(self, path: str) -> list[Object]:
        """What a list holds."""
        found: list[Object] = self.get(path).granted()["items"]
        return found

    def ask(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content_type: str = "application/json",
    ) -> Answer:
        """The answer to one request; once more if an idle connection had been closed."""
        headers = {**self._always, "Content-Type": content_type}
        text = None if body is None else json.dumps(body).encode()
        try:
            return self._exchange(method, path, text, headers)
        except (http.client.HTTPException, ConnectionError, ssl.SSLError):
            self._mine.connection.close()
            return self._exchange(method, path, text, headers)

    def close(self) -> None:
        """Hangs up, for all threads; a later request connects again."""
        for line in self._lines:
            line.close()

    def _exchange(
        self, method: str, path: str, text: bytes | None, headers: dict[str, str]
    ) -> Answer:
        connection = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = http.client.HTTPSConnection(
                self._address, context=self._tls, timeout=self._timeout
            )
            self._lines.append(connection)
        connection.request(method, path, body=text, headers=headers)
        response = connection.getresponse()
        text = response.read()
        try:
            return Answer(response.status, json.loads(text))
        except ValueError:
            return Answer(response.status, text.decode(errors="replace"))
