"""A clock that stands still until a test winds it.

It fits wherever a `resettle.clock.Clock` is asked for. Whoever sleeps by it wakes when it is wound
far enough, and `asleep` tells when everybody has gone back to sleep.
"""

from __future__ import annotations

import asyncio
import math
from datetime import datetime, timedelta
from threading import Lock
from typing import NamedTuple

from resettle.testing.builders import NOW

_PATIENCE_SECONDS = 30
_GLANCE_SECONDS = 0.001


class _Sleeper(NamedTuple):
    due: timedelta
    woken: asyncio.Future[None]


class HandClock:
    """Tells the same time until it is wound."""

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
        """The seconds it was wound by so far."""
        return self._passed.total_seconds()

    def wind(self, by: timedelta) -> datetime:
        """The time after winding the clock forward; whoever has slept long enough wakes."""
        with self._lock:
            self._now += by
            self._passed += by
            due = [it for it in self._sleepers if it.due <= self._passed]
            self._sleepers = [it for it in self._sleepers if it.due > self._passed]
        for sleeper in due:
            sleeper.woken.get_loop().call_soon_threadsafe(_wake, sleeper.woken)
        return self._now

    def step(self, by: timedelta) -> datetime:
        """The time after somebody set the wall clock, back or forth; nobody wakes of that."""
        self._now += by
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Returns once the clock was wound by so many seconds."""
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
                self._sleepers = [it for it in self._sleepers if it.woken is not woken]

    @property
    def sleepers(self) -> int:
        """How many sleep at this moment; who was woken counts no more."""
        return len(self._sleepers)

    async def asleep(self, count: int = 1) -> None:
        """Returns once at least so many sleep."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self.sleepers < count:
                    await asyncio.sleep(_GLANCE_SECONDS)
        except TimeoutError:
            says = f"{self.sleepers} of {count} went to sleep within {_PATIENCE_SECONDS} seconds"
            raise TimeoutError(says) from None


def _at_least(seconds: float) -> timedelta:
    """So many seconds, in whole microseconds: never a moment less."""
    return timedelta(microseconds=math.ceil(round(seconds * 1e6, 3)))


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
