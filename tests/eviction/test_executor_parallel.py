"""Several pods on their way at once, the right to act, and movers of others."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from resettle.eviction.executor import BudgetLocks
from resettle.framework import ApiRequests, Move, MoveResponse, MoveResult, Options
from resettle.kube.transport.pacing import RateLimiter
from resettle.testing import ObjectChange, budget, cluster, node, pod
from tests.eviction.builders import to_leave
from tests.eviction.harness import endings, rigged, run_with_timeout

E = MoveResult
WEB = {"app": "web"}
WORLD = cluster(
    node("n1").holding(
        *(pod(f"web-{i}", labels=WEB) for i in (1, 2, 3)), *(pod(name) for name in "abcdefgh")
    ),
    budget("web", allowed=1, labels=WEB),
)


# -- several at once ------------------------------------------------------------------------------


class Waiting:
    """A mover that waits until as many pods are on their way as can be."""

    def __init__(self, together: int) -> None:
        self.together = together
        self.in_flight: list[str] = []
        self.most = 0
        self.begun: list[str] = []
        self.met: set[tuple[str, ...]] = set()
        self._all_here = asyncio.Event()

    async def move(self, move: Move, options: Options, requests: ApiRequests) -> MoveResponse:
        name = move.pod.name
        self.begun.append(name)
        self.in_flight.append(name)
        self.met.add(tuple(sorted(self.in_flight)))
        self.most = max(self.most, len(self.in_flight))
        if len(self.in_flight) >= self.together:
            self._all_here.set()
        await self._all_here.wait()
        self.in_flight.remove(name)
        return MoveResponse(E.EVICTED)


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_as_many_are_in_flight_as_may_be_and_no_more(at_once: int) -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            mover = Waiting(at_once)
            outcomes = await rig.carried_out(*"abcdefgh", by=rig.executor(mover, at_once=at_once))

            assert endings(outcomes) == [E.EVICTED] * 8
            assert mover.most == at_once
            assert mover.begun == list("abcdefgh")

    run_with_timeout(run_scenario())


def test_requests_go_out_in_the_order_of_the_plan() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            await rig.carried_out(*"hgfedcba", by=rig.executor(at_once=1))

            assert rig.asked == list("hgfedcba")

    run_with_timeout(run_scenario())


def test_pods_of_one_budget_are_never_in_flight_together() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            mover = Waiting(together=2)
            names = ("web-1", "web-2", "a", "web-3", "b")
            outcomes = await rig.carried_out(*names, by=rig.executor(mover))

            assert endings(outcomes) == [E.EVICTED] * 5
            assert mover.most >= 2
            for together in mover.met:
                assert sum(name.startswith("web") for name in together) <= 1

    run_with_timeout(run_scenario())


# -- the right to act -----------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 4])
def test_nothing_more_is_sent_once_we_may_not_act(at_once: int) -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:

            def stop(change: ObjectChange) -> None:
                rig.stopped = True

            rig.server.store.subscribe("Pod", stop)
            outcomes = await rig.carried_out(*"abcdefgh", by=rig.executor(at_once=at_once))

            sent = [result for result in endings(outcomes) if result is not E.UNSENT]
            assert 1 <= len(sent) <= at_once
            assert set(sent) == {E.EVICTED}
            assert sorted(rig.asked) == sorted(rig.leaving)
            assert len(rig.asked) == len(sent)

    run_with_timeout(run_scenario())


def test_a_request_that_waits_for_its_turn_is_not_sent_after_the_end() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD, lambda clock: RateLimiter(1, 1, clock)) as rig:
            carrying = asyncio.create_task(rig.carried_out("a", "b", by=rig.executor(at_once=1)))
            await rig.clock.wait_for_sleepers()
            rig.stopped = True
            rig.clock.advance(timedelta(seconds=5))

            assert await carrying == [
                MoveResponse(E.EVICTED),
                MoveResponse(E.UNSENT, "asked to stop"),
            ]
            assert rig.asked == ["a"]

    run_with_timeout(run_scenario())


def test_what_was_not_sent_leaves_no_entry_and_no_line() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            rig.stopped = True
            outcomes = await rig.carried_out("a", "b")

            assert set(endings(outcomes)) == {E.UNSENT}
            assert (rig.asked, rig.log_lines, rig.ledger.moves) == ([], [], ())

    run_with_timeout(run_scenario())


# -- movers of others -----------------------------------------------------------------------------


class RecordingMover:
    """A mover that records its calls, and answers what it is given."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer or MoveResponse(E.EVICTED)
        self.calls: list[tuple[str, Options]] = []

    async def move(self, move: Move, options: Options, requests: ApiRequests) -> MoveResponse:
        self.calls.append((move.pod.name, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # as a third-party mover may do


def test_a_mover_gets_the_plugin_the_profile_and_the_reason() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            mover = RecordingMover()
            by = rig.executor(mover, delete_options={"gracePeriodSeconds": 7}, in_background=False)
            await rig.carried_out("a", by=by)

            options = Options(
                initiator="PodLifeTime",
                profile="daily",
                reason="has lived 3 h",
                delete_options={"gracePeriodSeconds": 7},
                in_background=False,
            )
            assert mover.calls == [("a", options)]

    run_with_timeout(run_scenario())


def test_each_profile_has_its_own_mover() -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            day, night = RecordingMover(), RecordingMover()
            snapshot = rig.cache.snapshot(WORLD.now)
            moves = [
                Move(to_leave(pod).pod, "Any", "night" if pod.name == "b" else "day", "")
                for pod in snapshot.pods
                if pod.name in "abc"
            ]
            executor = rig.executor(movers={"day": day, "night": night})
            await executor.execute(moves, snapshot)

            assert sorted(name for name, _ in day.calls) == ["a", "c"]
            assert [name for name, _ in night.calls] == ["b"]

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(
            ValueError("no such van"), "the mover failed: ValueError: no such van", id="it raises"
        ),
        pytest.param(
            True, "the mover answered True, which is no MoveResponse", id="it answers yes"
        ),
    ],
)
def test_a_broken_mover_does_not_affect_other_moves(answer: object, says: str) -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            mover = RecordingMover(answer)
            outcomes = await rig.carried_out("a", "b", by=rig.executor(mover))

            assert outcomes == [MoveResponse(E.UNKNOWN, says)] * 2
            assert rig.ledger.moving == {"uid-default-a", "uid-default-b"}

    run_with_timeout(run_scenario())


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        pytest.param(MoveResponse(E.EVICTED), "INFO evicted", id="evicted"),
        pytest.param(MoveResponse(E.BACKGROUND), "INFO moving in background", id="background"),
        pytest.param(MoveResponse(E.BUDGET), "INFO refused by budget", id="budget"),
        pytest.param(MoveResponse(E.WEBHOOK), "INFO refused by webhook", id="webhook"),
        pytest.param(MoveResponse(E.GONE), "INFO gone already", id="gone"),
        pytest.param(MoveResponse(E.UNKNOWN), "WARNING answer lost", id="unknown"),
        pytest.param(MoveResponse(E.CHANGED), "INFO left alone", id="changed"),
        pytest.param(MoveResponse(E.ERROR), "WARNING not evicted", id="error"),
        pytest.param(MoveResponse(E.SHOWN), "INFO shown", id="a mover that only pretends"),
        pytest.param(MoveResponse(E.UNSENT), "INFO unsent", id="a mover that held back"),
    ],
)
def test_each_outcome_is_a_line_of_the_log(outcome: MoveResponse, line: str) -> None:
    async def run_scenario() -> None:
        async with rigged(WORLD) as rig:
            await rig.carried_out("a", by=rig.executor(RecordingMover(outcome)))

            assert rig.log_lines == [
                f"{line} pod=default/a uid=uid-default-a node=n1 profile=daily "
                'plugin=PodLifeTime reason="has lived 3 h"'
            ]

    run_with_timeout(run_scenario())


# -- budgets --------------------------------------------------------------------------------------


def test_a_cancellation_between_two_budgets_keeps_neither_locked() -> None:
    world = cluster(
        node("n1").holding(
            pod("only-first", labels={"first": ""}),
            pod("only-second", labels={"second": ""}),
            pod("both", labels={"first": "", "second": ""}),
        ),
        budget("first", allowed=1, labels={"first": ""}),
        budget("second", allowed=1, labels={"second": ""}),
    )
    snapshot = world.snapshot()
    pods = {pod.name: pod for pod in snapshot.pods}
    assert [item.name for item in snapshot.budgets_of(pods["both"])] == ["first", "second"]

    async def scenario() -> None:
        locks = BudgetLocks(snapshot)
        reached: list[str] = []

        async def hold(name: str) -> None:
            async with locks.hold(pods[name]):
                reached.append(name)

        async with locks.hold(pods["only-second"]):
            waiting = asyncio.create_task(hold("both"))
            blocked = asyncio.create_task(hold("only-first"))
            await asyncio.sleep(0.01)
            assert reached == []  # `both` has the first lock and waits for the second

            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await blocked
            assert reached == ["only-first"]
        await hold("both")
        assert reached == ["only-first", "both"]

    run_with_timeout(scenario())
