"""What `--profile-cycle` prints: phases with their times, and what the process took in all."""

from __future__ import annotations

import resource
import sys

from resettle.stopwatch import Stopwatch


def timetable(watch: Stopwatch[str]) -> str:
    """Phases with their times in milliseconds, and the whole process below."""
    width = max(map(len, (*watch.spent, "whole process")))
    lines = [f"{'PHASE':{width}}  {'WALL ms':>9}  {'CPU ms':>9}"]
    for name, (wall, cpu) in watch.spent.items():
        lines.append(f"{name:{width}}  {wall * 1000:9.1f}  {cpu * 1000:9.1f}")
    total = sum(spent.wall for spent in watch.spent.values())
    lines.append(f"{'whole process':{width}}  {total * 1000:9.1f}  {_process_cpu() * 1000:9.1f}")
    lines.append(f"peak memory {_peak_mib():.0f} MiB")
    return "\n".join(lines)


def _process_cpu() -> float:
    """CPU seconds of the process so far, its start included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_mib() -> float:
    """The most memory the process has held, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024
