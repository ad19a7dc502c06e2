"""A gateway in front of Prometheus that requires a token, optionally over TLS, and may fail."""

from __future__ import annotations

import ssl
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

_SECONDS = 10
HTML = b"<!DOCTYPE html><html><title>Sign in</title></html>"


class PrometheusGateway:
    """Forwards requests that have the token, while the block lasts."""

    def __init__(self, target: str, tls: ssl.SSLContext | None = None) -> None:
        self._target = target
        self.token = ""
        self.fixed_answer: tuple[int, bytes] | None = None
        """The answer to every request, if set."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._scheme = "https" if tls else "http"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        """The URL of the gateway."""
        return f"{self._scheme}://localhost:{self._server.server_port}"

    def __enter__(self) -> PrometheusGateway:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        """The answer to a request for this path with this `Authorization` header."""
        if self.fixed_answer is not None:
            return self.fixed_answer
        if self.token and authorization != f"Bearer {self.token}":
            return 401, b"no"
        with urllib.request.urlopen(f"{self._target}{path}", timeout=_SECONDS) as response:
            return response.status, response.read()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, body = gateway.answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Logs nothing."""

        return Handler
