"""Runs a whole simulation, and keeps its result: all cycles, and sentences that sum them up.

A cluster has settled only after ten minutes without a move: pods younger than `minPodAge` may not
move, so a shorter pause proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from resettle.framework.descheduler import Descheduler
from resettle.model.changes import Changes
from resettle.model.snapshot import Snapshot
from resettle.simulate.events import Event, changes_from, merge_changes
from resettle.simulate.load_model import NO_DEMAND, CpuDemand
from resettle.simulate.measures import Load, violations
from resettle.simulate.ping_pong import PingPongSummary, summarize_ping_pong
from resettle.simulate.scheduler import WaitingPod, explain_waiting, workload
from resettle.simulate.simulation import SimulatedCycle, SimulatedMove, Simulation, Tainter
from resettle.text import format_count
from resettle.times import format_interval

QUIET_CYCLES = 2
"""Cycles in a row without a move after which the cluster has settled."""
QUIET_TIME = timedelta(minutes=10)
"""The least time without a move: the default of `minPodAge`."""


class CycleWithEvents(Struct, frozen=True):
    """A cycle, and the external events before it."""

    cycle: SimulatedCycle
    events: tuple[str, ...] = ()


class SimulationResult(Struct, frozen=True, kw_only=True):
    """All cycles of one policy, with the state at the start and at the end."""

    policy: str
    """The name of the policy."""
    taken_at: datetime
    interval: timedelta
    pods: int
    loads: Mapping[str, Load]
    """How full the nodes were at the start."""
    violations: Mapping[str, int]
    """The violations at the start."""
    cycles_with_events: tuple[CycleWithEvents, ...]
    waiting_pods: tuple[WaitingPod, ...]
    """Pods without a node at the end, and why."""
    stopped_early: bool = False
    tainting: bool = False
    """Whether nodes got soft taints while they were too full."""

    @property
    def cycles(self) -> tuple[SimulatedCycle, ...]:
        return tuple(entry.cycle for entry in self.cycles_with_events)

    @property
    def all_moves(self) -> Iterable[SimulatedMove]:
        """Every move, in order."""
        return (move for cycle in self.cycles for move in cycle.moves)

    @property
    def move_count(self) -> int:
        return sum(len(cycle.moves) for cycle in self.cycles)

    @property
    def returned(self) -> int:
        """How many evictions had no effect: the replacement is on the same node."""
        return sum(move.returned for move in self.all_moves)

    @property
    def settled_after(self) -> int | None:
        """The last cycle in which something moved, 0 for none; None while it is too early."""
        return settled_after(self.cycles)

    @property
    def ping_pong(self) -> tuple[PingPongSummary, ...]:
        return summarize_ping_pong(move for cycle in self.cycles for move in cycle.ping_pong)

    @property
    def evictions_by_workload(self) -> dict[str, int]:
        """How many pods of each workload were moved, the most first."""
        counts: dict[str, int] = {}
        for move in self.all_moves:
            name = workload(move.pod)
            counts[name] = counts.get(name, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def errors(self) -> tuple[str, ...]:
        """The errors of plugins, each once."""
        return tuple(dict.fromkeys(error for cycle in self.cycles for error in cycle.plan.errors))


def run_simulation(
    policy: str,
    planner: Descheduler,
    snapshot: Snapshot,
    *,
    interval: timedelta,
    cycles: int,
    events: Sequence[Event] = (),
    until_settled: bool = False,
    demand: CpuDemand = NO_DEMAND,
    tainter: Tainter | None = None,
) -> SimulationResult:
    """Run this many cycles, or fewer with `until_settled`, and return the result."""
    simulation = Simulation(planner, snapshot, interval, demand=demand, tainter=tainter)
    start = simulation.loads
    done: list[CycleWithEvents] = []
    last_event = max((event.cycle for event in events), default=0)
    for number in range(1, cycles + 1):
        due = [event for event in events if event.cycle == number]
        external_changes = _external_changes(due, simulation.snapshot)
        cycle = simulation.run_cycle(external_changes)
        done.append(CycleWithEvents(cycle, tuple(event.says for event in due)))
        still = settled_after([past.cycle for past in done]) is not None
        if until_settled and still and number >= last_event:
            break
    return SimulationResult(
        policy=policy,
        taken_at=snapshot.taken_at,
        interval=interval,
        pods=len(snapshot.pod_index),
        loads=start,
        violations=violations(snapshot),
        cycles_with_events=tuple(done),
        waiting_pods=explain_waiting(simulation.snapshot),
        stopped_early=len(done) < cycles,
        tainting=tainter is not None,
    )


def settled_after(cycles: Sequence[SimulatedCycle]) -> int | None:
    """The last cycle in which something happened, once enough quiet ones have followed."""
    last = next((i for i in reversed(range(len(cycles))) if not cycles[i].is_quiet), -1)
    quiet = cycles[last + 1 :]
    if len(quiet) < QUIET_CYCLES or quiet[-1].at - cycles[max(last, 0)].at < QUIET_TIME:
        return None
    return last + 1


def _external_changes(due: Sequence[Event], snapshot: Snapshot) -> Changes | None:
    """The changes by all events before one cycle, one after the other."""
    changes: Changes | None = None
    for event in due:
        more = changes_from(event, snapshot)
        snapshot = snapshot.next(more)
        changes = merge_changes(changes, more) if changes else more
    return changes


def settled_sentence(result: SimulationResult) -> str:
    """A sentence: after which cycle the cluster settled, or that it has not."""
    after, cycles = result.settled_after, result.cycles
    if after == 0:
        return f"settled from the start: nothing moved in {format_count(len(cycles), 'cycle')}"
    if after is not None:
        return f"settled after cycle {after}: nothing has moved since"
    if cycles[-1].moves:
        last = format_count(len(cycles[-1].moves), "pod")
        return f"not settled: {last} moved in cycle {cycles[-1].number}, the last"
    return "nothing moved in the last cycle, which is too early to call it settled"


def opening_sentence(result: SimulationResult) -> str:
    """A sentence: the size of the cluster and the interval."""
    there = f"{format_count(result.pods, 'pod')} on {format_count(len(result.loads), 'node')}"
    start = result.taken_at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{there}, a cycle every {format_interval(result.interval)} from {start}."


def busiest_node_change(result: SimulationResult) -> str:
    """`32% → 17%`: what the query says of the fullest node, at the start and at the end."""
    first, last = (
        [load.measured for load in loads.values() if load.measured is not None]
        for loads in (result.loads, result.cycles[-1].after)
    )
    return f"{max(first):.0f}% → {max(last):.0f}%" if first and last else ""


def move_result(move: SimulatedMove) -> str:
    """The result of a move in one word."""
    if move.returned:
        return "returned"
    if move.node is None:
        return "waits"
    return "moved" if move.node else "gone"
