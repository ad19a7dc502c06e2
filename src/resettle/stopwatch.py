"""Where time goes: for the report of a cycle, for `--profile-cycle`, and for bug reports."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

Phase = TypeVar("Phase", bound=Hashable)


class Spent(NamedTuple):
    """Seconds that a phase took."""

    wall: float
    cpu: float
    """Of the whole process."""


class Stopwatch(Generic[Phase]):
    """Adds up wall clock and CPU time by phase, in the order phases first came."""

    def __init__(self) -> None:
        self.spent: dict[Phase, Spent] = {}

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Times what happens inside."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            before = self.spent.get(name, Spent(0.0, 0.0))
            self.spent[name] = Spent(
                before.wall + time.perf_counter() - wall,
                before.cpu + time.process_time() - cpu,
            )
