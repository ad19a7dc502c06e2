"""Who is told what a run does while it does it."""

from __future__ import annotations

from typing import Protocol

from resettle.evict.ledger import Entry
from resettle.framework.mover import Outcome
from resettle.framework.plan import Move
from resettle.loop.status import LastCycle


class Onlooker(Protocol):
    """Told on the event loop, thousands of times in a large cycle: it had better be quick."""

    def moved(self, move: Move, outcome: Outcome) -> None:
        """A move was asked for, or shown in a dry run, and this came of it."""

    def settled(self, entry: Entry, left: bool) -> None:
        """A move is no longer in flight: the pod has left, or stays."""

    def cycle_ended(self, cycle: LastCycle) -> None:
        """A cycle is over, whatever came of it."""


class Nobody:
    """Looks away."""

    def moved(self, move: Move, outcome: Outcome) -> None:
        """Lets it pass."""

    def settled(self, entry: Entry, left: bool) -> None:
        """Lets it pass."""

    def cycle_ended(self, cycle: LastCycle) -> None:
        """Lets it pass."""


NOBODY = Nobody()
