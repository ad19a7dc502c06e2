from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest

from resettle.clock import Clock
from resettle.testing import NOW, ManualClock


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def run(steps: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(steps, 30))


def test_winding_moves_both_times_and_stepping_the_wall_clock_alone() -> None:
    hand = ManualClock()
    clock: Clock = hand

    hand.advance(seconds(90))
    hand.step(-seconds(3600))

    assert clock.steady() == 90
    assert clock.now() == hand() == NOW + seconds(90 - 3600)


@pytest.mark.parametrize(
    ("wound", "woken"),
    [
        pytest.param([9.999], False, id="not a moment early"),
        pytest.param([10], True, id="at the moment"),
        pytest.param([0.1] * 100, True, id="however the time is pieced together"),
        pytest.param([3600], True, id="long after"),
        pytest.param([], False, id="not by itself"),
    ],
)
def test_a_sleeper_wakes_once_the_clock_is_wound_far_enough(
    wound: list[float], woken: bool
) -> None:
    async def steps() -> None:
        clock = ManualClock()
        task = asyncio.create_task(clock.sleep(10))
        await clock.wait_for_sleepers()

        for each in wound:
            clock.advance(seconds(each))

        assert clock.sleepers == (0 if woken else 1)
        if not woken:
            clock.advance(seconds(10))
        await task

    run(steps())


def test_stepping_the_wall_clock_wakes_no_task() -> None:
    async def steps() -> None:
        clock = ManualClock()
        task = asyncio.create_task(clock.sleep(10))
        await clock.wait_for_sleepers()

        clock.step(seconds(3600))

        assert clock.sleepers == 1
        clock.advance(seconds(10))
        await task

    run(steps())


@pytest.mark.parametrize("length", [0, -1])
def test_no_sleep_at_all_returns_at_once(length: float) -> None:
    async def steps() -> None:
        clock = ManualClock()

        await clock.sleep(length)

        assert clock.steady() == 0

    run(steps())


def test_who_gave_up_sleeping_is_not_counted() -> None:
    async def steps() -> None:
        clock = ManualClock()
        task = asyncio.create_task(clock.sleep(10))
        await clock.wait_for_sleepers()

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert clock.sleepers == 0
        clock.advance(seconds(10))

    run(steps())


def test_it_may_be_wound_from_another_thread() -> None:
    async def steps() -> None:
        clock = ManualClock()
        task = asyncio.create_task(clock.sleep(10))
        await clock.wait_for_sleepers()

        thread = threading.Thread(target=clock.advance, args=(seconds(10),))
        thread.start()
        await task
        thread.join()

        assert clock.steady() == 10

    run(steps())


def test_waiting_for_sleepers_who_never_come_says_how_many_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("resettle.testing.api_server.clock._TIMEOUT_SECONDS", 0.01)

    async def steps() -> None:
        clock = ManualClock()
        task = asyncio.create_task(clock.sleep(10))

        with pytest.raises(TimeoutError, match="1 of 2 tasks went to sleep"):
            await clock.wait_for_sleepers(2)
        task.cancel()

    run(steps())
