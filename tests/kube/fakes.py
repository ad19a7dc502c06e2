"""A server that keeps the headers it was sent, and a proxy; for what the test API server lacks.

Both live on loopback. Whatever host a client asks the proxy for, the proxy connects to `upstream`.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

Headers = list[tuple[str, str]]
PATIENCE_SECONDS = 10
S = TypeVar("S", bound=ThreadingHTTPServer)


class Listener(ThreadingHTTPServer):
    """Answers every GET and POST with an empty list, or with a redirect to another server."""

    daemon_threads = True

    def __init__(
        self, port: int = 0, sends_to: str = "", tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(("127.0.0.1", port), _Listening)
        self._scheme = "https" if tls else "http"
        if tls is not None:
            # The handshake belongs to the thread of its connection, where it may fail in peace.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
        self.sends_to = sends_to
        self.request_headers: list[Headers] = []

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients whose certificate is not liked are no concern of ours."""


class _Listening(BaseHTTPRequestHandler):
    server: Listener
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_SECONDS

    def do_GET(self) -> None:
        self.server.request_headers.append(list(self.headers.items()))
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = b'{"metadata": {}, "items": []}'
        self.send_response(307 if self.server.sends_to else 200)
        if self.server.sends_to:
            self.send_header("Location", self.server.sends_to)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


class Proxy(ThreadingHTTPServer):
    """Tunnels to `upstream`, whatever was asked for, and passes plain requests on to it."""

    daemon_threads = True

    def __init__(self, upstream: int, refuses: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.upstream = upstream
        self.refuses = refuses
        self.asked: list[str] = []
        self.credentials: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Passing(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_SECONDS

    def _noted(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.server.credentials.append(self.headers.get("Proxy-Authorization", ""))

    def do_CONNECT(self) -> None:
        self._noted()
        self.close_connection = True
        if self.server.refuses:
            self.send_error(self.server.refuses)
            return
        with socket.create_connection(("127.0.0.1", self.server.upstream)) as upstream:
            self.send_response(200)
            self.end_headers()
            other = threading.Thread(target=_poured, args=(upstream, self.connection), daemon=True)
            other.start()
            _poured(self.connection, upstream)
            other.join(PATIENCE_SECONDS)

    def do_GET(self) -> None:
        self._noted()
        self.close_connection = True
        with socket.create_connection(("127.0.0.1", self.server.upstream)) as upstream:
            path = "/" + self.path.split("/", 3)[3]
            upstream.sendall(
                f"GET {path} HTTP/1.1\r\nHost: up\r\nConnection: close\r\n\r\n".encode()
            )
            _poured(upstream, self.connection)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def _poured(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(1 << 16):
            sink.sendall(chunk)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def at_work(server: S) -> Iterator[S]:
    """The server, serving until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
