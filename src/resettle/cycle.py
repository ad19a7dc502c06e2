"""One cycle from start to finish: take a snapshot, plan, execute, and plan again what was declined.

What `plan` shows is what happens here: the same planner, on a snapshot of the cache. Where the API
server declines a move, the plan is drawn again from the same snapshot, with the outcomes so far
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
from resettle.eviction.in_flight import Ledger
from resettle.eviction.pod_events import Recorder
from resettle.framework.descheduler import Descheduler
from resettle.framework.mover import Ending, Moved, Outcome
from resettle.framework.plan import Move, Plan, Turn
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds
from resettle.framework.tracing import NO_SPANS, Spans
from resettle.kube.watch.cache import Cache
from resettle.log import Log
from resettle.model.snapshot import Snapshot
from resettle.utilization.sources.poller import Meters

ROUNDS = 4
"""Plans drawn in one cycle, at most."""

ExecutePlan = Callable[[Sequence[Move], Snapshot], Awaitable[list[Outcome]]]


class Round(Struct, frozen=True):
    """A plan, and what became of its moves."""

    plan: Plan
    outcomes: tuple[Outcome, ...]


class Report(Struct, frozen=True):
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
    def endings(self) -> Counter[Ending]:
        """How many moves ended in which way."""
        return Counter(outcome.ending for one in self.rounds for outcome in one.outcomes)

    @property
    def cut_short(self) -> str:
        """Why it ended before all was sent; empty if all was."""
        every = (outcome for one in self.rounds for outcome in one.outcomes)
        return next((it.says for it in every if it.ending is Ending.UNSENT and it.says), "")

    @property
    def errors(self) -> tuple[str, ...]:
        """What failed while plans were drawn."""
        return tuple(dict.fromkeys(error for one in self.rounds for error in one.plan.errors))


CycleObserver = Callable[[Snapshot, Report], None]
"""Called at the end of each cycle with the snapshot it used and the report of what it did."""


@dataclass(kw_only=True)
class CycleContext:
    """What a cycle needs to run, and what it keeps for the next cycle."""

    descheduler: Descheduler
    cache: Cache
    ledger: Ledger
    recorder: Recorder
    execute: ExecutePlan
    clock: Clock
    log: Log
    meters: Meters | None = None
    """The source of how busy nodes are; None where the policy needs none."""
    policy: str = ""
    """The text of the policy that the descheduler was made from."""
    observers: Sequence[CycleObserver] = ()
    spans: Spans = NO_SPANS
    history: Mapping[tuple[str, str], Any] = field(default_factory=dict)


async def run_cycle(context: CycleContext) -> Report:
    """Run one cycle and return the report of what it did."""
    with context.spans.cycle():
        return await _cycle(context)


async def _cycle(context: CycleContext) -> Report:
    began = context.clock.steady()
    phases, turns = Stopwatch[str](), Stopwatch[Turn]()
    with phases.phase("measure"):
        usage = await context.meters.measured() if context.meters else {}
    context.ledger.sweep()
    with phases.phase("snapshot"):
        snapshot = context.cache.snapshot(
            context.clock.now(), history=context.history, moving=context.ledger.moving
        ).measured(usage)
    draw = partial(_draw, context, snapshot, turns)
    earlier_rounds, rounds = NO_EARLIER_ROUNDS, list[Round]()
    while len(rounds) < ROUNDS:
        with phases.phase("plan"):
            plan = await _draw_in_thread(partial(draw, earlier_rounds=earlier_rounds))
        with phases.phase("carry-out"):
            outcomes = tuple(await context.execute(plan.moves, snapshot))
        rounds.append(Round(plan, outcomes))
        if not _worth_another_plan(outcomes):
            break
        earlier_rounds = earlier_rounds.after(plan.moves, outcomes)
    context.history = rounds[-1].plan.history
    context.recorder.held_back(rounds[-1].plan.held_back)
    report = Report(
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
        planning.drawn(len(plan.moves), plan.errors)
        return plan


async def _draw_in_thread(draw: Callable[[], Plan]) -> Plan:
    """Draw the plan in a worker thread, so that watches and the lease go on meanwhile."""
    gc.disable()  # a plan leaves no garbage behind, and to look for it costs a third of its time
    try:
        return await asyncio.to_thread(draw)
    finally:
        gc.enable()


def _worth_another_plan(outcomes: Sequence[Outcome]) -> bool:
    """Whether others may go in place of those that did not, and we may still act."""
    endings = {outcome.ending for outcome in outcomes}
    return Ending.UNSENT not in endings and any(
        ending.declined or ending is Ending.GONE for ending in endings
    )


def log_report(report: Report, log: Log) -> None:
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
        planned=sum(len(one.plan.moves) for one in report.rounds),
        evicted=endings.pop(Ending.EVICTED, 0),
        **{ending.replace("-", "_"): count for ending, count in sorted(endings.items())},
        refused=sum(plan.refused.values()),
        refusals=plan.refused or None,
        rounds=len(report.rounds) if len(report.rounds) > 1 else None,
        cut_short=report.cut_short or None,
        took=report.took,
    )


def log_state(context: CycleContext) -> None:
    """Log the state of the cache and the moves in flight, so that both can be checked."""
    context.cache.tell(context.log)
    stages = Counter(entry.stage for entry in context.ledger.entries)
    context.log.info("in flight", moves=stages.total(), **{str(k): n for k, n in stages.items()})


async def preview(
    moves: Sequence[Move], snapshot: Snapshot, log: Log, moved: Moved
) -> list[Outcome]:
    """Log what would be evicted and return the outcome `shown` for each move."""
    shown = Outcome(Ending.SHOWN)
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
