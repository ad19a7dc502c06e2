"""A fake Prometheus whose answers to instant queries the test chooses."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ASKED_AT = 1_769_860_800.0
"""2026-01-31T12:00:00Z."""
Reply = tuple[int, bytes]
Answer = Callable[[str], Reply]


def vector(series: list[tuple[Mapping[str, str], Any]], at: float = ASKED_AT) -> Reply:
    """An answer with these labels and numbers."""
    result = [{"metric": dict(labels), "value": [at, str(number)]} for labels, number in series]
    return 200, json.dumps(
        {"status": "success", "data": {"resultType": "vector", "result": result}}
    ).encode()


def truth(numbers: Mapping[str, Any], *, at: float = ASKED_AT, label: str = "instance") -> Answer:
    """Answers with a number for each node, and with its time if the query asks for that."""

    def answer(query: str) -> Reply:
        if query.startswith("timestamp("):
            return vector([({label: node}, at) for node in numbers])
        return vector([({label: node}, number) for node, number in numbers.items()])

    return answer


class Seer(ThreadingHTTPServer):
    """Replies with what `answer` returns; records queries, verbs and Authorization headers."""

    daemon_threads = True

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _QueryHandler)
        self.answer = answer
        self.asked: list[str] = []
        self.verbs: list[str] = []
        self.shown: list[str | None] = []
        self.silent = threading.Event()
        self._scheme = "https" if tls else "http"
        if tls is not None:
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    @property
    def url(self) -> str:
        return f"{self._scheme}://localhost:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that do not trust the certificate and close the connection."""


@contextmanager
def seeing(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Seer]:
    """A running server with these answers."""
    with Seer(answer, tls) as seer:
        thread = threading.Thread(target=seer.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield seer
        finally:
            seer.silent.set()
            seer.shutdown()
            thread.join()


class _QueryHandler(BaseHTTPRequestHandler):
    server: Seer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(urlsplit(self.path).query)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _answer(self, form: str) -> None:
        (query,) = parse_qs(form)["query"]
        self.server.asked.append(query)
        self.server.verbs.append(self.command)
        self.server.shown.append(self.headers.get("Authorization"))
        status, body = self.server.answer(query)
        if status == 0:
            self.server.silent.wait()
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""
