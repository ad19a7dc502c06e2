"""One cycle from start to finish: take a snapshot, plan, execute, and plan again what was declined.

What `plan` shows is what happens here: the same planner, on a snapshot of the cache. Where the API
server declines a move, the plan is drawn again from the same snapshot, with the responses so far
taken into account, a few times at most.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import Struct

from resettle.clock import Clock, Stopwatch
from resettle.eviction.evictor import FreshView
from resettle.eviction.in_flight import InFlightMoves
from resettle.eviction.pod_events import EventWriter
from resettle.eviction.recent import RecentEvictions
from resettle.framework.descheduler import Descheduler
from resettle.framework.mover import MoveResponse, MoveResult, OnMoveResponse
from resettle.framework.plan import Move, Plan, Turn
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds
from resettle.framework.tracing import NO_SPANS, Spans
from resettle.kube.watch.cache import Cache
from resettle.kube.watch.scales import ScaleReader
from resettle.log import Log
from resettle.model.measurements import Measured
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import Workload
from resettle.utilization.sources.poller import UsagePoller

MAX_ROUNDS = 4
"""The most plans that are drawn in one cycle."""

ExecutePlan = Callable[[Sequence[Move], Snapshot], Awaitable[list[MoveResponse]]]


class Round(Struct, frozen=True):
    """A plan, and the responses of its moves."""

    plan: Plan
    responses: tuple[MoveResponse, ...]


class CycleReport(Struct, frozen=True):
    """What a cycle did."""

    rounds: tuple[Round, ...]
    took: float
    """Seconds by the steady clock."""
    phases: dict[str, float] = {}
    """Seconds for `measure`, `snapshot`, `plan` and `carry-out`, over all rounds."""
    turns: dict[Turn, float] = {}
    """Seconds of each plugin's turns, over all rounds."""
    policy: str = ""
    """The text of the policy that decided."""

    @property
    def plan(self) -> Plan:
        """The last plan drawn: what stayed, and why."""
        return self.rounds[-1].plan

    @property
    def endings(self) -> Counter[MoveResult]:
        """How many moves ended in which way."""
        return Counter(response.result for drawn in self.rounds for response in drawn.responses)

    @property
    def cut_short(self) -> str:
        """Why it ended before all was sent; empty if all was."""
        every = (response for drawn in self.rounds for response in drawn.responses)
        return next(
            (
                response.message
                for response in every
                if response.result is MoveResult.UNSENT and response.message
            ),
            "",
        )

    @property
    def errors(self) -> tuple[str, ...]:
        """What failed while plans were drawn."""
        return tuple(dict.fromkeys(error for drawn in self.rounds for error in drawn.plan.errors))


CycleObserver = Callable[[Snapshot, CycleReport], None]
"""Called at the end of each cycle with the snapshot it used and the report of what it did."""


@dataclass(kw_only=True)
class CycleContext:
    """What a cycle needs to run, and what it keeps for the next cycle."""

    descheduler: Descheduler
    cache: Cache
    in_flight_moves: InFlightMoves
    event_writer: EventWriter
    execute: ExecutePlan
    clock: Clock
    log: Log
    usage_poller: UsagePoller | None = None
    """The source of how busy nodes are; None where the policy needs none."""
    policy: str = ""
    """The text of the policy that the descheduler was made from."""
    observers: Sequence[CycleObserver] = ()
    spans: Spans = NO_SPANS
    history: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    usage: Measured = field(default_factory=dict)
    """What was measured last."""
    is_drawing: bool = False
    """Whether a plan is being drawn, in another thread; no snapshot may be taken meanwhile."""
    scale_reader: ScaleReader | None = None
    """Reads what is not watched: the replicas of other kinds of workloads."""
    recent_evictions: RecentEvictions = field(default_factory=RecentEvictions)
    """The evictions that count for limits over time."""
    scales: tuple[Workload, ...] = ()
    """What the scale reader read last."""

    def __post_init__(self) -> None:
        self.fresh_view = FreshView(
            lambda: self.descheduler.view(self.take_snapshot()),
            self.cache,
            self.clock,
            lambda: self.is_drawing,
        )

    def take_snapshot(self) -> Snapshot:
        """The cluster as of the last watch event, with what is known of moves under way."""
        now = self.clock.now()
        snapshot = self.cache.snapshot(
            now,
            history=self.history,
            moving=self.in_flight_moves.moving,
            evictions=self.recent_evictions.until(now),
        )
        return snapshot.with_usage(self.usage).with_scales(self.scales)

    async def read_scales(self) -> None:
        """Read the replicas of workloads that are not watched, if the policy needs them."""
        if self.scale_reader and (kinds := self.descheduler.scales):
            objects = self.take_snapshot().scaled_objects(kinds)
            self.scales = tuple(await self.scale_reader.read(objects))


async def run_cycle(context: CycleContext) -> CycleReport:
    """Run one cycle and return the report of what it did."""
    with context.spans.cycle():
        return await _cycle(context)


async def _cycle(context: CycleContext) -> CycleReport:
    began = context.clock.steady()
    phases, turns = Stopwatch[str](), Stopwatch[Turn]()
    with phases.phase("measure"):
        context.usage = await context.usage_poller.measure() if context.usage_poller else {}
    context.in_flight_moves.drop_expired()
    context.recent_evictions.keep_for(context.descheduler.eviction_window)
    await context.read_scales()
    with phases.phase("snapshot"):
        snapshot = context.take_snapshot()
        context.fresh_view.use(context.descheduler.view(snapshot))
    draw = partial(_draw, context, snapshot, turns)
    earlier_rounds, rounds = NO_EARLIER_ROUNDS, list[Round]()
    while len(rounds) < MAX_ROUNDS:
        with phases.phase("plan"):
            plan = await _draw_in_thread(context, partial(draw, earlier_rounds=earlier_rounds))
        with phases.phase("carry-out"):
            responses = tuple(await context.execute(plan.moves, snapshot))
        rounds.append(Round(plan, responses))
        if not _worth_another_plan(responses):
            break
        earlier_rounds = earlier_rounds.after(plan.moves, responses)
    context.history = rounds[-1].plan.history
    context.event_writer.record_held_back(rounds[-1].plan.held_back)
    report = CycleReport(
        tuple(rounds),
        context.clock.steady() - began,
        phases={name: spent.wall for name, spent in phases.spent.items()},
        turns={turn: spent.wall for turn, spent in turns.spent.items()},
        policy=context.policy,
    )
    log_report(report, context.log)
    for observe in context.observers:
        observe(snapshot, report)
    return report


def _draw(
    context: CycleContext, snapshot: Snapshot, turns: Stopwatch[Turn], earlier_rounds: EarlierRounds
) -> Plan:
    """The plan, with each plugin's turn timed and followed."""
    with context.spans.planning() as planning:

        @contextmanager
        def at_work(turn: Turn) -> Iterator[None]:
            with turns.phase(turn), planning.turn(turn):
                yield

        plan = context.descheduler.draw_plan(snapshot, phase=at_work, earlier_rounds=earlier_rounds)
        planning.record_result(len(plan.moves), plan.errors)
        return plan


async def _draw_in_thread(context: CycleContext, draw: Callable[[], Plan]) -> Plan:
    """Draw the plan in a worker thread, so that watches and the lease go on meanwhile."""
    gc.disable()  # a plan leaves no garbage, and looking for it takes a third of its time
    context.is_drawing = True

    def draw_and_end() -> Plan:
        # Said by the thread itself: a cancelled wait ends before the thread does.
        try:
            return draw()
        finally:
            context.is_drawing = False

    try:
        return await asyncio.to_thread(draw_and_end)
    finally:
        gc.enable()


def _worth_another_plan(responses: Sequence[MoveResponse]) -> bool:
    """Whether other pods may move instead of declined ones, and we may still act."""
    results = {response.result for response in responses}
    return MoveResult.UNSENT not in results and any(
        result.declined or result is MoveResult.GONE for result in results
    )


def log_report(report: CycleReport, log: Log) -> None:
    """Log what each plugin did, and one line for the whole cycle."""
    plan = report.plan
    for run in plan.runs:
        log.detail(
            "plugin done",
            profile=run.profile,
            plugin=run.plugin,
            point=run.point,
            proposed=run.proposed,
            admitted=run.admitted,
            already_moving=run.already_moving or None,
            refusals=run.refused or None,
            stopped=run.stopped.says if run.stopped else None,
        )
    for failed in report.errors:
        log.error("plugin failed", reason=failed)
    if plan.skipped:
        log.info("cycle skipped", reason=plan.skipped.says, took=report.took)
        return
    endings = report.endings
    log.info(
        "cycle done",
        nodes=plan.nodes_in_scope,
        pods=plan.pods,
        planned=sum(len(drawn.plan.moves) for drawn in report.rounds),
        evicted=endings.pop(MoveResult.EVICTED, 0),
        **{ending.replace("-", "_"): count for ending, count in sorted(endings.items())},
        refused=sum(plan.refused.values()),
        refusals=plan.refused or None,
        rounds=len(report.rounds) if len(report.rounds) > 1 else None,
        cut_short=report.cut_short or None,
        took=report.took,
    )


def log_state(context: CycleContext) -> None:
    """Log the state of the cache and the moves in flight, so that both can be checked."""
    context.cache.log_state(context.log)
    stages = Counter(entry.stage for entry in context.in_flight_moves.moves)
    context.log.info("in flight", moves=stages.total(), **{str(k): n for k, n in stages.items()})


async def preview(
    moves: Sequence[Move], snapshot: Snapshot, log: Log, moved: OnMoveResponse
) -> list[MoveResponse]:
    """Log what would be evicted and return the response `shown` for each move."""
    shown = MoveResponse(MoveResult.SHOWN)
    for move in moves:
        moved(move, shown)
        log.info(
            "would evict",
            pod=move.pod.key,
            node=move.pod.node,
            profile=move.profile,
            plugin=move.plugin,
            reason=move.reason,
        )
    return [shown] * len(moves)
