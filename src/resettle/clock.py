"""Clocks that are passed in, and a stopwatch for the phases of a cycle.

The wall clock is for timestamps, the steady one for how long something takes: a step of the wall
clock must never shorten or lengthen a wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

Phase = TypeVar("Phase", bound=Hashable)


class PhaseTime(NamedTuple):
    """Seconds that a phase took."""

    wall: float
    cpu: float
    """CPU time of the whole process."""


class Stopwatch(Generic[Phase]):
    """Adds up wall clock and CPU time by phase, in the order in which phases first began."""

    def __init__(self) -> None:
        self.spent: dict[Phase, PhaseTime] = {}

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Add the time that the block takes to this phase."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            before = self.spent.get(name, PhaseTime(0.0, 0.0))
            self.spent[name] = PhaseTime(
                before.wall + time.perf_counter() - wall,
                before.cpu + time.process_time() - cpu,
            )


class Clock(Protocol):
    """The time, and sleeping."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""

    def steady(self) -> float:
        """Seconds since some moment; never stepped, also counted while the process is stopped."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many steady seconds."""


class SystemClock:
    """The clocks of the machine."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)

    def steady(self) -> float:
        """Seconds since the machine came up."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await asyncio.sleep(seconds)


SYSTEM = SystemClock()

_last_formatted: tuple[datetime, str] = (datetime.min.replace(tzinfo=UTC), "")


def to_the_second(at: datetime) -> str:
    """The time in UTC, such as `2026-01-31T12:00:00`; formatted once per second."""
    global _last_formatted
    passed = at - _last_formatted[0]
    if passed.days or passed.seconds:
        second = at.astimezone(UTC).replace(microsecond=0)
        _last_formatted = (second, second.isoformat().removesuffix("+00:00"))
    return _last_formatted[1]
