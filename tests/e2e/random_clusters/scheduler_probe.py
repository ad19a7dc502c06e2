"""A real kube-scheduler that is asked where a pod could go, and never gets to place it.

Its configuration has an extender, which is called with the nodes that passed all of the
scheduler's own filters. The extender notes them and refuses them all, so the pod stays pending.
A pod that no node passes for never reaches the extender; the scheduler says so in its status.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any, NamedTuple

from tests.e2e.cluster.workspace import pauses
from tests.e2e.random_clusters.static_cluster import path_of
from tests.e2e.random_clusters.valid_objects import probe_of
from tools.control_plane.api import Api
from tools.control_plane.build import built
from tools.control_plane.plane import Access, start_scheduler
from tools.control_plane.processes import Crew, free_ports

Object = dict[str, Any]
SCHEDULER = "probe"
PATIENCE_SECONDS = 20
NOT_YET = "waiting for ephemeral volume controller"
"""What is said of a pod whose own claim is still to be made; it is tried again at once."""


class Found(NamedTuple):
    """Where a pod could go, and what the scheduler said of it and the nodes, if it was asked."""

    nodes: frozenset[str]
    said: str


class Prober:
    """Asks the scheduler about one pod after another."""

    def __init__(self, api: Api, extender: Extender) -> None:
        self._api, self._extender = api, extender

    def ask(self, pod: Object, *, in_words: bool = False) -> Found:
        """Where a replacement of the pod could go; with what is said of the nodes if so wished."""
        probe = probe_of(pod, SCHEDULER)
        path = path_of(probe)
        made = self._api.post(path.rpartition("/")[0], probe).granted()
        try:
            return self._answer(path, made["metadata"]["uid"], in_words)
        finally:
            self._api.delete(path, grace_seconds=0)

    def _answer(self, path: str, uid: str, in_words: bool) -> Found:
        for _ in pauses(PATIENCE_SECONDS, pause=0):
            nodes = self._extender.heard(uid, within=0.02)
            if nodes is not None and not in_words:
                return Found(nodes, "")
            status = self._api.get(path).granted()["status"]
            for condition in status.get("conditions") or ():
                said = f"{condition.get('reason')}: {condition.get('message')}"
                if condition["type"] == "PodScheduled" and NOT_YET not in said:
                    # The call comes before the status, and may have come after the question.
                    return Found(self._extender.heard(uid, within=0) or frozenset(), said)
        raise AssertionError(f"the scheduler said nothing about {path}")


class Extender(ThreadingHTTPServer):
    """The server that the scheduler calls."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._calls: dict[str, frozenset[str]] = {}
        self._news = Condition()

    def note(self, uid: str, nodes: list[str]) -> None:
        """Keeps the first answer for a pod: later ones are about another state of the cluster."""
        with self._news:
            self._calls.setdefault(uid, frozenset(nodes))
            self._news.notify_all()

    def heard(self, uid: str, within: float) -> frozenset[str] | None:
        """The nodes for a pod, if they are told within so many seconds."""
        with self._news:
            self._news.wait_for(lambda: uid in self._calls, within)
            return self._calls.get(uid)


class _Handler(BaseHTTPRequestHandler):
    server: Extender
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        nodes = asked["NodeNames"] or []
        self.server.note(asked["Pod"]["metadata"]["uid"], nodes)
        answer = {"NodeNames": [], "FailedNodes": dict.fromkeys(nodes, "only asked")}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the scheduler's own log tells more."""


@contextmanager
def probing(access: Access, api: Api, folder: Path) -> Iterator[Prober]:
    """A prober, for as long as its scheduler runs beside the one of the cluster."""
    with Extender() as extender, Crew(access.logs) as crew:
        Thread(target=extender.serve_forever, daemon=True).start()
        config = folder / "scheduler.json"
        config.write_text(json.dumps(_configuration(access, extender.server_port)))
        (port,) = free_ports(1)
        start_scheduler(access, built(), crew, "kube-scheduler-probe", port, config)
        try:
            yield Prober(api, extender)
        finally:
            extender.shutdown()


def _configuration(access: Access, port: int) -> Object:
    way_in = access.papers.kubeconfig("system:kube-scheduler")
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(way_in), "qps": 1000, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [
            {
                "schedulerName": SCHEDULER,
                # Nobody is to make room for a pod that only asks.
                "plugins": {"postFilter": {"disabled": [{"name": "*"}]}},
            }
        ],
        "extenders": [
            {
                "urlPrefix": f"http://127.0.0.1:{port}",
                "filterVerb": "filter",
                "nodeCacheCapable": True,
                "enableHTTPS": False,
            }
        ],
    }
