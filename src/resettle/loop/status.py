"""How a run is doing at this moment, for whoever asks from outside."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from resettle.cycle import Report
from resettle.evict.ledger import Stage


class Role(StrEnum):
    """Which part we play among several copies."""

    ALONE = "alone"
    """Nobody elects a leader."""
    STANDBY = "standby"
    """Another leads, or nobody yet."""
    LEADING = "leading"
    LOST = "lost"
    """We led, and may act no more."""


class Result(StrEnum):
    """How a cycle can end."""

    DONE = "done"
    PLUGIN_FAILED = "plugin-failed"
    """Done, but for the turns of plugins that failed."""
    CUT_SHORT = "cut-short"
    """Not all of the plan was sent."""
    SKIPPED = "skipped"
    """There was nothing to go by, or too few nodes."""
    FAILED = "failed"


class LastCycle(Struct, frozen=True):
    """The cycle that ended last."""

    ended_at: datetime
    took: float
    result: Result


class Status(Struct, frozen=True, kw_only=True):
    """What is so right now. Ages are in seconds by the steady clock."""

    role: Role
    lease_silence: float = 0.0
    """Time since the API server last told us about the lease."""
    policy_taken_at: datetime | None = None
    policy_usable: bool = False
    """Whether the policy's file was in order when it was last read."""
    ages: Mapping[str, float] | None = None
    """How old what is known of each kind is; None while nothing has been listed as a whole."""
    in_flight: Mapping[Stage, int] = {}
    quiet_for: float = 0.0
    """Time since the last sign of work: a cycle that began or ended, an answer to an eviction."""
    interval: float = 0.0
    last: LastCycle | None = None
    stopping: bool = False


def result_of(report: Report) -> Result:
    """How the cycle ended that this reports of."""
    if report.plan.skipped:
        return Result.SKIPPED
    if report.cut_short:
        return Result.CUT_SHORT
    return Result.PLUGIN_FAILED if report.errors else Result.DONE
