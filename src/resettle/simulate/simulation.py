"""Simulates cycles of one policy on one cluster, with a stand-in for scheduler and controllers.

    snapshot ──► soft taints ──► plan ──► moves ──► scheduler ──► the next snapshot, later
        ▲                                                              │
        └─────────────── external events of a scenario ◄───────────────┘

A replacement keeps the name of the pod it replaces, so that a pod can be followed from node to
node. A pod that moves again within ten cycles, with no external event in between, is reported as
ping-pong. The status of disruption budgets follows the pods, as the disruption controller would
write it: a covered pod without a node is one healthy pod less.
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
from resettle.model.workloads import Eviction, eviction_of, recent_evictions
from resettle.simulate.load_model import NO_DEMAND, CpuDemand, UsageModel
from resettle.simulate.measures import Load, node_loads, violations
from resettle.simulate.ping_pong import MoveHistory, PingPong
from resettle.simulate.scheduler import (
    Placement,
    is_replaced,
    is_tied_to_node,
    place_pods,
    pods_to_schedule,
    replacement_of,
)


def budget_changes(
    snapshot: Snapshot, departed: Iterable[Pod], arrived: Iterable[Pod]
) -> Change[Budget]:
    """The budgets whose number of healthy pods changes with these pods."""
    gained: dict[str, int] = {}
    for pods, each in ((departed, -1), (arrived, 1)):
        for pod in pods:
            if pod.state.ready and not pod.terminating:
                for budget in snapshot.budgets_of(pod):
                    gained[budget.key] = gained.get(budget.key, 0) + each
    changed = tuple(
        _with_healthy(snapshot.budgets[key], more) for key, more in gained.items() if more
    )
    return Change(changed) if changed else NOTHING


def _with_healthy(budget: Budget, more: int) -> Budget:
    """The budget with so many more healthy pods, or fewer."""
    healthy = max(budget.current_healthy + more, 0)
    # With desiredHealthy known, a budget that falls short is modelled exactly.
    allowed = (
        healthy - budget.desired_healthy
        if budget.desired_healthy
        else (budget.disruptions_allowed + more)
    )
    return structs.replace(budget, current_healthy=healthy, disruptions_allowed=max(allowed, 0))


class Tainter(Protocol):
    """Taints nodes that are too full, before each cycle."""

    def tainted_nodes(self, snapshot: Snapshot) -> Iterable[Node]:
        """The nodes that it would write, with their new taints."""

    def own_taints(self, node: Node) -> tuple[Taint, ...]:
        """The taints of a node that this tainter manages."""


class SimulatedMove(Struct, frozen=True):
    """A move and where its replacement went."""

    pod: Pod
    plugin: str
    profile: str
    reason: str
    node: str | None
    """Where the replacement runs now; None while it waits; empty if none was needed."""

    @property
    def returned(self) -> bool:
        """Whether the replacement is on the same node: an eviction without effect."""
        return self.node == self.pod.node


class SimulatedCycle(Struct, frozen=True, kw_only=True):
    """One cycle: the plan, where the pods went, and the state after it."""

    number: int
    at: datetime
    plan: Plan
    moves: tuple[SimulatedMove, ...]
    newly_scheduled: tuple[Placement, ...]
    """Pods that were pending and have a node now."""
    waiting: int
    """How many pods are still pending."""
    before: Mapping[str, Load]
    after: Mapping[str, Load]
    """How full the nodes were before anything happened, and how full they are now."""
    violations: Mapping[str, int]
    ping_pong: tuple[PingPong, ...]
    externally_changed: bool
    """Whether there was an external event before this cycle."""
    tainted: Mapping[str, tuple[Taint, ...]] = {}
    """The nodes that were softly tainted in it, and with what."""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing moved and there was no external event."""
        return not self.plan.moves and not self.externally_changed and not self.newly_scheduled


class Simulation:
    """A cluster under one policy; each call of `run_cycle` is one interval."""

    def __init__(
        self,
        planner: Descheduler,
        snapshot: Snapshot,
        interval: timedelta,
        *,
        demand: CpuDemand = NO_DEMAND,
        tainter: Tainter | None = None,
    ) -> None:
        self._planner = planner
        self._interval = interval
        self._tainter = tainter
        self._history = MoveHistory()
        self._number = 0
        self._usage_model = UsageModel(snapshot, demand)
        at = snapshot.taken_at
        answers = {query: demand.readings_for(query, snapshot, at) for query in demand.queries}
        self.snapshot = snapshot.with_usage({**snapshot.usage, **answers})

    def run_cycle(self, external_changes: Changes | None = None) -> SimulatedCycle:
        """Run one cycle, after these external changes."""
        self._number += 1
        before = self.loads
        newly_scheduled: tuple[Placement, ...] = ()
        if external_changes is not None:
            self._history.clear()
            self.snapshot = self.snapshot.next(external_changes)
            newly_scheduled = self._schedule_waiting(frozenset())
        self._apply_taints()
        snapshot = self.snapshot
        plan = self._planner.draw_plan(snapshot)
        moves = self._execute(plan)
        self._finish_terminating()
        newly_scheduled += self._schedule_waiting({move.pod.key for move in moves})
        later = snapshot.taken_at + self._interval
        self.snapshot = replace(
            self.snapshot,
            taken_at=later,
            history=plan.history,
            moving=frozenset(),
            usage=self._usage_model.measurements(self.snapshot, later),
            evictions=self._evictions(plan, later),
        )
        return SimulatedCycle(
            number=self._number,
            at=snapshot.taken_at,
            plan=plan,
            moves=moves,
            newly_scheduled=newly_scheduled,
            waiting=len(pods_to_schedule(self.snapshot)),
            before=before,
            after=self.loads,
            violations=violations(self.snapshot),
            ping_pong=self._record_moves(moves, newly_scheduled),
            externally_changed=external_changes is not None,
            tainted=self._own_taints(),
        )

    def _evictions(self, plan: Plan, later: datetime) -> tuple[Eviction, ...]:
        """The evictions that still count by then for plugins that limit them over time."""
        window = self._planner.eviction_window
        if not window:
            return ()
        at = self.snapshot.taken_at
        made = (eviction_of(move.pod, at) for move in plan.moves)
        return recent_evictions((*self.snapshot.evictions, *made), later, window)

    @property
    def loads(self) -> Mapping[str, Load]:
        """How full the nodes are now."""
        return node_loads(self.snapshot, self._planner.measures)

    def _apply_taints(self) -> None:
        """Let the tainter taint the nodes that are too full now."""
        if self._tainter is None:
            return
        if written := tuple(self._tainter.tainted_nodes(self.snapshot)):
            changes = Changes(at=self.snapshot.taken_at, nodes=Change(written))
            self.snapshot = self.snapshot.next(changes)

    def _own_taints(self) -> dict[str, tuple[Taint, ...]]:
        """The taints of the tainter, by node."""
        if self._tainter is None:
            return {}
        marked = {node.name: self._tainter.own_taints(node) for node in self.snapshot.node_index}
        return {name: taints for name, taints in marked.items() if taints}

    def _execute(self, plan: Plan) -> tuple[SimulatedMove, ...]:
        """Evict the pods of the plan, and place their replacements as the scheduler would."""
        evicted = [move.pod for move in plan.moves]
        placements = place_pods(self.snapshot, filter(is_replaced, evicted))
        places = {placement.pod: placement.node for placement in placements}
        at = self.snapshot.taken_at
        # A DaemonSet creates no pod for a node that the pod does not fit.
        without_node = {
            pod for pod, node in places.items() if is_tied_to_node(pod) and node is None
        }
        made = [
            replacement_of(pod, places[pod], at, self._number)
            for pod in places
            if pod not in without_node
        ]
        self._change(evicted, made)
        return tuple(
            SimulatedMove(
                move.pod,
                move.plugin,
                move.profile,
                move.reason,
                "" if move.pod in without_node else places.get(move.pod, ""),
            )
            for move in plan.moves
        )

    def _finish_terminating(self) -> None:
        """Delete terminating pods; only a StatefulSet waits for that before it replaces them."""
        by_template = self.snapshot.pod_index.templates.values()
        ended = [pod for pods in by_template for pod in pods if pod.terminating]
        at = self.snapshot.taken_at
        made = [
            replacement_of(pod, None, at, self._number)
            for pod in ended
            if is_replaced(pod) and pod.template.owned_by(("StatefulSet",))
        ]
        self._change(ended, made)

    def _schedule_waiting(self, just_evicted: set[str] | frozenset[str]) -> tuple[Placement, ...]:
        """Schedule pods that were pending before this cycle, as far as they fit."""
        waiting = [pod for pod in pods_to_schedule(self.snapshot) if pod.key not in just_evicted]
        placements = place_pods(self.snapshot, waiting)
        bound = [placement for placement in placements if placement.node is not None]
        at = self.snapshot.taken_at
        self._change(
            [placement.pod for placement in bound],
            [
                replacement_of(placement.pod, placement.node, at, self._number)
                for placement in bound
            ],
        )
        return tuple(bound)

    def _change(self, departed: list[Pod], arrived: list[Pod]) -> None:
        """Delete and add these pods, and update the status of budgets."""
        if not departed and not arrived:
            return
        self.snapshot = self.snapshot.next(
            Changes(
                at=self.snapshot.taken_at,
                pods=Change(tuple(arrived), frozenset(pod.key for pod in departed)),
                budgets=budget_changes(self.snapshot, departed, arrived),
            )
        )

    def _record_moves(
        self, moves: Iterable[SimulatedMove], newly_scheduled: Iterable[Placement]
    ) -> tuple[PingPong, ...]:
        for placement in newly_scheduled:
            self._history.record_arrival(placement.pod, placement.node or "")
        repeats = (
            self._history.record_move(move.pod, move.node, move.plugin, self._number)
            for move in moves
            if move.node != ""
        )
        return tuple(repeat for repeat in repeats if repeat is not None)
