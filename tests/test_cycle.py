"""Whole cycles against a test API server: replaced pods, and moves that go on in between."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from resettle.cycle import CycleContext, CycleReport, run_cycle
from resettle.eviction.in_flight import PATIENCE_SECONDS
from resettle.framework import MoveResult
from resettle.model.pod import IN_PROGRESS
from resettle.testing import Fault, World, cluster, node, pod
from tests.eviction.builders import WILLING
from tests.eviction.harness import Rig, rigged, run_with_timeout
from tests.framework.fakes import planner
from tests.kube.watch.harness import caught_up

E = MoveResult
DENIED = 'admission webhook "virt.example" denied the request: '
BEGUN = f"{DENIED}Eviction triggered evacuation"


def policy(**more: Any) -> dict[str, Any]:
    """A policy that would have every pod go that is older than a minute."""
    profile = {
        "name": "daily",
        "pluginConfig": [
            {"name": "DefaultEvictor"},
            {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 60}},
        ],
        "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
    }
    return {"profiles": [profile], **more}


def world(count: int, **more: Any) -> World:
    """Pods on one node, `p0` the oldest, and an empty node beside it."""
    held = [pod(f"p{i}", age=f"{99 - i}h", **more) for i in range(count)]
    return cluster(node("n1").holding(*held), node("n2"))


def cycle_context(
    rig: Rig, document: dict[str, Any], *, in_background: bool = True
) -> CycleContext:
    return CycleContext(
        descheduler=planner(document),
        cache=rig.cache,
        in_flight_moves=rig.ledger,
        event_writer=rig.recorder,
        execute=rig.executor(in_background=in_background, at_once=1).execute,
        clock=rig.clock,
        log=rig.log,
    )


async def cycle(rig: Rig, context: CycleContext) -> CycleReport:
    """One cycle, with all of its effects known afterwards."""
    report = await run_cycle(context)
    await caught_up(rig.server, rig.cache)
    return report


# -- drawn again ----------------------------------------------------------------------------------


def test_who_is_declined_is_replaced_and_the_limit_holds() -> None:
    async def scenario() -> None:
        async with rigged(world(6)) as rig:
            for name in ("p0", "p2"):
                rig.server.faults.add(
                    Fault(path=f"*/{name}/eviction", status=403, message=f"{DENIED}no")
                )
            report = await cycle(rig, cycle_context(rig, policy(maxNoOfPodsToEvictTotal=2)))

            assert rig.asked == ["p0", "p1", "p2", "p3"]
            assert rig.leaving == {"p1", "p3"}
            assert report.endings == {E.EVICTED: 2, E.WEBHOOK: 2}
            assert [len(round_.plan.moves) for round_ in report.rounds] == [2, 1, 1]

    run_with_timeout(scenario())


def test_rounds_come_to_an_end_when_everybody_declines() -> None:
    async def scenario() -> None:
        async with rigged(world(9)) as rig:
            rig.server.faults.add(
                Fault(path="*/eviction", status=403, message=f"{DENIED}no", times=99)
            )
            report = await cycle(rig, cycle_context(rig, policy(maxNoOfPodsToEvictTotal=1)))

            assert rig.asked == ["p0", "p1", "p2", "p3"]
            assert report.endings == {E.WEBHOOK: 4}

    run_with_timeout(scenario())


def test_an_answer_that_was_lost_seeks_no_substitute() -> None:
    async def scenario() -> None:
        async with rigged(world(4)) as rig:
            rig.server.faults.add(Fault(path="*/p0/eviction", cut_after_bytes=0))
            report = await cycle(rig, cycle_context(rig, policy(maxNoOfPodsToEvictTotal=2)))

            assert rig.asked == ["p0", "p1"]
            assert report.endings == {E.UNKNOWN: 1, E.EVICTED: 1}
            assert rig.leaving == {"p0", "p1"}

    run_with_timeout(scenario())


def test_a_next_cycle_goes_on_where_the_limit_ended_the_last() -> None:
    async def scenario() -> None:
        async with rigged(world(5)) as rig:
            context = cycle_context(rig, policy(maxNoOfPodsToEvictTotal=2))
            for _ in range(4):
                await cycle(rig, context)

            assert rig.asked == ["p0", "p1", "p2", "p3", "p4"]

    run_with_timeout(scenario())


# -- moves in the background ----------------------------------------------------------------------


def begins_to_move(rig: Rig, times: int = 99) -> None:
    """Has the mover of virtual machines accept every request."""
    rig.server.faults.add(Fault(path="*/eviction", status=429, message=BEGUN, times=times))


def mark(rig: Rig, name: str, value: str | None) -> None:
    rig.server.store.merge("Pod", name, {"metadata": {"annotations": {IN_PROGRESS: value}}})


def test_no_second_request_is_sent_while_others_move_a_pod_and_limits_count_it() -> None:
    async def scenario() -> None:
        async with rigged(world(4, annotations=WILLING)) as rig:
            begins_to_move(rig)
            context = cycle_context(rig, policy(maxNoOfPodsToEvictTotal=2))
            for _ in range(3):
                await cycle(rig, context)
            assert rig.asked == ["p0", "p1"]

            mark(rig, "p0", "true")
            mark(rig, "p1", "true")
            await cycle(rig, context)
            rig.clock.advance(timedelta(seconds=10 * PATIENCE_SECONDS))
            await cycle(rig, context)
            assert rig.asked == ["p0", "p1"], "what is confirmed never ages"

            rig.server.store.delete("Pod", "p0")
            await caught_up(rig.server, rig.cache)
            await cycle(rig, context)
            assert rig.asked == ["p0", "p1", "p2"], "who has gone makes room for the next"

    run_with_timeout(scenario())


@pytest.mark.parametrize(
    ("seconds", "asked"),
    [
        pytest.param(PATIENCE_SECONDS, ["p0"], id="patience lasts"),
        pytest.param(PATIENCE_SECONDS + 1, ["p0", "p0"], id="not confirmed in time"),
    ],
)
def test_an_acceptance_that_is_not_confirmed_is_given_up(seconds: float, asked: list[str]) -> None:
    async def scenario() -> None:
        async with rigged(world(1, annotations=WILLING)) as rig:
            begins_to_move(rig)
            context = cycle_context(rig, policy())
            await cycle(rig, context)
            rig.clock.advance(timedelta(seconds=seconds))
            await cycle(rig, context)

            assert rig.asked == asked

    run_with_timeout(scenario())


def test_a_move_that_failed_may_be_asked_for_again() -> None:
    async def scenario() -> None:
        async with rigged(world(1, annotations=WILLING)) as rig:
            begins_to_move(rig)
            context = cycle_context(rig, policy())
            await cycle(rig, context)
            for value in ("true", None):
                mark(rig, "p0", value)
                await caught_up(rig.server, rig.cache)
            await cycle(rig, context)

            assert rig.asked == ["p0", "p0"]

    run_with_timeout(scenario())


def test_with_the_gate_closed_every_cycle_asks_again() -> None:
    """The storm that the ledger is there to prevent."""

    async def scenario() -> None:
        async with rigged(world(1, annotations=WILLING)) as rig:
            begins_to_move(rig)
            context = cycle_context(rig, policy(), in_background=False)
            reports = [await cycle(rig, context) for _ in range(3)]

            assert rig.asked == ["p0"] * 3
            assert [report.endings for report in reports] == [{E.WEBHOOK: 1}] * 3

    run_with_timeout(scenario())
