"""Disruption budgets from cycle to cycle: what they allow follows how many of their pods run.

The disruption controller would write the new status. Here the difference is reckoned: a covered pod
that finds no node is one healthy pod less, one that comes in at last is one more.

Cycles of one policy over one cluster, with a stand-in for everything else.

    snapshot ──► soft taints ──► plan ──► moves ──► scheduler ──► the next snapshot, later
        ▲                                                              │
        └──────────────── outside changes of a scenario ◄──────────────┘

A replacement carries on the name of the pod it replaces, so that a pod can be followed from node to
node. One that moves again within ten cycles, with no change from outside in between, plays
ping-pong, and its workload is named for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct, structs

from resettle.framework.descheduler import Descheduler
from resettle.framework.plan import Plan
from resettle.model.changes import NOTHING, Change, Changes
from resettle.model.constraints import Taint
from resettle.model.objects import Budget, Node
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.simulate.load_model import NONE_KNOWN, Use, Wants
from resettle.simulate.measures import Load, loads, troubles
from resettle.simulate.ping_pong import PingPong, Trails
from resettle.simulate.scheduler import Placed, placed, reborn, replaced, tied_to_node, waiting_in


def reckoned(snapshot: Snapshot, departed: Iterable[Pod], arrived: Iterable[Pod]) -> Change[Budget]:
    """The budgets whose count of healthy pods differs once these pods have gone and come."""
    gained: dict[str, int] = {}
    for pods, each in ((departed, -1), (arrived, 1)):
        for pod in pods:
            if pod.state.ready and not pod.terminating:
                for budget in snapshot.budgets_of(pod):
                    gained[budget.key] = gained.get(budget.key, 0) + each
    changed = tuple(_with(snapshot.budgets[key], more) for key, more in gained.items() if more)
    return Change(changed) if changed else NOTHING


def _with(budget: Budget, more: int) -> Budget:
    """The budget with so many more healthy pods, or fewer."""
    healthy = max(budget.current_healthy + more, 0)
    # A budget that tells what it desires tells by how much it falls short as well.
    allowed = (
        healthy - budget.desired_healthy
        if budget.desired_healthy
        else (budget.disruptions_allowed + more)
    )
    return structs.replace(budget, current_healthy=healthy, disruptions_allowed=max(allowed, 0))


class Tainter(Protocol):
    """Whoever marks nodes that are too full, before each cycle."""

    def written(self, snapshot: Snapshot) -> Iterable[Node]:
        """The nodes that it would write, as they would be then."""

    def marks(self, node: Node) -> tuple[Taint, ...]:
        """The taints of a node that are its own."""


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


class Cycle(Struct, frozen=True, kw_only=True):
    """One cycle: what was planned, what became of it, and how things are now."""

    number: int
    at: datetime
    plan: Plan
    landings: tuple[Landing, ...]
    came_in: tuple[Placed, ...]
    """Pods that had waited, and have a node now."""
    waiting: int
    """Pods that still have none."""
    before: Mapping[str, Load]
    after: Mapping[str, Load]
    """How full the nodes were before anything happened, and how full they are now."""
    troubles: Mapping[str, int]
    ping_pong: tuple[PingPong, ...]
    disturbed: bool
    """Whether something was changed from outside before this cycle."""
    tainted: Mapping[str, tuple[Taint, ...]] = {}
    """The nodes that were softly tainted in it, and with what."""

    @property
    def quiet(self) -> bool:
        """Whether nothing moved and nothing came from outside."""
        return not self.plan.moves and not self.disturbed and not self.came_in


class Simulation:
    """A cluster under one policy; each call of `cycle` is one interval."""

    def __init__(
        self,
        planner: Descheduler,
        snapshot: Snapshot,
        interval: timedelta,
        *,
        wants: Wants = NONE_KNOWN,
        tainter: Tainter | None = None,
    ) -> None:
        self._planner = planner
        self._interval = interval
        self._tainter = tainter
        self._trails = Trails()
        self._number = 0
        self._use = Use(snapshot, wants)
        told = {it: wants.told(it, snapshot, snapshot.taken_at) for it in wants.queries}
        self.snapshot = snapshot.measured({**snapshot.usage, **told})

    def cycle(self, disturbance: Changes | None = None) -> Cycle:
        """Runs one cycle, after whatever changes from outside."""
        self._number += 1
        before = self.loads
        came_in: tuple[Placed, ...] = ()
        if disturbance is not None:
            self._trails.forget()
            self.snapshot = self.snapshot.next(disturbance)
            came_in = self._schedule_waiting(frozenset())
        self._taint()
        snapshot = self.snapshot
        plan = self._planner.draw_plan(snapshot)
        landings = self._carry_out(plan)
        self._let_go()
        came_in += self._schedule_waiting({landing.pod.key for landing in landings})
        later = snapshot.taken_at + self._interval
        self.snapshot = replace(
            self.snapshot,
            taken_at=later,
            history=plan.history,
            moving=frozenset(),
            usage=self._use.measured(self.snapshot, later),
        )
        return Cycle(
            number=self._number,
            at=snapshot.taken_at,
            plan=plan,
            landings=landings,
            came_in=came_in,
            waiting=len(waiting_in(self.snapshot)),
            before=before,
            after=self.loads,
            troubles=troubles(self.snapshot),
            ping_pong=self._followed(landings, came_in),
            disturbed=disturbance is not None,
            tainted=self._tainted(),
        )

    @property
    def loads(self) -> Mapping[str, Load]:
        """How full the nodes are now."""
        return loads(self.snapshot, self._planner.measures)

    def _taint(self) -> None:
        """Lets the tainter mark what is too full by now."""
        if self._tainter is None:
            return
        if written := tuple(self._tainter.written(self.snapshot)):
            changes = Changes(at=self.snapshot.taken_at, nodes=Change(written))
            self.snapshot = self.snapshot.next(changes)

    def _tainted(self) -> dict[str, tuple[Taint, ...]]:
        """The nodes that are marked, and with what."""
        if self._tainter is None:
            return {}
        marked = {node.name: self._tainter.marks(node) for node in self.snapshot.fleet}
        return {name: taints for name, taints in marked.items() if taints}

    def _carry_out(self, plan: Plan) -> tuple[Landing, ...]:
        """Evicts what the plan says, and puts the replacements where the scheduler would."""
        evicted = [move.pod for move in plan.moves]
        places = {it.pod: it.node for it in placed(self.snapshot, filter(replaced, evicted))}
        at = self.snapshot.taken_at
        # A DaemonSet makes no pod for a node that does not take one.
        homeless = {pod for pod, node in places.items() if tied_to_node(pod) and node is None}
        made = [reborn(pod, places[pod], at, self._number) for pod in places if pod not in homeless]
        self._change(evicted, made)
        return tuple(
            Landing(
                move.pod,
                move.plugin,
                move.profile,
                move.reason,
                "" if move.pod in homeless else places.get(move.pod, ""),
            )
            for move in plan.moves
        )

    def _let_go(self) -> None:
        """Lets pods end that were terminating; only a StatefulSet had waited for that."""
        everyone = self.snapshot.population.templates.values()
        ended = [pod for pods in everyone for pod in pods if pod.terminating]
        at = self.snapshot.taken_at
        made = [
            reborn(pod, None, at, self._number)
            for pod in ended
            if replaced(pod) and pod.template.owned_by(("StatefulSet",))
        ]
        self._change(ended, made)

    def _schedule_waiting(self, just_evicted: set[str] | frozenset[str]) -> tuple[Placed, ...]:
        """Gives nodes to pods that had none before this cycle, as far as there are any."""
        waiting = [pod for pod in waiting_in(self.snapshot) if pod.key not in just_evicted]
        found = [it for it in placed(self.snapshot, waiting) if it.node is not None]
        at = self.snapshot.taken_at
        self._change(
            [it.pod for it in found], [reborn(it.pod, it.node, at, self._number) for it in found]
        )
        return tuple(found)

    def _change(self, departed: list[Pod], arrived: list[Pod]) -> None:
        """Some pods are gone and others have come, and budgets know of it."""
        if not departed and not arrived:
            return
        self.snapshot = self.snapshot.next(
            Changes(
                at=self.snapshot.taken_at,
                pods=Change(tuple(arrived), frozenset(pod.key for pod in departed)),
                budgets=reckoned(self.snapshot, departed, arrived),
            )
        )

    def _followed(
        self, landings: Iterable[Landing], came_in: Iterable[Placed]
    ) -> tuple[PingPong, ...]:
        for it in came_in:
            self._trails.arrived(it.pod, it.node or "")
        moved = (
            self._trails.moved(it.pod, it.node, it.plugin, self._number)
            for it in landings
            if it.node != ""
        )
        return tuple(it for it in moved if it is not None)
