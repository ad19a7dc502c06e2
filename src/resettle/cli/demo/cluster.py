"""The cluster of the demo, and cycles on it: list, plan, evict, and see where the pods went.

It is the test API server on loopback with its controllers. Its clock is set by the demo, so hours
pass in a second; evictions are HTTP requests like those of any other client.
"""

from __future__ import annotations

import http.client
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, structs

from resettle.dumps.collection import list_cluster
from resettle.eviction.eviction_api import eviction_of
from resettle.framework.descheduler import Descheduler
from resettle.framework.mover import Options
from resettle.framework.plan import Move, Plan
from resettle.framework.plugin import Plugin
from resettle.kube.auth.access import Access
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.model.pod import Pod
from resettle.model.semantics import IMPROVED
from resettle.model.snapshot import Snapshot
from resettle.simulate.measures import node_loads, violations
from resettle.simulate.ping_pong import MoveHistory, PingPong
from resettle.simulate.scheduler import Placement, pods_to_schedule
from resettle.simulate.simulation import SimulatedCycle, SimulatedMove
from resettle.testing.api_server import ApiServer, ManualClock, Store
from resettle.testing.builders import Object
from resettle.testing.controllers import ControllerLoop


class DemoCluster:
    """An API server and controllers that run inside a `with` block, reached by a kubeconfig."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self.clock = ManualClock()
        self._server = ApiServer(objects, clock=self.clock)
        self.controllers = ControllerLoop(self.store, self.clock)
        # Let every pod grow older than `minPodAge`.
        self.controllers.pass_time(timedelta(hours=1))
        self.access: Access

    @property
    def store(self) -> Store:
        """The objects of the cluster."""
        return self._server.store

    def __enter__(self) -> DemoCluster:
        self._server.__enter__()
        with tempfile.TemporaryDirectory() as folder:
            file = self._server.kubeconfig(Path(folder) / "config")
            self.access = read_kubeconfig(str(file))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.__exit__(kind, error, trace)
        self.controllers.close()


TOO_MANY_REQUESTS = 429


class RequestResult(Struct, frozen=True):
    """The API server's answer to one request."""

    code: int
    message: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the request was granted."""
        return self.code < 300


def evict(access: Access, move: Move) -> RequestResult:
    """Sends an eviction with the body that `resettle run` sends."""
    options = Options(initiator=move.plugin, profile=move.profile, reason=move.reason)
    body = eviction_of(move.pod, options)
    return _send(access, "POST", f"{_path(move.pod)}/eviction", body)


def delete(access: Access, pod: Pod) -> RequestResult:
    """Deletes a pod directly, which ignores disruption budgets."""
    return _send(access, "DELETE", _path(pod), b"{}")


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _send(access: Access, method: str, path: str, body: bytes) -> RequestResult:
    address = urlsplit(access.server)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        status = json.loads(response.read())
    finally:
        connection.close()
    causes = (status.get("details") or {}).get("causes") or ()
    messages = (cause["message"] for cause in causes if cause.get("message"))
    message = next(messages, status.get("message", ""))
    return RequestResult(response.status, message)


INTERVAL = timedelta(minutes=5)
_UNTIL_RESCHEDULED = timedelta(minutes=1)


class ExecutedCycle(Struct, frozen=True):
    """A cycle, the API server's answer to each move, and the pod deleted by hand, if any."""

    cycle: SimulatedCycle
    results: tuple[tuple[Move, RequestResult], ...]
    deleted_by_hand: Pod | None = None


class CycleRunner:
    """Runs a policy on the demo cluster, cycle by cycle."""

    def __init__(
        self, cluster: DemoCluster, planner: Descheduler, plugins: Mapping[str, Plugin]
    ) -> None:
        self._cluster = cluster
        self._planner = planner
        self._kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
        # Predicting where pods go reads what the scheduler reads, whatever the policy.
        self._reads = structs.replace(planner, semantics=IMPROVED).reads
        self._history: Mapping[tuple[str, str], Any] = {}
        self._move_history = MoveHistory()
        self._first_names: dict[str, str] = {}
        self._number = 0

    def take_snapshot(self) -> Snapshot:
        """The cluster as the API server lists it now."""
        collection = list_cluster(self._cluster.access, self._reads, self._kinds)
        return collection.snapshot(self._cluster.clock(), self._history)

    def forget_earlier_moves(self) -> None:
        """After an external event, moving a pod again is not ping-pong."""
        self._move_history.clear()

    def run_cycle(
        self, *, deletes_a_pod: bool = False, externally_changed: bool = False
    ) -> ExecutedCycle:
        """Plans, evicts, and lets an interval pass."""
        self._number += 1
        before = self.take_snapshot()
        plan = self._planner.draw_plan(before)
        self._history = plan.history
        deleted = self._delete_by_hand(plan, before) if deletes_a_pod else None
        results = tuple((move, self._evict(move)) for move in plan.moves)
        self._cluster.controllers.pass_time(_UNTIL_RESCHEDULED)
        after = self.take_snapshot()
        evicted = [move for move, result in results if result.succeeded]
        replaced_by = replacements(evicted, before, after)
        moves = tuple(_simulated_move(move, replaced_by.get(move.pod.uid)) for move in evicted)
        came_back = tuple(self._ping_pong(moves, replaced_by))
        cycle = SimulatedCycle(
            number=self._number,
            at=before.taken_at,
            plan=plan,
            moves=moves,
            newly_scheduled=tuple(_newly_scheduled(before, after)),
            waiting=len(pods_to_schedule(after)),
            before=node_loads(before),
            after=node_loads(after),
            violations=violations(after),
            ping_pong=came_back,
            externally_changed=externally_changed,
        )
        self._cluster.controllers.pass_time(INTERVAL - _UNTIL_RESCHEDULED)
        return ExecutedCycle(cycle, results, deleted)

    def _evict(self, move: Move) -> RequestResult:
        """Sends an eviction, and lets the controllers act on it before the next one."""
        result = evict(self._cluster.access, move)
        self._cluster.controllers.settle()
        return result

    def _delete_by_hand(self, plan: Plan, snapshot: Snapshot) -> Pod | None:
        """Deletes a pod whose budget allows one disruption, which a planned move needs as well."""
        going = {move.pod.uid for move in plan.moves}
        for move in plan.moves:
            tight = any(budget.disruptions_allowed == 1 for budget in snapshot.budgets_of(move.pod))
            for pod in snapshot.pods if tight else ():
                if _owner_uids(pod) == _owner_uids(move.pod) and pod.uid not in going:
                    delete(self._cluster.access, pod)
                    self._cluster.controllers.settle()
                    return pod
        return None

    def _ping_pong(
        self, moves: Iterable[SimulatedMove], replaced_by: Mapping[str, Pod]
    ) -> Iterator[PingPong]:
        """Moves of pods whose predecessors were moved before, under the first one's name."""
        for move in moves:
            pod = move.pod
            first = structs.replace(pod, name=self._first_names.get(pod.uid, pod.name))
            if replacement := replaced_by.get(pod.uid):
                self._first_names[replacement.uid] = first.name
            again = self._move_history.record_move(first, move.node, move.plugin, self._number)
            if again is not None:
                yield again


def _owner_uids(pod: Pod) -> list[str]:
    return [owner.uid for owner in pod.owners]


def replacements(evicted: Iterable[Move], before: Snapshot, after: Snapshot) -> dict[str, Pod]:
    """The replacement of each evicted pod, by its uid: a new pod of the same owner.

    Of several equal ones, a move gets the one on the node that the plan predicted, if there is one.
    """
    known = {pod.uid for pod in before.pods}
    new = [pod for pod in after.pods if pod.uid not in known]
    moves = list(evicted)
    by_uid: dict[str, Pod] = {}
    for as_predicted in (True, False):
        for move in moves:
            alike = (
                pod
                for pod in new
                if _owner_uids(pod) == _owner_uids(move.pod)
                and (not as_predicted or pod.node == move.lands_on)
            )
            replacement = None if move.pod.uid in by_uid else next(alike, None)
            if replacement is not None:
                by_uid[move.pod.uid] = replacement
                new.remove(replacement)
    return by_uid


def _simulated_move(move: Move, replacement: Pod | None) -> SimulatedMove:
    node = "" if replacement is None else replacement.node or None
    return SimulatedMove(move.pod, move.plugin, move.profile, move.reason, node)


def _newly_scheduled(before: Snapshot, after: Snapshot) -> Iterator[Placement]:
    """Pods that were waiting before and have a node now."""
    for pod in pods_to_schedule(before):
        later = after.pod(pod.namespace, pod.name)
        if later is not None and later.uid == pod.uid and later.node:
            yield Placement(later, later.node)
