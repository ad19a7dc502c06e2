"""The state of a component at this moment, and what observers of a run are called with.

Health and metrics read `ComponentStatus` whenever they are asked for. A `RunObserver` is called
while the run is at work.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from resettle.cycle import CycleReport
from resettle.eviction.in_flight import InFlightMove, MoveStage
from resettle.framework.mover import MoveResponse
from resettle.framework.plan import Move


class Role(StrEnum):
    """The role of this copy in leader election."""

    ALONE = "alone"
    """There is no leader election."""
    STANDBY = "standby"
    """Another copy leads, or none does yet."""
    LEADING = "leading"
    LOST = "lost"
    """It led, and may act no more."""


class Result(StrEnum):
    """How a cycle can end."""

    DONE = "done"
    PLUGIN_FAILED = "plugin-failed"
    """Done, but for the turns of plugins that failed."""
    CUT_SHORT = "cut-short"
    """Not all of the plan was sent."""
    SKIPPED = "skipped"
    """The cache was too old, or there were too few nodes."""
    FAILED = "failed"


class LastCycle(Struct, frozen=True):
    """The cycle that ended last."""

    ended_at: datetime
    took: float
    result: Result


class ControllerStatus(Struct, frozen=True, kw_only=True):
    """The state of one controller, for health and metrics."""

    profile: str
    name: str
    running: bool
    restarts: int = 0
    failure: str = ""
    """Why it is not running; empty while it runs."""
    figures: Mapping[str, float] = {}
    """Figures that the controller has set, by name."""


class ComponentStatus(Struct, frozen=True, kw_only=True):
    """The state of a component right now. Ages are in seconds by the steady clock."""

    role: Role
    lease_silence: float = 0.0
    """Time since the API server last answered a request about the lease."""
    policy_taken_at: datetime | None = None
    policy_usable: bool = False
    """Whether the policy file was valid when it was last read."""
    ages: Mapping[str, float] | None = None
    """How old the cache of each kind is; None until everything has been listed."""
    in_flight: Mapping[MoveStage, int] = {}
    quiet_for: float = 0.0
    """Time since the last sign of work: a pass that began or ended, an answer to an eviction."""
    interval: float = 0.0
    last: LastCycle | None = None
    controllers: tuple[ControllerStatus, ...] = ()
    stopping: bool = False


class RunObserver(Protocol):
    """Called on the event loop, thousands of times in a large cycle: each call must be quick."""

    def move_sent(self, move: Move, response: MoveResponse) -> None:
        """A move was sent, or shown in a dry run, with this response."""

    def move_ended(self, entry: InFlightMove, left: bool) -> None:
        """A move is no longer in flight: the pod has left, or stays."""

    def cycle_ended(self, cycle: LastCycle) -> None:
        """A cycle has ended, with any result."""


class IgnoreRun:
    """A `RunObserver` that ignores all events."""

    def move_sent(self, move: Move, response: MoveResponse) -> None:
        """Do nothing."""

    def move_ended(self, entry: InFlightMove, left: bool) -> None:
        """Do nothing."""

    def cycle_ended(self, cycle: LastCycle) -> None:
        """Do nothing."""


IGNORE_RUN = IgnoreRun()


def result_of(report: CycleReport) -> Result:
    """The result of the cycle with this report."""
    if report.plan.skipped:
        return Result.SKIPPED
    if report.cut_short:
        return Result.CUT_SHORT
    return Result.PLUGIN_FAILED if report.errors else Result.DONE
