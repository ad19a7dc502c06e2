"""A pocket API server on a loopback socket: it lists what it was given, page by page."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Namespace": "/api/v1/namespaces",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Widget": "/apis/example.com/v1/widgets",
}
PATIENCE_SECONDS = 10
Object = dict[str, Any]


class Reply(NamedTuple):
    """An answer in place of a page."""

    status: int = 200
    body: bytes = b""
    missing: int = 0
    """Bytes that the header promises and nobody sends."""


def status_reply(code: int, message: str) -> Reply:
    """The answer of an API server that says no."""
    told = {"kind": "Status", "status": "Failure", "message": message, "code": code}
    return Reply(code, json.dumps(told).encode())


class Asked(NamedTuple):
    """A request as it came in."""

    path: str
    query: dict[str, str]
    token: str


class Pocket(ThreadingHTTPServer):
    """The server, and what it was asked.

    `faults` are answers by resource and page, such as `pods 2`. With `sorted_keys` a page begins
    with its items and ends with its metadata, as lists of custom resources do. Tokens hold what
    has to be quoted on the way back, as opaque ones may.
    """

    daemon_threads = False

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        page: int = 500,
        faults: Mapping[str, Reply] | None = None,
        prefix: str = "",
        sorted_keys: bool = False,
        token_end: str = "=",
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lists: dict[str, list[Object]] = {path: [] for path in PATHS.values()}
        for item in objects:
            self.lists[PATHS[item["kind"]]].append(item)
        self.page = page
        self.faults = faults or {}
        self.prefix = prefix
        self.sorted_keys = sorted_keys
        self.token_end = token_end
        self.asked: list[Asked] = []
        self.second_page_asked = Event()
        self.connections = 0
        self.scheme = "http"

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}{self.prefix}"

    @property
    def paths(self) -> list[str]:
        """The paths asked for, in order, without what follows the question mark."""
        return [asked.path for asked in self.asked]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave early, or never liked the certificate, are no concern of ours."""

    def reply(self, asked: Asked) -> Reply:
        """A page of the list, or the fault that is set for it."""
        path = asked.path.removeprefix(self.prefix)
        token = asked.query.get("continue", f"+/0{self.token_end}")
        place = token.removeprefix("+/").removesuffix(self.token_end)
        if not place.isdecimal():
            return status_reply(400, "continue key is not valid")
        start = int(place)
        if start:
            self.second_page_asked.set()
        size = min(self.page, int(asked.query["limit"]))
        fault = self.faults.get(f"{path.rpartition('/')[2]} {start // size + 1}")
        if fault is not None:
            return fault
        found = self.lists[path]
        meta = {"resourceVersion": "7"}
        if start + size < len(found):
            meta["continue"] = f"+/{start + size}{self.token_end}"
        items = [{k: v for k, v in it.items() if k != "kind"} for it in found[start : start + size]]
        page = {"kind": "AnyList", "apiVersion": "v1", "metadata": meta, "items": items}
        text = json.dumps(page, sort_keys=self.sorted_keys)
        return Reply(body=text.replace("&", "\\u0026").encode())  # as Go writes it


class _Handler(BaseHTTPRequestHandler):
    server: Pocket
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one piece, or each answer waits for an acknowledgement
    timeout = PATIENCE_SECONDS

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        asked = Asked(parts.path, query, self.headers.get("Authorization", ""))
        self.server.asked.append(asked)
        reply = self.server.reply(asked)
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply.body) + reply.missing))
        self.end_headers()
        self.wfile.write(reply.body)
        self.close_connection = self.close_connection or bool(reply.missing)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def serving(pocket: Pocket, tls: ssl.SSLContext | None = None) -> Iterator[Pocket]:
    """The server at work, until the block ends."""
    if tls is not None:
        pocket.scheme = "https"
        # The handshake belongs to the thread of its connection, where it may fail in peace.
        pocket.socket = tls.wrap_socket(
            pocket.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = Thread(target=pocket.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield pocket
    finally:
        pocket.shutdown()
        thread.join()
        pocket.server_close()
