"""A clock that stands still until a test winds it."""

from __future__ import annotations

from datetime import datetime, timedelta

from resettle.testing.objects import NOW


class HandClock:
    """Tells the same time until it is wound."""

    def __init__(self, start: datetime = NOW) -> None:
        self._now = start

    def __call__(self) -> datetime:
        return self._now

    def wind(self, by: timedelta) -> datetime:
        """The time after winding the clock forward."""
        self._now += by
        return self._now
