"""Rounds of the soft tainter as others see them: how one ended, and who is told."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from resettle.controllers.soft_taints.tending import Tended


class RoundResult(StrEnum):
    """How a round can end."""

    DONE = "done"
    INCOMPLETE = "incomplete"
    """Done, but for nodes that could not be written."""
    SKIPPED = "skipped"
    """What was known of the cluster was too old."""
    FAILED = "failed"


class LastRound(Struct, frozen=True):
    """The round that ended last."""

    ended_at: datetime
    took: float
    result: RoundResult
    tended: Tended | None = None
    """None where it did not come so far."""


class RoundOnlooker(Protocol):
    """Told of every round."""

    def round_ended(self, last: LastRound) -> None:
        """A round is over, whatever came of it."""


class NobodyLooks:
    """Looks away."""

    def round_ended(self, last: LastRound) -> None:
        """Lets it pass."""


NOBODY_LOOKS = NobodyLooks()
