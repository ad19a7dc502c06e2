"""The rate limiter: how many requests at once, how many a second, in which order; and retries."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from resettle.errors import ClusterUnreachable
from resettle.kube.status import Answer
from resettle.kube.transport.pacing import TRIES, RateLimiter, pause_before_retry
from resettle.testing import ManualClock
from tests.kube.leader_election.harness import run_with_timeout
from tests.kube.test_status import BUDGET, EVACUATION, answer


class Queue:
    """Callers that wait for their turns, and the seconds at which they got them."""

    def __init__(self, limiter: RateLimiter, clock: ManualClock) -> None:
        self._limiter, self._clock = limiter, clock
        self.served: list[tuple[str, float]] = []

    def joins(self, name: str) -> asyncio.Task[None]:
        return asyncio.create_task(self._waits(name))

    async def _waits(self, name: str) -> None:
        await self._limiter.acquire()
        self.served.append((name, self._clock.steady()))

    @property
    def times(self) -> list[float]:
        return [at for _, at in self.served]


async def passes(clock: ManualClock, seconds: float) -> None:
    """Lets time pass in small steps, so that everybody wakes as soon as it is due."""
    for _ in range(round(seconds * 20)):
        await asyncio.sleep(0)
        clock.advance(timedelta(milliseconds=50))
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
    async def run_scenario() -> None:
        clock = ManualClock()
        queue = Queue(RateLimiter(qps, burst, clock), clock)
        names = "abcdef"
        waiting = [queue.joins(name) for name in names]
        await passes(clock, 3)

        await asyncio.gather(*waiting)
        assert [name for name, _ in queue.served] == list(names)
        assert queue.times == pytest.approx(times)

    run_with_timeout(run_scenario())


def test_zero_stands_for_what_kubernetes_clients_do() -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        queue = Queue(RateLimiter(0, 0, clock), clock)
        waiting = [queue.joins(str(n)) for n in range(12)]
        await passes(clock, 1)

        await asyncio.gather(*waiting)
        assert queue.times == pytest.approx([0] * 10 + [0.2, 0.4])

    run_with_timeout(run_scenario())


def test_a_rest_fills_the_bucket_and_never_more() -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        queue = Queue(RateLimiter(2, 2, clock), clock)
        await asyncio.gather(queue.joins("a"), queue.joins("b"))
        clock.advance(timedelta(hours=1))
        waiting = [queue.joins(name) for name in "cde"]
        await passes(clock, 1)

        await asyncio.gather(*waiting)
        assert queue.times == pytest.approx([0, 0, 3600, 3600, 3600.5])

    run_with_timeout(run_scenario())


def test_who_leaves_the_queue_leaves_its_turn_to_others() -> None:
    async def run_scenario() -> None:
        clock = ManualClock()
        queue = Queue(RateLimiter(1, 1, clock), clock)
        await queue.joins("first")
        leaving = queue.joins("leaving")
        await clock.wait_for_sleepers(1)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        staying = queue.joins("staying")
        await passes(clock, 1.5)

        await staying
        assert queue.served == [("first", 0), ("staying", 1)]

    run_with_timeout(run_scenario())


# -- retries -------------------------------------------------------------------------------------

OVERLOAD = answer(429, retryAfterSeconds=2)
STARTING = answer(503, retry_after=3.0)
NO_SERVER = ClusterUnreachable("no server", connection_refused=True)


@pytest.mark.parametrize(
    ("method", "result", "pause"),
    [
        pytest.param("GET", OVERLOAD, 2, id="429 to a read: when it says"),
        pytest.param("POST", OVERLOAD, 2, id="429 to an eviction: nothing was done"),
        pytest.param("POST", Answer(429, b"busy", 4.0), 4, id="429 in plain words"),
        pytest.param("POST", Answer(429, b"busy"), 1, id="429 without advice: a second"),
        pytest.param(
            "POST", answer(429, causes=[BUDGET], retryAfterSeconds=9), None, id="a budget"
        ),
        pytest.param("POST", answer(429, EVACUATION), None, id="a webhook"),
        pytest.param("GET", STARTING, 3, id="503 to a read"),
        pytest.param("POST", STARTING, None, id="503 to a write: who knows"),
        pytest.param("GET", answer(503), None, id="503 without advice"),
        pytest.param("GET", NO_SERVER, 0.5, id="no server there: soon again"),
        pytest.param("POST", NO_SERVER, None, id="no server there to write to"),
        pytest.param("GET", ClusterUnreachable("no such name"), None, id="unreachable otherwise"),
        pytest.param("GET", Answer(200, b""), None, id="fine"),
        pytest.param("GET", answer(500), None, id="an error"),
        pytest.param("PUT", answer(409), None, id="a conflict"),
    ],
)
def test_what_was_certainly_not_acted_upon_is_tried_again(
    method: str, result: Answer | ClusterUnreachable, pause: float | None
) -> None:
    assert pause_before_retry(method, result, 1, 60) == pause


def test_pauses_grow_while_connections_are_refused() -> None:
    assert [pause_before_retry("GET", NO_SERVER, n, 60) for n in (1, 2, 3)] == [0.5, 1, 2]


@pytest.mark.parametrize(
    ("left", "pause"),
    [
        pytest.param(2.0, 2, id="just enough"),
        pytest.param(1.9, None, id="not enough"),
        pytest.param(-1.0, None, id="long over"),
    ],
)
def test_a_pause_that_outlasts_our_patience_is_not_begun(left: float, pause: float | None) -> None:
    assert pause_before_retry("GET", OVERLOAD, 1, left) == pause


def test_there_is_a_last_try() -> None:
    assert pause_before_retry("GET", OVERLOAD, TRIES - 1, 60) == 2
    assert pause_before_retry("GET", OVERLOAD, TRIES, 60) is None
