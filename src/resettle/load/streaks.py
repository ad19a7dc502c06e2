"""Streaks: a node is hot once it has been over several times in a row, and not at the first glance.

            over, N times in a row
     calm ───────────────────────────► hot
       ▲                                │
       └────────────────────────────────┘
            not over, M times in a row

Only a fresh sample counts: the same one seen again says nothing new. While there is none a streak
stays as it is, and is forgotten once that has gone on for too long. What is returned goes into a
plugin's history and comes back with the next snapshot; it is made of plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct


class Patience(Struct, frozen=True, kw_only=True):
    """How often a node must be seen so before it counts."""

    over: int = 5
    """Samples in a row above the line that make a node hot; 1 believes the first."""
    calm: int = 3
    """Samples in a row at or below it that make a hot node calm."""
    forgotten_after: timedelta = timedelta(minutes=5)
    """How long a streak is remembered while no new sample comes."""


class Sighting(NamedTuple):
    """Where a sample puts a node, and when it was taken."""

    over: bool
    at: datetime


class Streak(Struct, frozen=True, kw_only=True):
    """What is known of a node from the samples before."""

    over: int = 0
    calm: int = 0
    hot: bool = False
    at: datetime
    """When the last sample was taken that counted."""

    def after(self, seen: Sighting, patience: Patience) -> Streak:
        """The streak with one more sample; one that is no newer changes nothing."""
        if seen.at <= self.at:
            return self
        over = self.over + 1 if seen.over else 0
        calm = 0 if seen.over else self.calm + 1
        hot = calm < patience.calm if self.hot else over >= patience.over
        return Streak(over=over, calm=calm, hot=hot, at=seen.at)


_LONG_AGO = datetime.min


def followed(
    before: Mapping[str, Streak],
    sightings: Mapping[str, Sighting],
    patience: Patience,
    now: datetime,
) -> dict[str, Streak]:
    """The streaks of all nodes once these sightings are counted, by name.

    Who is not sighted, or not anew, keeps its streak until it is forgotten. How far apart two
    cycles are does not matter: a streak is forgotten only in a cycle that brings nothing new.
    """
    streaks: dict[str, Streak] = {}
    for name in sorted({*before, *sightings}):
        known, seen = before.get(name), sightings.get(name)
        if seen is not None and (known is None or seen.at > known.at):
            start = known or Streak(at=_LONG_AGO.replace(tzinfo=seen.at.tzinfo))
            streaks[name] = start.after(seen, patience)
        elif known is not None and now - known.at <= patience.forgotten_after:
            streaks[name] = known
    return streaks
