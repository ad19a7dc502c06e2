"""A clock for tests: time stands still until the test advances it.

It can be used as a `resettle.clock.Clock`. A task that sleeps on it wakes once the clock was
advanced far enough; `wait_for_sleepers` waits until the tasks sleep again.
"""

from __future__ import annotations

import asyncio
import math
from datetime import datetime, timedelta
from threading import Lock
from typing import NamedTuple

from resettle.testing.builders import NOW

_TIMEOUT_SECONDS = 30
_POLL_SECONDS = 0.001


class _Sleeper(NamedTuple):
    due: timedelta
    woken: asyncio.Future[None]


class ManualClock:
    """Shows the same time until it is advanced."""

    def __init__(self, start: datetime = NOW) -> None:
        self._now = start
        self._passed = timedelta()
        self._sleepers: list[_Sleeper] = []
        self._lock = Lock()

    def __call__(self) -> datetime:
        return self._now

    def now(self) -> datetime:
        """The wall clock."""
        return self._now

    def steady(self) -> float:
        """The seconds it was advanced by so far."""
        return self._passed.total_seconds()

    def advance(self, by: timedelta) -> datetime:
        """Advance the clock, wake the tasks that are due, and return the new time."""
        with self._lock:
            self._now += by
            self._passed += by
            due = [sleeper for sleeper in self._sleepers if sleeper.due <= self._passed]
            self._sleepers = [sleeper for sleeper in self._sleepers if sleeper.due > self._passed]
        for sleeper in due:
            sleeper.woken.get_loop().call_soon_threadsafe(_wake, sleeper.woken)
        return self._now

    def step(self, by: timedelta) -> datetime:
        """Set the wall clock back or forth without waking any task, and return the new time."""
        self._now += by
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced by so many seconds."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        with self._lock:
            sleeper = _Sleeper(self._passed + _at_least(seconds), woken)
            self._sleepers.append(sleeper)
        try:
            await woken
        finally:
            with self._lock:
                self._sleepers = [
                    sleeper for sleeper in self._sleepers if sleeper.woken is not woken
                ]

    @property
    def sleepers(self) -> int:
        """How many tasks sleep now; a task that was woken does not count."""
        return len(self._sleepers)

    async def wait_for_sleepers(self, count: int = 1) -> None:
        """Wait until at least so many tasks sleep."""
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                while self.sleepers < count:
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            says = (
                f"{self.sleepers} of {count} tasks went to sleep within {_TIMEOUT_SECONDS} seconds"
            )
            raise TimeoutError(says) from None


def _at_least(seconds: float) -> timedelta:
    """So many seconds, in whole microseconds: never a moment less."""
    return timedelta(microseconds=math.ceil(round(seconds * 1e6, 3)))


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
