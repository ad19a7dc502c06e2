"""Turns at requests: how many at once, how many a second, and who is next."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from resettle.cluster.pace import Pace
from resettle.testing import HandClock

from .contenders import story


class Queue:
    """Callers that wait for their turns, and the seconds at which they got them."""

    def __init__(self, pace: Pace, clock: HandClock) -> None:
        self._pace, self._clock = pace, clock
        self.served: list[tuple[str, float]] = []

    def joins(self, name: str) -> asyncio.Task[None]:
        return asyncio.create_task(self._waits(name))

    async def _waits(self, name: str) -> None:
        await self._pace.turn()
        self.served.append((name, self._clock.steady()))

    @property
    def times(self) -> list[float]:
        return [at for _, at in self.served]


async def passes(clock: HandClock, seconds: float) -> None:
    """Lets time pass in small steps, so that everybody wakes as soon as it is due."""
    for _ in range(round(seconds * 20)):
        await asyncio.sleep(0)
        clock.wind(timedelta(milliseconds=50))
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("qps", "burst", "times"),
    [
        pytest.param(5, 3, [0, 0, 0, 0.2, 0.4, 0.6], id="some at once, then one after another"),
        pytest.param(10, 1, [0, 0.1, 0.2, 0.3, 0.4, 0.5], id="no burst"),
        pytest.param(0.5, 5, [0, 0, 0, 0, 0, 2], id="less than one a second"),
    ],
)
def test_turns_come_as_fast_as_agreed_and_in_order(
    qps: float, burst: int, times: list[float]
) -> None:
    async def told() -> None:
        clock = HandClock()
        queue = Queue(Pace(qps, burst, clock), clock)
        names = "abcdef"
        waiting = [queue.joins(name) for name in names]
        await passes(clock, 3)

        await asyncio.gather(*waiting)
        assert [name for name, _ in queue.served] == list(names)
        assert queue.times == pytest.approx(times)

    story(told())


def test_zero_stands_for_what_kubernetes_clients_do() -> None:
    async def told() -> None:
        clock = HandClock()
        queue = Queue(Pace(0, 0, clock), clock)
        waiting = [queue.joins(str(n)) for n in range(12)]
        await passes(clock, 1)

        await asyncio.gather(*waiting)
        assert queue.times == pytest.approx([0] * 10 + [0.2, 0.4])

    story(told())


def test_a_rest_fills_the_bucket_and_never_more() -> None:
    async def told() -> None:
        clock = HandClock()
        queue = Queue(Pace(2, 2, clock), clock)
        await asyncio.gather(queue.joins("a"), queue.joins("b"))
        clock.wind(timedelta(hours=1))
        waiting = [queue.joins(name) for name in "cde"]
        await passes(clock, 1)

        await asyncio.gather(*waiting)
        assert queue.times == pytest.approx([0, 0, 3600, 3600, 3600.5])

    story(told())


def test_who_leaves_the_queue_leaves_its_turn_to_others() -> None:
    async def told() -> None:
        clock = HandClock()
        queue = Queue(Pace(1, 1, clock), clock)
        await queue.joins("first")
        leaving = queue.joins("leaving")
        await clock.asleep(1)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        staying = queue.joins("staying")
        await passes(clock, 1.5)

        await staying
        assert queue.served == [("first", 0), ("staying", 1)]

    story(told())
