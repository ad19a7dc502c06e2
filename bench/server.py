"""A lean API server on the loopback, so that two deschedulers can look at one cluster.

    python -m bench.server --nodes 1000 --pods 30

It generates the cluster, says on stdout where it listens, and serves until it is sent SIGTERM; then
it prints what was asked of it. Each list lies in memory once, as the bytes of its items: any page
is a slice of them, and serving costs next to nothing. Evictions are granted and change nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import random
import re
import signal
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bench.churn import replaced
from bench.generate import LISTS, Generator, add_shape_arguments, compact, shape_of
from resettle.model.kinds import KINDS

VERSION = "1000"
"""The resource version of every list; events of watches come after it."""
LONGEST_LINE = 64 * 1024
BOOKMARK_SECONDS = 10.0
LOOK_SECONDS = 0.5
HOLD_SECONDS = 1800.0

PATHS = {KINDS[name].path: name for name in LISTS}
LAST_TO_SYNC = "PriorityClass"
"""The list that is held back from a client which should fill its caches before it begins."""

_JSON = b"application/json"
_GRANTED = {
    "eviction": re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+/eviction"),
    "event": re.compile(r"/(api/v1|apis/events\.k8s\.io/v1)/namespaces/[^/]+/events(/[^/]+)?"),
}
_REVIEW = re.compile(r"/apis/(authentication|authorization)\.k8s\.io/v1/\w+reviews")


class Listing:
    """All objects of one kind as bytes, and where each of them begins."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.api_version = LISTS[kind]
        self._bytes = bytearray()
        self._starts = array("Q", [0])

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def size(self) -> int:
        """Bytes of all items together."""
        return len(self._bytes)

    def add(self, item: str) -> None:
        """Appends an object."""
        self._bytes += item.encode() + b","
        self._starts.append(len(self._bytes))

    def page(self, start: int, limit: int) -> tuple[bytes, memoryview, bytes]:
        """The list from an item on, in pieces; a limit of 0 means all the rest."""
        end = min(start + limit, len(self)) if limit else len(self)
        meta: dict[str, Any] = {"resourceVersion": VERSION}
        if end < len(self):
            meta |= {"continue": str(end), "remainingItemCount": len(self) - end}
        head = {"kind": f"{self.kind}List", "apiVersion": self.api_version, "metadata": meta}
        first, last = self._starts[start], self._starts[end]
        items = memoryview(self._bytes)[first : max(first, last - len(b","))]
        return compact(head)[:-1].encode() + b',"items":[', items, b"]}"

    def some(self, count: int, seed: int) -> list[bytes]:
        """Some of the objects, drawn at random."""
        chosen = random.Random(seed).sample(range(len(self)), min(count, len(self)))
        starts = self._starts
        return [bytes(self._bytes[starts[i] : starts[i + 1] - len(b",")]) for i in chosen]

    def bookmark(self, version: int) -> bytes:
        """The line by which a watch says that all is quiet."""
        meta = {"resourceVersion": str(version)}
        thing = {"kind": self.kind, "apiVersion": self.api_version, "metadata": meta}
        return compact({"type": "BOOKMARK", "object": thing}).encode() + b"\n"


class Cluster:
    """What is served, and what has been asked for."""

    def __init__(self, objects: Iterable[tuple[str, str]], token: str = "") -> None:
        self.listings = {kind: Listing(kind) for kind in LISTS}
        for kind, text in objects:
            self.listings[kind].add(text)
        self.token = token
        self.requests: Counter[str] = Counter()
        self.ended = threading.Event()
        self.complete = threading.Event()
        """Whether every list is answered at once, or one is held back for the time being."""
        self.complete.set()
        self._lock = threading.Lock()
        self._news: dict[str, list[queue.SimpleQueue[bytes]]] = {}
        self.version = int(VERSION)

    def follow(self, kind: str) -> queue.SimpleQueue[bytes]:
        """Where the news of a kind will be put."""
        news: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        with self._lock:
            self._news.setdefault(kind, []).append(news)
        return news

    def leave(self, kind: str, news: queue.SimpleQueue[bytes]) -> None:
        """Puts no more news there."""
        with self._lock:
            self._news[kind].remove(news)

    def churn(self, count: int) -> int:
        """Send to all watches that some pods went and others came; lists stay as they are.

        The answer is the version of the last of these events.
        """
        pods = self.listings["Pod"].some(count, self.version)
        events = b"".join(replaced(pods, self.version + 1, self.version))
        self.version += 2 * count
        with self._lock:
            for news in self._news.get("Pod", ()):
                news.put(events)
        return self.version

    def count(self, what: str) -> None:
        """Notes a request."""
        with self._lock:
            self.requests[what] += 1

    def account(self) -> dict[str, Any]:
        """What has been asked so far, and what answering has cost."""
        return {
            "requests": dict(sorted(self.requests.items())),
            "evictions": self.requests["eviction"],
            "cpu_seconds": round(time.process_time(), 3),
        }


def discovered(path: str) -> dict[str, Any] | None:
    """What the server says of itself under this path, if it is one that clients ask."""
    versions = sorted({*LISTS.values(), "events.k8s.io/v1"} - {"v1"})
    match path.rstrip("/"):
        case "/version":
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.0", "platform": "linux/amd64"}
        case "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        case "/apis":
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [_group(version) for version in versions],
            }
        case "/api/v1":
            return _resources("v1")
        case group if (version := group.removeprefix("/apis/")) in versions:
            return _resources(version)
    return None


def _group(group_version: str) -> dict[str, Any]:
    group, _, version = group_version.partition("/")
    offered = {"groupVersion": group_version, "version": version}
    return {"name": group, "versions": [offered], "preferredVersion": offered}


def _resources(group_version: str) -> dict[str, Any]:
    resources = [
        {
            "name": path.rpartition("/")[2],
            "singularName": kind.lower(),
            "kind": kind,
            "namespaced": KINDS[kind].namespaced,
            "verbs": ["get", "list", "watch"],
        }
        for path, kind in PATHS.items()
        if LISTS[kind] == group_version
    ]
    if group_version == "v1":
        resources.append(
            {
                "name": "pods/eviction",
                "singularName": "",
                "group": "policy",
                "version": "v1",
                "kind": "Eviction",
                "namespaced": True,
                "verbs": ["create"],
            }
        )
    return {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}


def _status(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    outcome = "Failure" if code >= 400 else "Success"
    about = {"status": outcome, "message": message, "reason": reason, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **about}


_EVICTED = compact(_status(201)).encode()


class Server(ThreadingHTTPServer):
    """The cluster behind a port that the operating system chose."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Lets a client that has gone away go; anything else is reported."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """One connection, kept open from request to request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024
    server: Server
    raw_requestline: bytes

    def parse_request(self) -> bool:
        """Reads the head of a request, as plainly as it can be done.

        The library's way costs ten times as much, and a busy server slows down the client that is
        measured beside it.
        """
        self.close_connection = True
        words = self.raw_requestline.split()
        if len(words) != 3:
            return False
        self.command, self.path, self.request_version = (word.decode("latin-1") for word in words)
        self.request_headers: dict[bytes, bytes] = {}
        while (line := self.rfile.readline(LONGEST_LINE)) not in (b"\r\n", b"\n", b""):
            name, _, value = line.partition(b":")
            self.request_headers[name.lower()] = value.strip()
        self.close_connection = self.request_headers.get(b"connection", b"").lower() == b"close"
        return True

    def do_GET(self) -> None:
        """Discovery, lists and watches."""
        address = urlsplit(self.path)
        asked = dict(parse_qsl(address.query))
        if not self._admitted():
            return
        if kind := PATHS.get(address.path):
            listing = self.server.cluster.listings[kind]
            if asked.get("watch") in ("1", "true"):
                self._watch(listing, asked)
            else:
                self._list(listing, asked)
        elif (found := discovered(address.path)) is not None:
            self._count("discovery")
            self._answer(200, found)
        elif address.path == "/bench/account":
            self._answer(200, self.server.cluster.account())
        else:
            self._count(f"unknown {address.path}")
            self._answer(404, _status(404, "NotFound", f"nothing is served at {address.path}"))

    def do_POST(self) -> None:
        """Evictions, events and reviews, all of them granted; and the runner's own requests."""
        body = self.rfile.read(int(self.request_headers.get(b"content-length", 0)))
        path = urlsplit(self.path).path
        if not self._admitted():
            return
        for what, pattern in _GRANTED.items():
            if pattern.fullmatch(path):
                self._count(what)
                if what == "eviction":
                    self._give(201, _EVICTED)
                else:
                    # As it came, JSON or protobuf: an event that was taken is given back.
                    self._give(201, body, self.request_headers.get(b"content-type", _JSON))
                return
        if _REVIEW.fullmatch(path):
            self._count("review")
            self._answer(201, {**json.loads(body), "status": {"allowed": True}})
        elif path == "/bench/hold":
            self.server.cluster.complete.clear()
            self._answer(200, _status(200))
        elif path == "/bench/release":
            self.server.cluster.complete.set()
            self._answer(200, _status(200))
        elif path == "/bench/churn":
            self._answer(200, {"version": str(self.server.cluster.churn(int(body)))})
        else:
            self._count(f"unknown {path}")
            self._answer(404, _status(404, "NotFound", f"nothing can be made at {path}"))

    do_PATCH = do_POST  # noqa: N815 (an event that repeats is patched)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the account at the end is enough."""

    def _list(self, listing: Listing, asked: dict[str, str]) -> None:
        self._count(f"list {listing.kind}")
        # As a real API server does: a list from its watch cache comes whole, whatever the limit.
        from_cache = asked.get("resourceVersion") == "0"
        if from_cache and listing.kind == LAST_TO_SYNC:
            self.server.cluster.complete.wait(HOLD_SECONDS)
        limit = 0 if from_cache else int(asked.get("limit", 0))
        pieces = listing.page(int(asked.get("continue", 0)), limit)
        self._head(200, sum(map(len, pieces)))
        for piece in pieces:
            self.wfile.write(piece)
        self.wfile.flush()

    def _watch(self, listing: Listing, asked: dict[str, str]) -> None:
        if asked.get("sendInitialEvents") == "true":
            # "Invalid" is what sends client-go back to a list and a watch without a complaint.
            self._count(f"streaming list {listing.kind}")
            self._answer(422, _status(422, "Invalid", "streaming lists are not served here"))
            return
        cluster = self.server.cluster
        until = time.monotonic() + float(asked.get("timeoutSeconds", 3600))
        news = cluster.follow(listing.kind)
        self._count(f"watch {listing.kind}")
        self._head(200, None)
        self.wfile.flush()
        line, bookmark_at = b"", time.monotonic() + BOOKMARK_SECONDS
        try:
            while not cluster.ended.is_set() and time.monotonic() < until:
                with contextlib.suppress(queue.Empty):
                    line = news.get(timeout=LOOK_SECONDS)
                if not line and time.monotonic() >= bookmark_at:
                    line = listing.bookmark(cluster.version)
                if line:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.flush()
                    line, bookmark_at = b"", time.monotonic() + BOOKMARK_SECONDS
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        except OSError:
            self.close_connection = True
        finally:
            cluster.leave(listing.kind, news)

    def _admitted(self) -> bool:
        token = self.server.cluster.token
        if not token or self.request_headers.get(b"authorization") == f"Bearer {token}".encode():
            return True
        self._count("unauthorized")
        self._answer(401, _status(401, "Unauthorized", "the token is not the one"))
        return False

    def _count(self, what: str) -> None:
        self.server.cluster.count(what)

    def _answer(self, code: int, value: dict[str, Any]) -> None:
        self._give(code, compact(value).encode())

    def _give(self, code: int, body: bytes, kind: bytes = _JSON) -> None:
        self._head(code, len(body), kind)
        self.wfile.write(body)
        self.wfile.flush()

    def _head(self, code: int, length: int | None, kind: bytes = _JSON) -> None:
        size = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
        status = b"%d %b" % (code, HTTPStatus(code).phrase.encode())
        self.wfile.write(b"HTTP/1.1 %b\r\nContent-Type: %b\r\n%b\r\n\r\n" % (status, kind, size))


def main() -> None:
    """Generates, serves, and gives account."""
    words = argparse.ArgumentParser(description="Serve a generated cluster on the loopback.")
    add_shape_arguments(words)
    words.add_argument("--token", default="", help="the bearer token to ask for")
    chosen = words.parse_args()
    shape = shape_of(chosen.nodes, chosen.pods, chosen.worst, chosen.seed)
    server = Server(Cluster(Generator(shape).lists(), chosen.token))
    cluster = server.cluster
    held = {kind: len(listing) for kind, listing in cluster.listings.items()}
    size = sum(listing.size for listing in cluster.listings.values())
    # Blocked in every thread, for the main thread to wait for: no request is cut short half way.
    goodbyes = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, goodbyes)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    print(compact({"address": server.address, "objects": held, "bytes": size}), flush=True)
    signal.sigwait(goodbyes)
    cluster.ended.set()
    server.shutdown()
    print(compact(cluster.account()), flush=True)


if __name__ == "__main__":
    main()
