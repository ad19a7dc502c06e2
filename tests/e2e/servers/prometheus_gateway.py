"""Somebody in front of Prometheus who wants to see a token, perhaps over TLS, and who may lie."""

from __future__ import annotations

import ssl
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

_SECONDS = 10
HTML = b"<!DOCTYPE html><html><title>Sign in</title></html>"


class Gatekeeper:
    """Lets those through who show the token, while the block lasts."""

    def __init__(self, behind: str, tls: ssl.SSLContext | None = None) -> None:
        self._behind = behind
        self.token = ""
        self.says: tuple[int, bytes] | None = None
        """What everybody is told instead, once it is set."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._visit())
        self._scheme = "https" if tls else "http"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        """Where it stands."""
        return f"{self._scheme}://localhost:{self._server.server_port}"

    def __enter__(self) -> Gatekeeper:
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

    def answered(self, path: str, shown: str | None) -> tuple[int, bytes]:
        """What somebody hears who asks for this path and shows that."""
        if self.says is not None:
            return self.says
        if self.token and shown != f"Bearer {self.token}":
            return 401, b"no"
        with urllib.request.urlopen(f"{self._behind}{path}", timeout=_SECONDS) as heard:
            return heard.status, heard.read()

    def _visit(self) -> type[BaseHTTPRequestHandler]:
        keeper = self

        class Visit(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, body = keeper.answered(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Keeps quiet."""

        return Visit
