"""Somebody between a run and the API server who lets things go wrong on the way.

    with Between(plane, account) as way:
        way.fault = lambda method, path: Fault.BUSY if path.endswith("/eviction") else None

Requests are read, judged by `fault` and passed on over a connection each; an answer comes back as
it is, piece by piece, so that watches work. Runs of the account come through here while the block
lasts, for its kubeconfig says so.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol
from urllib.parse import urlsplit

from tools.control_plane.plane import Access

_SECONDS = 60
TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Retry-After: 1\r\nContent-Length: 43\r\nConnection: close\r\n\r\n"
    b"Too many requests, please try again later.\n"
)
"""What an API server says that has more to do than it can: bare words, and when to come again."""


class Fault(Enum):
    """What may happen to a request."""

    BUSY = "answered 429, and not passed on"
    LOST = "passed on, and its answer thrown away"
    TORN = "thrown away, and the connection with it"
    LATE = "passed on once the way is clear"


Judge = Callable[[str, str], Fault | None]


def to_evictions(fault: Fault, *, every: int = 1, at_most: int | None = None) -> Judge:
    """The fault for every so many-th request to evict, so many times."""
    asked, met, guard = count(1), count(), threading.Lock()

    def judge(method: str, path: str) -> Fault | None:
        with guard:
            if not path.endswith("/eviction") or next(asked) % every:
                return None
            return fault if at_most is None or next(met) < at_most else None

    return judge


def to_the_first_of_each(fault: Fault) -> Judge:
    """The fault for the first request to evict each pod, and never again for that pod."""
    met: set[str] = set()
    guard = threading.Lock()

    def judge(method: str, path: str) -> Fault | None:
        with guard:
            if not path.endswith("/eviction") or path in met:
                return None
            met.add(path)
            return fault

    return judge


class WayIn(Protocol):
    """Whoever has a kubeconfig."""

    kubeconfig: Path


class Between:
    """A server that passes requests on, or does not."""

    def __init__(self, plane: Access, account: WayIn) -> None:
        self.fault: Judge = lambda method, path: None
        self.clear = threading.Event()
        """Whether what is late may pass."""
        self.waiting = 0
        """How many requests are late right now."""
        self._there = urlsplit(plane.url).port or 443
        self._trust = ssl.create_default_context(cafile=str(plane.papers.ca))
        self._papers = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._papers.load_cert_chain(plane.papers.certificate, plane.papers.key)
        self._closed = False
        self._account = account
        self._direct = account.kubeconfig.read_text()
        self._door = socket.create_server(("127.0.0.1", 0))
        self._lines: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Between:
        way_in: dict[str, Any] = json.loads(self._direct)
        port = self._door.getsockname()[1]
        way_in["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        self._account.kubeconfig.write_text(json.dumps(way_in))
        self._begin(self._serve)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._account.kubeconfig.write_text(self._direct)
        self._closed = True
        self.clear.set()
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.cut()
        for thread in self._threads:
            thread.join(_SECONDS)

    def cut(self) -> None:
        """Ends all connections at once, whatever they are in the middle of."""
        with self._guard:
            for line in self._lines:
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

    def _begin(self, work: Callable[..., None], *given: Any) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while True:
            try:
                raw, _ = self._door.accept()
            except OSError:
                return
            self._begin(self._attend, raw)

    def _attend(self, raw: socket.socket) -> None:
        with raw, suppress(OSError):
            raw.settimeout(_SECONDS)
            self._hold(raw)
            try:
                with self._papers.wrap_socket(raw, server_side=True) as line:
                    self._hold(line)
                    self._pass_on(line)
                    self._let_go(line)
            finally:
                self._let_go(raw)

    def _pass_on(self, line: ssl.SSLSocket) -> None:
        """One request and its answer."""
        asked = _request(line)
        if asked is None:
            return
        method, path = asked.split(b" ", 2)[:2]
        fault = self.fault(method.decode(), path.decode())
        if fault is Fault.TORN:
            return
        if fault is Fault.BUSY:
            line.sendall(TOO_MANY)
            return
        if fault is Fault.LATE and not self._cleared():
            return
        with (
            socket.create_connection(("127.0.0.1", self._there), _SECONDS) as raw,
            self._trust.wrap_socket(raw, server_hostname="127.0.0.1") as server,
        ):
            self._hold(server)
            try:
                server.sendall(asked.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
                while piece := server.recv(1 << 16):
                    if fault is not Fault.LOST:
                        line.sendall(piece)
            finally:
                self._let_go(server)

    def _cleared(self) -> bool:
        """Whether the way became clear before it was closed for good."""
        with self._guard:
            self.waiting += 1
        self.clear.wait(_SECONDS)
        with self._guard:
            self.waiting -= 1
        return not self._closed

    def _hold(self, line: socket.socket) -> None:
        with self._guard:
            self._lines.add(line)

    def _let_go(self, line: socket.socket) -> None:
        with self._guard:
            self._lines.discard(line)


def _request(line: ssl.SSLSocket) -> bytes | None:
    """All bytes of a request; None if whoever called has hung up before."""
    read = b""
    while b"\r\n\r\n" not in read:
        piece = line.recv(1 << 16)
        if not piece:
            return None
        read += piece
    head, _, body = read.partition(b"\r\n\r\n")
    left = _length(head) - len(body)
    while left > 0:
        piece = line.recv(1 << 16)
        if not piece:
            return None
        read, left = read + piece, left - len(piece)
    return read


def _length(head: bytes) -> int:
    for field in head.split(b"\r\n")[1:]:
        name, _, value = field.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
