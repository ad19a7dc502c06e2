"""Cycles of one policy over one cluster, with a stand-in for everything else.

    snapshot ──► plan ──► moves ──► scheduler ──► the next snapshot, one interval later
        ▲                                                  │
        └──────────── outside changes of a scenario ◄──────┘

A replacement carries on the name of the pod it replaces, so that a pod can be followed from node to
node. One that moves again within ten cycles, with no change from outside in between, plays
ping-pong, and its workload is named for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from msgspec import Struct, structs

from resettle.framework.descheduler import Descheduler
from resettle.framework.plan import Plan
from resettle.model.changes import Change, Changes
from resettle.model.pod import Pod, State
from resettle.model.snapshot import Snapshot
from resettle.simulate.scheduler import Placed, placed
from resettle.simulate.troubles import troubles

MEMORY = 10
"""Cycles within which a second move of one pod is ping-pong."""


class Landing(Struct, frozen=True):
    """What became of one move."""

    pod: Pod
    plugin: str
    profile: str
    reason: str
    node: str | None
    """Where the replacement runs now; None while it waits; empty if none was needed."""

    @property
    def returned(self) -> bool:
        """Whether it is back where it was: a move for nothing."""
        return self.node == self.pod.node


class PingPong(Struct, frozen=True):
    """A pod that was moved again before long, although nothing had changed."""

    workload: str
    pod: str
    plugins: tuple[str, str]
    """Who moved it the first time, and who the second."""
    nodes: tuple[str, ...]
    """Where it has been, the last one where it is now."""
    cycles: tuple[int, int]


class Cycle(Struct, frozen=True, kw_only=True):
    """One cycle: what was planned, what became of it, and how things are now."""

    number: int
    before: Snapshot
    plan: Plan
    landings: tuple[Landing, ...]
    came_in: tuple[Placed, ...]
    """Pods that had waited, and have a node or wait on."""
    after: Snapshot
    troubles: Mapping[str, int]
    ping_pong: tuple[PingPong, ...]
    disturbed: bool
    """Whether something was changed from outside before this cycle."""

    @property
    def quiet(self) -> bool:
        """Whether nothing moved and nothing came from outside."""
        return not self.plan.moves and not self.disturbed and not self.came_in


class _Trail(Struct):
    """Where a pod has been."""

    nodes: list[str]
    moved_in: int
    plugin: str


class Simulation:
    """A cluster under one policy; each call of `cycle` is one interval."""

    def __init__(self, planner: Descheduler, snapshot: Snapshot, interval: timedelta) -> None:
        self._planner = planner
        self._interval = interval
        self._trails: dict[str, _Trail] = {}
        self._number = 0
        self.snapshot = snapshot

    def cycle(self, disturbance: Changes | None = None) -> Cycle:
        """Runs one cycle, after whatever changes from outside."""
        self._number += 1
        if disturbance is not None:
            self._trails.clear()
            self.snapshot = self.snapshot.next(disturbance)
        before = self.snapshot
        plan = self._planner.draw_plan(before)
        landings = self._carry_out(plan)
        came_in = self._schedule_waiting({landing.pod.key for landing in landings})
        cycle = Cycle(
            number=self._number,
            before=before,
            plan=plan,
            landings=landings,
            came_in=came_in,
            after=self.snapshot,
            troubles=troubles(self.snapshot),
            ping_pong=tuple(self._follow(landings)),
            disturbed=disturbance is not None,
        )
        self.snapshot = replace(
            self.snapshot, taken_at=before.taken_at + self._interval, history=plan.history
        )
        return cycle

    def _carry_out(self, plan: Plan) -> tuple[Landing, ...]:
        """Evicts what the plan says, and puts the replacements where the scheduler would."""
        before, at = self.snapshot, self.snapshot.taken_at
        replaced = [move.pod for move in plan.moves if not move.pod.finished and move.pod.owners]
        places = {it.pod: it.node for it in placed(before, replaced)}
        self.snapshot = before.next(
            Changes(
                at=at,
                pods=Change(
                    tuple(reborn(pod, places[pod], at, self._number) for pod in replaced),
                    frozenset(move.pod.key for move in plan.moves),
                ),
            )
        )
        return tuple(
            Landing(move.pod, move.plugin, move.profile, move.reason, places.get(move.pod, ""))
            for move in plan.moves
        )

    def _schedule_waiting(self, just_evicted: set[str]) -> tuple[Placed, ...]:
        """Gives nodes to pods that had none before this cycle, as far as there are any."""
        waiting = [
            pod
            for pod in self.snapshot.population.on("")
            if not pod.finished and not pod.terminating and pod.key not in just_evicted
        ]
        found = [it for it in placed(self.snapshot, waiting) if it.node is not None]
        at = self.snapshot.taken_at
        arrived = tuple(reborn(it.pod, it.node, at, self._number) for it in found)
        self.snapshot = self.snapshot.next(Changes(at=at, pods=Change(arrived)))
        return tuple(found)

    def _follow(self, landings: tuple[Landing, ...]) -> list[PingPong]:
        again = []
        for landing in landings:
            pod, node = landing.pod, landing.node
            if not node:
                continue
            trail = self._trails.get(pod.key)
            if trail is None or self._number - trail.moved_in > MEMORY:
                trail = _Trail([pod.node], self._number, landing.plugin)
            else:
                again.append(
                    PingPong(
                        workload=workload(pod),
                        pod=pod.key,
                        plugins=(trail.plugin, landing.plugin),
                        nodes=(*trail.nodes, node),
                        cycles=(trail.moved_in, self._number),
                    )
                )
            trail.nodes.append(node)
            trail.moved_in, trail.plugin = self._number, landing.plugin
            self._trails[pod.key] = trail
        return again


def reborn(pod: Pod, node: str | None, at: datetime, cycle: int) -> Pod:
    """The replacement of a pod, running on a node, or waiting for one."""
    return structs.replace(
        pod,
        uid=f"{pod.uid.split('~')[0]}~{cycle}",
        node=node or "",
        created=at,
        started=at if node else None,
        state=State(phase="Running" if node else "Pending", qos=pod.qos, ready=node is not None),
        own_claims=(),
        since=b"",
    )


def workload(pod: Pod) -> str:
    """Whose pod it is, as people would say."""
    owner = next(iter(pod.owners), None)
    return f"{owner.kind} {pod.namespace}/{owner.name}" if owner else f"pod {pod.key}"
