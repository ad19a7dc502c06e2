"""A real kube-scheduler that answers which nodes are feasible for a pod, and never places it.

Its configuration has an extender, which is called with the nodes that passed all of the
scheduler's own filters. The extender records them and refuses them all, so the pod stays pending.
If no node passes, the extender is not called; the scheduler writes that into the status of the pod.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any, NamedTuple

from tests.e2e.cluster.workspace import poll
from tests.e2e.random_clusters.static_cluster import path_of
from tests.e2e.random_clusters.valid_objects import probe_of
from tools.control_plane.api import Api
from tools.control_plane.build import built
from tools.control_plane.plane import Access, start_scheduler
from tools.control_plane.processes import Crew, free_ports

Object = dict[str, Any]
SCHEDULER = "probe"
TIMEOUT_SECONDS = 20
NOT_YET = "waiting for ephemeral volume controller"
"""Message about a pod whose own claim is not created yet; the scheduler tries again at once."""


class ProbeResult(NamedTuple):
    """The feasible nodes of a pod, and the message of the scheduler, if it was requested."""

    nodes: frozenset[str]
    message: str


class SchedulerProbe:
    """Asks the scheduler for the feasible nodes of one pod after another."""

    def __init__(self, api: Api, extender: Extender) -> None:
        self._api, self._extender = api, extender

    def ask(self, pod: Object, *, with_message: bool = False) -> ProbeResult:
        """The feasible nodes for a replacement of the pod, with the message if requested."""
        probe = probe_of(pod, SCHEDULER)
        path = path_of(probe)
        made = self._api.post(path.rpartition("/")[0], probe).granted()
        try:
            return self._answer(path, made["metadata"]["uid"], with_message)
        finally:
            self._api.delete(path, grace_seconds=0)

    def _answer(self, path: str, uid: str, with_message: bool) -> ProbeResult:
        for _ in poll(TIMEOUT_SECONDS, pause=0):
            nodes = self._extender.nodes_for(uid, within=0.02)
            if nodes is not None and not with_message:
                return ProbeResult(nodes, "")
            status = self._api.get(path).granted()["status"]
            for condition in status.get("conditions") or ():
                message = f"{condition.get('reason')}: {condition.get('message')}"
                if condition["type"] == "PodScheduled" and NOT_YET not in message:
                    # The extender was called before the status was written.
                    return ProbeResult(
                        self._extender.nodes_for(uid, within=0) or frozenset(), message
                    )
        raise AssertionError(f"no answer of the scheduler about {path}")


class Extender(ThreadingHTTPServer):
    """The server that the scheduler calls as its extender."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._calls: dict[str, frozenset[str]] = {}
        self._called = Condition()

    def record(self, uid: str, nodes: list[str]) -> None:
        """Records the first call for a pod: later ones are about another state of the cluster."""
        with self._called:
            self._calls.setdefault(uid, frozenset(nodes))
            self._called.notify_all()

    def nodes_for(self, uid: str, within: float) -> frozenset[str] | None:
        """The nodes of the call for a pod, if it comes within so many seconds."""
        with self._called:
            self._called.wait_for(lambda: uid in self._calls, within)
            return self._calls.get(uid)


class _Handler(BaseHTTPRequestHandler):
    server: Extender
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        nodes = call["NodeNames"] or []
        self.server.record(call["Pod"]["metadata"]["uid"], nodes)
        answer = {"NodeNames": [], "FailedNodes": dict.fromkeys(nodes, "only a probe")}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the log of the scheduler has more."""


@contextmanager
def scheduler_probe(access: Access, api: Api, folder: Path) -> Iterator[SchedulerProbe]:
    """Runs the scheduler beside that of the cluster while the block lasts; yields its probe."""
    with Extender() as extender, Crew(access.logs) as crew:
        Thread(target=extender.serve_forever, daemon=True).start()
        config = folder / "scheduler.json"
        config.write_text(json.dumps(_configuration(access, extender.server_port)))
        (port,) = free_ports(1)
        start_scheduler(access, built(), crew, "kube-scheduler-probe", port, config)
        try:
            yield SchedulerProbe(api, extender)
        finally:
            extender.shutdown()


def _configuration(access: Access, port: int) -> Object:
    kubeconfig_file = access.papers.kubeconfig("system:kube-scheduler")
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig_file), "qps": 1000, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [
            {
                "schedulerName": SCHEDULER,
                # No preemption for the pods of the probe.
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
