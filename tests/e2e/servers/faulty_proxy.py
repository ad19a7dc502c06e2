"""A proxy between a run and the API server that makes requests fail.

    with FaultyProxy(plane, account) as proxy:
        proxy.fault = lambda method, path: Fault.BUSY if path.endswith("/eviction") else None

Each request is read, given to `fault` and forwarded over its own connection; the answer is
forwarded piece by piece, so that watches work. Runs of the account use the proxy while the block
lasts, because it is in their kubeconfig.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
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
"""The answer of an overloaded API server: plain text, and when to try again."""


class Fault(Enum):
    """What happens to a request."""

    BUSY = "answered 429, and not forwarded"
    ANSWER_LOST = "forwarded, and its answer dropped"
    DROPPED = "dropped, and the connection closed"
    DELAYED = "forwarded once `release` is set"


FaultRule = Callable[[str, str], Fault | None]


def fault_for_evictions(fault: Fault, *, every: int = 1, at_most: int | None = None) -> FaultRule:
    """A rule with the fault for every `every`-th request to evict, at most so many times."""
    requests, faults, lock = count(1), count(), threading.Lock()

    def rule(method: str, path: str) -> Fault | None:
        with lock:
            if not path.endswith("/eviction") or next(requests) % every:
                return None
            return fault if at_most is None or next(faults) < at_most else None

    return rule


def fault_for_first_evictions(fault: Fault) -> FaultRule:
    """A rule with the fault for the first request to evict each pod, and none for later ones."""
    paths: set[str] = set()
    lock = threading.Lock()

    def rule(method: str, path: str) -> Fault | None:
        with lock:
            if not path.endswith("/eviction") or path in paths:
                return None
            paths.add(path)
            return fault

    return rule


class HasKubeconfig(Protocol):
    """An account with a kubeconfig."""

    kubeconfig: Path


class FaultyProxy:
    """A server that forwards requests, unless there is a fault.

    With `in_order` a connection is served once `fault` has seen the request of the one before, so
    that a rule can stop everything after a certain request.
    """

    def __init__(self, plane: Access, account: HasKubeconfig, *, in_order: bool = False) -> None:
        self.fault: FaultRule = lambda method, path: None
        self.release = threading.Event()
        """Set once delayed requests may be forwarded."""
        self.waiting = 0
        """The number of requests that are delayed now."""
        self.accepts = threading.Event()
        """Cleared while new connections have to wait; each request needs one."""
        self.accepts.set()
        self._entrance = threading.Lock() if in_order else nullcontext()
        self._api_port = urlsplit(plane.url).port or 443
        self._client_tls = ssl.create_default_context(cafile=str(plane.papers.ca))
        self._server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._server_tls.load_cert_chain(plane.papers.certificate, plane.papers.key)
        self._closed = False
        self._account = account
        self._direct_config = account.kubeconfig.read_text()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> FaultyProxy:
        config: dict[str, Any] = json.loads(self._direct_config)
        port = self._listener.getsockname()[1]
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        self._account.kubeconfig.write_text(json.dumps(config))
        self._start_thread(self._serve)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._account.kubeconfig.write_text(self._direct_config)
        self._closed = True
        self.release.set()
        self.accepts.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_connections()
        for thread in self._threads:
            thread.join(_SECONDS)

    def cut_connections(self) -> None:
        """Closes all connections at once, also in the middle of an answer."""
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _start_thread(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            self._start_thread(self._serve_connection, raw)

    def _serve_connection(self, raw: socket.socket) -> None:
        with raw, suppress(OSError), ExitStack() as entrance:
            raw.settimeout(_SECONDS)
            self._track(raw)
            entrance.enter_context(self._entrance)
            self.accepts.wait(_SECONDS)
            try:
                with self._server_tls.wrap_socket(raw, server_side=True) as connection:
                    self._track(connection)
                    request = _request(connection)
                    fault = self._fault_of(request)
                    entrance.close()  # the next connection may be served
                    if request is not None:
                        self._forward(connection, request, fault)
                    self._untrack(connection)
            finally:
                self._untrack(raw)

    def _fault_of(self, request: bytes | None) -> Fault | None:
        if request is None:
            return None
        method, path = request.split(b" ", 2)[:2]
        return self.fault(method.decode(), path.decode())

    def _forward(self, connection: ssl.SSLSocket, request: bytes, fault: Fault | None) -> None:
        """Forwards one request and its answer."""
        if fault is Fault.DROPPED:
            return
        if fault is Fault.BUSY:
            connection.sendall(TOO_MANY)
            return
        if fault is Fault.DELAYED and not self._wait_for_release():
            return
        with (
            socket.create_connection(("127.0.0.1", self._api_port), _SECONDS) as raw,
            self._client_tls.wrap_socket(raw, server_hostname="127.0.0.1") as server,
        ):
            self._track(server)
            try:
                server.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
                while piece := server.recv(1 << 16):
                    if fault is not Fault.ANSWER_LOST:
                        connection.sendall(piece)
            finally:
                self._untrack(server)

    def _wait_for_release(self) -> bool:
        """Waits for `release`; returns whether the proxy is still open."""
        with self._lock:
            self.waiting += 1
        self.release.wait(_SECONDS)
        with self._lock:
            self.waiting -= 1
        return not self._closed

    def _track(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)

    def _untrack(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)


def _request(connection: ssl.SSLSocket) -> bytes | None:
    """All bytes of a request; None if the client closed the connection before."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(1 << 16)
        if not piece:
            return None
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    missing = _length(head) - len(body)
    while missing > 0:
        piece = connection.recv(1 << 16)
        if not piece:
            return None
        received, missing = received + piece, missing - len(piece)
    return received


def _length(head: bytes) -> int:
    for field in head.split(b"\r\n")[1:]:
        name, _, value = field.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
