"""Tracing spans of a run: which step took how long, within which other step.

Here are the protocols and the no-op spans; `resettle.telemetry.tracing` has those that are sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from resettle.framework.mover import Mover
from resettle.framework.plan import Turn


class Planning(Protocol):
    """A plan being drawn."""

    def turn(self, turn: Turn) -> AbstractContextManager[object]:
        """A span around a plugin's turn; entered on the thread that draws the plan."""

    def record_result(self, moves: int, errors: Sequence[str]) -> None:
        """Record the number of moves and the errors of the plan."""


class Spans(Protocol):
    """Opens a span for each step of a run."""

    def cycle(self) -> AbstractContextManager[object]:
        """The span of a cycle."""

    def planning(self) -> AbstractContextManager[Planning]:
        """The span of one plan, within the cycle."""

    def wrap_mover(self, mover: Mover) -> Mover:
        """The mover, with a span around each of its moves."""


class _NoPlanning:
    """Ignores everything about a plan."""

    def turn(self, turn: Turn) -> AbstractContextManager[object]:
        return nullcontext()

    def record_result(self, moves: int, errors: Sequence[str]) -> None:
        """Ignores the result."""


class _NoSpans:
    """Opens no spans."""

    def cycle(self) -> AbstractContextManager[object]:
        return nullcontext()

    def planning(self) -> AbstractContextManager[Planning]:
        return nullcontext(_NoPlanning())

    def wrap_mover(self, mover: Mover) -> Mover:
        return mover


NO_SPANS: Spans = _NoSpans()
"""No-op tracer."""
