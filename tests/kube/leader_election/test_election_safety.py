"""No two hold the lease at one time, whatever happens to servers, answers, clocks and processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.errors import Forbidden, Unauthorized
from resettle.testing import Fault
from tests.kube.leader_election.harness import (
    DEADLINE,
    DURATION,
    RETRY,
    Arena,
    Contender,
    arena,
    happens,
    run_with_timeout,
)

COUNT = 3
WHO = st.integers(0, COUNT - 1)
TIMES = st.sampled_from([1, 7, RETRY, 31, DEADLINE - RETRY, DEADLINE, DURATION])
MISHAPS = st.sampled_from(
    [
        *(Fault(status=status, times=times) for status in (500, 503, 409) for times in (1, 5)),
        Fault(hang_up=True, times=2),
        Fault(verbs=("update",), status=403, times=3),
        Fault(verbs=("get",), status=401, times=3),
    ]
)
STEPS = st.one_of(
    st.tuples(st.just("wind"), TIMES),
    st.tuples(st.just("wind"), TIMES),
    st.tuples(st.just("stop"), WHO),
    st.tuples(st.just("stop in a request"), WHO),
    st.tuples(st.just("resume"), WHO),
    st.tuples(st.just("lose answers"), WHO),
    st.tuples(st.just("set the clock"), WHO, st.integers(-2, 2)),
    st.tuples(st.just("restart"), WHO),
    st.tuples(st.just("fault"), MISHAPS),
)


class Contest:
    """Contenders who try for ever, and a referee who looks whenever anything happens."""

    def __init__(self, place: Arena, contenders: list[Contender]) -> None:
        self.place = place
        self.contenders = contenders
        self.tasks = [asyncio.create_task(self._tries(each)) for each in contenders]
        self.looks = 0
        self.terms = 0
        """How often a contender came to hold the lease."""
        self.worst: list[str] = []
        for each in contenders:
            each.line.meets = self.look

    @property
    def holders(self) -> list[str]:
        return [each.name for each in self.contenders if each.lease.is_held()]

    def look(self) -> None:
        # Time stands still but for winding, and winding only ends what is held. So if two hold
        # it together at some moment, they do so at one of those at which we look.
        self.looks += 1
        self.worst = max(self.worst, self.holders, key=len)

    async def _tries(self, contender: Contender) -> None:
        while True:
            try:
                await contender.lease.acquire()
                self.terms += 1
                self.look()
                await contender.lease.keep()
            except (Forbidden, Unauthorized):
                # The process ends with that, and its owner starts another a little later.
                contender.renamed(f"{contender.name}'")
                await contender.machine.sleep(RETRY)

    async def settles(self) -> None:
        """Returns once everybody sleeps or is stopped; a task that ended says why."""

        def still() -> bool:
            for task in self.tasks:
                if task.done():
                    task.result()
            stopped = sum(each.machine.waiting for each in self.contenders)
            return self.place.clock.sleepers + stopped == len(self.tasks)

        await happens(still)
        self.look()

    async def restarts(self, which: int) -> None:
        """The contender goes in good order, and another comes in its place."""
        self.contenders[which].line.meets = self.look
        self.tasks[which].cancel()
        await asyncio.wait([self.tasks[which]])
        await self.contenders[which].lease.release()
        self.look()
        self.contenders[which].renamed(f"{self.contenders[which].name}'")
        self.tasks[which] = asyncio.create_task(self._tries(self.contenders[which]))

    async def step(self, *what: object) -> None:
        match what:
            case "wind", int() | float() as seconds:
                self.place.wind(seconds)
            case "stop", int() as who:
                self.contenders[who].machine.stop()
            case "stop in a request", int() as who:
                self.contenders[who].line.meets = self._stops(self.contenders[who])
            case "resume", int() as who:
                self.contenders[who].line.meets = self.look
                self.contenders[who].machine.resume()
            case "lose answers", int() as who:
                self.contenders[who].line.loses += 2
            case "set the clock", int() as who, int() as days:
                self.contenders[who].machine.set_by += timedelta(days=days, seconds=-RETRY)
            case "restart", int() as who:
                if self.contenders[who].machine.running:
                    await self.restarts(who)
            case "fault", Fault() as fault:
                self.place.server.faults.add(fault)
        await self.settles()

    def _stops(self, contender: Contender) -> Callable[[], None]:
        def stop() -> None:
            self.look()
            contender.machine.stop()

        return stop

    async def heals(self) -> None:
        """Everything works again, for as long as it takes a contender to take over."""
        self.place.server.faults.clear()
        for each in self.contenders:
            each.line.loses = 0
            each.line.meets = self.look
            each.machine.resume()
        await self.settles()
        for _ in range(round((DURATION + 3 * RETRY) / 13) + 1):
            await self.step("wind", 13)


async def contested(steps: list[tuple[object, ...]], jitters: list[float]) -> Contest:
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(arena())
        contenders = [
            await stack.enter_async_context(place.contender(name, booted, jitter))
            for name, booted, jitter in zip("abc", (0, 1e6, 55.5), jitters, strict=True)
        ]
        contest = Contest(place, contenders)
        try:
            await contest.settles()
            for step in steps:
                await contest.step(*step)
            await contest.heals()
            assert len(contest.holders) == 1
            assert place.spec["holderIdentity"] == contest.holders[0]
        finally:
            for task in contest.tasks:
                task.cancel()
            await asyncio.wait(contest.tasks)
        return contest


@settings(max_examples=60)
@given(
    steps=st.lists(STEPS, max_size=40),
    jitters=st.lists(st.floats(0, 1), min_size=COUNT, max_size=COUNT),
)
def test_one_at_most_holds_the_lease_and_one_does_in_the_end(
    steps: list[tuple[object, ...]], jitters: list[float]
) -> None:
    async def run_scenario() -> None:
        contest = await contested(steps, jitters)

        assert len(contest.worst) == 1, contest.worst
        assert contest.terms > 0

    run_with_timeout(run_scenario())


@pytest.mark.parametrize("stop", ["stop", "stop in a request"])
def test_the_lease_goes_round_when_each_holder_is_stopped_in_turn(stop: str) -> None:
    async def run_scenario() -> None:
        steps: list[tuple[object, ...]] = []
        for who in range(COUNT):
            steps += [(stop, who), *[("wind", 13)] * 20, ("resume", who)]
        contest = await contested(steps, [0.1, 0.2, 0.3])

        assert len(contest.worst) == 1
        assert contest.terms >= COUNT

    run_with_timeout(run_scenario())
