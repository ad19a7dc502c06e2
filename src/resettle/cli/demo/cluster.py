"""Where the story plays: a pocket API server on loopback, its life, and a clock wound by hand.

Evictions and deletions, as any client of the API sends them.

One cycle over the pocket cluster: look, plan, evict, and see where the pods went.
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
from resettle.simulate.measures import loads, troubles
from resettle.simulate.ping_pong import PingPong, Trails
from resettle.simulate.scheduler import Placed, waiting_in
from resettle.simulate.simulation import Cycle, Landing
from resettle.testing.api_server import HandClock, PocketServer, Store
from resettle.testing.builders import Object
from resettle.testing.controllers import Life


class Stage:
    """A cluster that lives while the block lasts; the way in is a kubeconfig, as ever."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self.clock = HandClock()
        self._pocket = PocketServer(objects, clock=self.clock)
        self.life = Life(self.store, self.clock)
        # Old enough for every pod to have come of age.
        self.life.pass_time(timedelta(hours=1))
        self.access: Access

    @property
    def store(self) -> Store:
        """What the cluster holds."""
        return self._pocket.store

    def __enter__(self) -> Stage:
        self._pocket.__enter__()
        with tempfile.TemporaryDirectory() as folder:
            file = self._pocket.kubeconfig(Path(folder) / "config")
            self.access = read_kubeconfig(str(file))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pocket.__exit__(kind, error, trace)
        self.life.close()


TOO_MANY = 429


class Answer(Struct, frozen=True):
    """What the API server said of one request."""

    code: int
    says: str = ""

    @property
    def granted(self) -> bool:
        """Whether it was done."""
        return self.code < 300


def evict(access: Access, move: Move) -> Answer:
    """Asks for an eviction, in the words of a run."""
    options = Options(initiator=move.plugin, profile=move.profile, reason=move.reason)
    body = eviction_of(move.pod, options)
    return _sent(access, "POST", f"{_path(move.pod)}/eviction", body)


def delete(access: Access, pod: Pod) -> Answer:
    """Deletes a pod, whatever its budget says."""
    return _sent(access, "DELETE", _path(pod), b"{}")


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _sent(access: Access, method: str, path: str, body: bytes) -> Answer:
    address = urlsplit(access.server)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        told = json.loads(response.read())
    finally:
        connection.close()
    causes = (told.get("details") or {}).get("causes") or ()
    says = next((it["message"] for it in causes if it.get("message")), told.get("message", ""))
    return Answer(response.status, says)


INTERVAL = timedelta(minutes=5)
_A_WHILE = timedelta(minutes=1)


class Carried(Struct, frozen=True):
    """A cycle, what the API server answered to each move, and who meddled."""

    cycle: Cycle
    answers: tuple[tuple[Move, Answer], ...]
    meddled_with: Pod | None = None


class Player:
    """Runs a policy against the stage, cycle by cycle."""

    def __init__(self, stage: Stage, planner: Descheduler, plugins: Mapping[str, Plugin]) -> None:
        self._stage = stage
        self._planner = planner
        self._kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
        # Where pods could go is asked of every policy, as the scheduler would ask.
        self._reads = structs.replace(planner, semantics=IMPROVED).reads
        self._history: Mapping[tuple[str, str], Any] = {}
        self._trails = Trails()
        self._ancestors: dict[str, str] = {}
        self._number = 0

    def look(self) -> Snapshot:
        """The cluster as the API server lists it now."""
        found = list_cluster(self._stage.access, self._reads, self._kinds)
        return found.snapshot(self._stage.clock(), self._history)

    def disturbed(self) -> None:
        """Something has happened: what moved before had its reason."""
        self._trails.forget()

    def cycle(self, *, meddled: bool = False, disturbed: bool = False) -> Carried:
        """Plans, evicts, and waits an interval."""
        self._number += 1
        before = self.look()
        plan = self._planner.draw_plan(before)
        self._history = plan.history
        victim = self._meddle(plan, before) if meddled else None
        answers = tuple((move, self._evicted(move)) for move in plan.moves)
        self._stage.life.pass_time(_A_WHILE)
        after = self.look()
        evicted = [move for move, answer in answers if answer.granted]
        followed_by = heirs(evicted, before, after)
        landings = tuple(_landing(move, followed_by.get(move.pod.uid)) for move in evicted)
        came_back = tuple(self._followed(landings, followed_by))
        cycle = Cycle(
            number=self._number,
            at=before.taken_at,
            plan=plan,
            landings=landings,
            came_in=tuple(_came_in(before, after)),
            waiting=len(waiting_in(after)),
            before=loads(before),
            after=loads(after),
            troubles=troubles(after),
            ping_pong=came_back,
            disturbed=disturbed,
        )
        self._stage.life.pass_time(INTERVAL - _A_WHILE)
        return Carried(cycle, answers, victim)

    def _evicted(self, move: Move) -> Answer:
        """The answer to an eviction; the cluster acts on it before the next one is sent."""
        answer = evict(self._stage.access, move)
        self._stage.life.settle()
        return answer

    def _meddle(self, plan: Plan, snapshot: Snapshot) -> Pod | None:
        """Has somebody delete a pod that shares a budget, with nothing to spare, with a move."""
        going = {move.pod.uid for move in plan.moves}
        for move in plan.moves:
            tight = any(it.disruptions_allowed == 1 for it in snapshot.budgets_of(move.pod))
            for pod in snapshot.pods if tight else ():
                if pod.owners == move.pod.owners and pod.uid not in going:
                    delete(self._stage.access, pod)
                    self._stage.life.settle()
                    return pod
        return None

    def _followed(
        self, landings: Iterable[Landing], followed_by: Mapping[str, Pod]
    ) -> Iterator[PingPong]:
        """Moves of pods whose predecessors had moved before, told by the first one's name."""
        for landing in landings:
            pod = landing.pod
            first = structs.replace(pod, name=self._ancestors.get(pod.uid, pod.name))
            if heir := followed_by.get(pod.uid):
                self._ancestors[heir.uid] = first.name
            again = self._trails.moved(first, landing.node, landing.plugin, self._number)
            if again is not None:
                yield again


def heirs(evicted: Iterable[Move], before: Snapshot, after: Snapshot) -> dict[str, Pod]:
    """The replacement of each evicted pod, by its uid: one that is new, and of the same owner.

    Of several that are alike each goes to the move that was foretold to land there, if any was.
    """
    known = {pod.uid for pod in before.pods}
    new = [pod for pod in after.pods if pod.uid not in known]
    moves = list(evicted)
    found: dict[str, Pod] = {}
    for as_foretold in (True, False):
        for move in moves:
            alike = (
                pod
                for pod in new
                if pod.owners == move.pod.owners and (not as_foretold or pod.node == move.lands_on)
            )
            heir = None if move.pod.uid in found else next(alike, None)
            if heir is not None:
                found[move.pod.uid] = heir
                new.remove(heir)
    return found


def _landing(move: Move, heir: Pod | None) -> Landing:
    node = "" if heir is None else heir.node or None
    return Landing(move.pod, move.plugin, move.profile, move.reason, node)


def _came_in(before: Snapshot, after: Snapshot) -> Iterator[Placed]:
    """Pods that had waited and run now."""
    for pod in waiting_in(before):
        later = after.pod(pod.namespace, pod.name)
        if later is not None and later.uid == pod.uid and later.node:
            yield Placed(later, later.node)
