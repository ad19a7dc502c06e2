"""Time, as something that is passed in.

The wall's is for what people and objects say, a steady one for how long something takes: a step of
the wall clock must never shorten or stretch a wait.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


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
