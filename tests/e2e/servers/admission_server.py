"""An HTTPS server that answers admission reviews with what a function says."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme

from tools.control_plane.api import Object

Answered = Callable[[dict[str, Any]], Object]


class Reviewer:
    """The server, on a loopback port that was free."""

    def __init__(self, folder: Path, answered: Answered) -> None:
        issuer = trustme.CA()
        self.authority = issuer.cert_pem.bytes()
        """Who vouches for it."""
        shown = folder / "reviewer.pem"
        issuer.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(shown)
        trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trust.load_cert_chain(shown)
        self._server = _Server(trust, answered)
        self.url = f"https://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def start(self) -> None:
        """Answers from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answers no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, trust: ssl.SSLContext, answered: Answered) -> None:
        self.answered = answered
        super().__init__(("127.0.0.1", 0), _Handler)
        # Hands are shaken by the thread of each connection, so that nobody holds up the others.
        self.socket = trust.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing; the API server tells whom it concerns when it is not answered."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = asked["request"]
        response = {"uid": request["uid"], **self.server.answered(request)}
        review = {"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps quiet."""
