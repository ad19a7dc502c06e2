"""A wish that everything end, and ways to wait that heed it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from resettle.clock import Clock


class Stop:
    """Not wished for yet, or wished for."""

    def __init__(self) -> None:
        self.wished = False
        self._told = asyncio.Event()

    def wish(self) -> None:
        """Has whoever waits here go on at once."""
        self.wished = True
        self._told.set()

    async def comes_after(self, waiting: Coroutine[Any, Any, None]) -> bool:
        """Whether this came to an end before a stop was wished for; else it is given up."""
        task, stopped = asyncio.create_task(waiting), asyncio.create_task(self._told.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                return False
            task.result()
            return True
        finally:
            task.cancel()
            stopped.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)


class HastyClock:
    """Another clock, on which nobody sleeps any longer once a stop is wished for."""

    def __init__(self, clock: Clock, stop: Stop) -> None:
        self._clock = clock
        self._stop = stop
        self.now = clock.now
        self.steady = clock.steady

    async def sleep(self, seconds: float) -> None:
        """Returns once so many seconds have passed, or at once when there is hurry."""
        await self._stop.comes_after(self._clock.sleep(seconds))
