"""Spans: what took how long within what, for whoever follows a run with a tracing system.

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
        """A plugin's turn, from its beginning to its end; asked on the thread that draws."""

    def drawn(self, moves: int, errors: Sequence[str]) -> None:
        """What came of it."""


class Spans(Protocol):
    """Who is told when things begin and end."""

    def cycle(self) -> AbstractContextManager[object]:
        """A cycle."""

    def planning(self) -> AbstractContextManager[Planning]:
        """A plan of a cycle."""

    def around(self, mover: Mover) -> Mover:
        """The same mover, each of its moves followed."""


class _NoPlanning:
    def turn(self, turn: Turn) -> AbstractContextManager[object]:
        return nullcontext()

    def drawn(self, moves: int, errors: Sequence[str]) -> None:
        """Lets it pass."""


class _NoSpans:
    def cycle(self) -> AbstractContextManager[object]:
        return nullcontext()

    def planning(self) -> AbstractContextManager[Planning]:
        return nullcontext(_NoPlanning())

    def around(self, mover: Mover) -> Mover:
        return mover


NO_SPANS: Spans = _NoSpans()
"""Nobody follows: nothing is kept, and nothing costs."""
