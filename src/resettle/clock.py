"""Where time goes: for the report of a cycle, for `--profile-cycle`, and for bug reports.

Time, as something that is passed in.

The wall's is for what people and objects say, a steady one for how long something takes: a step of
the wall clock must never shorten or stretch a wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

Phase = TypeVar("Phase", bound=Hashable)


class Spent(NamedTuple):
    """Seconds that a phase took."""

    wall: float
    cpu: float
    """Of the whole process."""


class Stopwatch(Generic[Phase]):
    """Adds up wall clock and CPU time by phase, in the order phases first came."""

    def __init__(self) -> None:
        self.spent: dict[Phase, Spent] = {}

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Times what happens inside."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            before = self.spent.get(name, Spent(0.0, 0.0))
            self.spent[name] = Spent(
                before.wall + time.perf_counter() - wall,
                before.cpu + time.process_time() - cpu,
            )


class Clock(Protocol):
    """What the time is, and how to let it pass."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""

    def steady(self) -> float:
        """Seconds since some moment, never stepped; they go on while the process is stopped."""

    async def sleep(self, seconds: float) -> None:
        """Returns once so many steady seconds have passed."""


class SystemClock:
    """The machine's own."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)

    def steady(self) -> float:
        """Seconds since the machine came up."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Returns once so many seconds have passed."""
        await asyncio.sleep(seconds)


SYSTEM = SystemClock()

_written: tuple[datetime, str] = (datetime.min.replace(tzinfo=UTC), "")


def to_the_second(at: datetime) -> str:
    """The time in UTC, such as `2026-01-31T12:00:00`; written once for all that ask in a second."""
    global _written
    passed = at - _written[0]
    if passed.days or passed.seconds:
        second = at.astimezone(UTC).replace(microsecond=0)
        _written = (second, second.isoformat().removesuffix("+00:00"))
    return _written[1]
