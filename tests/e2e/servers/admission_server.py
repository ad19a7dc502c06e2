"""An HTTPS server that answers admission reviews with the result of a function."""

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

AnswerReview = Callable[[dict[str, Any]], Object]


class AdmissionServer:
    """The server, on a free loopback port."""

    def __init__(self, folder: Path, answer: AnswerReview) -> None:
        issuer = trustme.CA()
        self.ca_certificate = issuer.cert_pem.bytes()
        """The certificate of the CA that signed the certificate of the server."""
        certificate_file = folder / "admission-server.pem"
        issuer.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
            certificate_file
        )
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate_file)
        self._server = _Server(tls, answer)
        self.url = f"https://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def start(self) -> None:
        """Starts to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stops answering."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, tls: ssl.SSLContext, answer: AnswerReview) -> None:
        self.answer = answer
        super().__init__(("127.0.0.1", 0), _Handler)
        # The thread of each connection does its TLS handshake, so that none blocks the others.
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs nothing; the API server reports a webhook that does not answer."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        response = {"uid": request["uid"], **self.server.answer(request)}
        answer = {
            "apiVersion": review["apiVersion"],
            "kind": review["kind"],
            "response": response,
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""
