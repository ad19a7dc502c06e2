"""The API server's audit log: one JSON object a line, in the order in which requests ended.

The API server writes while a test reads, so the last line may lack its end. Such a line is left
for the next reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class AuditLog:
    """The requests in an audit log from a position on."""

    def __init__(self, file: Path, *, start: int = 0) -> None:
        self._file = file
        self._start = start

    @classmethod
    def from_now_on(cls, file: Path) -> AuditLog:
        """The log without the lines that are whole already."""
        return cls(file, start=file.read_bytes().rfind(b"\n") + 1)

    def requests(self, user: str | None = None) -> Iterator[dict[str, Any]]:
        """The requests whose lines are whole, oldest first: those of the user, or all."""
        name = (user or "").encode()
        for line in self._lines():
            if name in line:
                request: dict[str, Any] = json.loads(line)
                if user is None or request["user"].get("username") == user:
                    yield request

    def _lines(self) -> Iterator[bytes]:
        with self._file.open("rb") as log:
            log.seek(self._start)
            for line in log:
                if line.endswith(b"\n"):
                    yield line
