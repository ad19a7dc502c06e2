"""Where the time of a command goes, for `--profile-cycle` and for bug reports."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Adds up wall clock and CPU time by phase, in the order phases first came."""

    def __init__(self) -> None:
        self._spent: dict[str, tuple[float, float]] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times what happens inside."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            so_far = self._spent.get(name, (0.0, 0.0))
            self._spent[name] = (
                so_far[0] + time.perf_counter() - wall,
                so_far[1] + time.process_time() - cpu,
            )

    def cpu(self) -> dict[str, float]:
        """CPU seconds of each phase."""
        return {name: cpu for name, (_, cpu) in self._spent.items()}

    def table(self) -> str:
        """Phases with their times in milliseconds, and the whole process below."""
        width = max(map(len, (*self._spent, "whole process")))
        lines = [f"{'PHASE':{width}}  {'WALL ms':>9}  {'CPU ms':>9}"]
        for name, (wall, cpu) in self._spent.items():
            lines.append(f"{name:{width}}  {wall * 1000:9.1f}  {cpu * 1000:9.1f}")
        total = sum(wall for wall, _ in self._spent.values())
        lines.append(f"{'whole process':{width}}  {total * 1000:9.1f}  {process_cpu() * 1000:9.1f}")
        lines.append(f"peak memory {peak_mib():.0f} MiB")
        return "\n".join(lines)


def process_cpu() -> float:
    """CPU seconds of the process so far, its start included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mib() -> float:
    """The most memory the process has held, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024
