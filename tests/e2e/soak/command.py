"""Runs resettle beside constant change for minutes, and says what it came to.

    python -m tests.e2e.soak.command --minutes 10 --pods 2000

Takes the control plane that RESETTLE_E2E_FOLDER names, or starts one. Exit status: 0 if what is
known in the end equals a fresh list, every eviction is accounted for and memory has not grown;
1 if not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.e2e.processes.run import Account
from tests.e2e.soak.harness import MOST_GROWTH, WARM, Figures, soak
from tests.e2e.soak.workloads import Estate
from tools.control_plane.build import built
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access, ControlPlane

SHOWN = 12
"""Samples of memory in the summary."""


def main(words: list[str]) -> int:
    """How the soak ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.soak.command", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--interval", default="3s", help="of resettle's cycles (%(default)s)")
    chosen = parser.parse_args(words)
    with ExitStack() as stack:
        folder = os.environ.get("RESETTLE_E2E_FOLDER")
        plane = Access(Path(folder)) if folder else stack.enter_context(ControlPlane(built()))
        api = stack.enter_context(plane.api(QUIET))
        own = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        account = stack.enter_context(Account(plane, api, own))
        estate = stack.enter_context(Estate(api, chosen.pods))
        print(f"making {chosen.pods} pods", file=sys.stderr, flush=True)
        estate.settle()
        print(f"soaking for {chosen.minutes:g} minutes", file=sys.stderr, flush=True)
        try:
            figures = soak(account, estate, chosen.minutes * 60, chosen.interval)
        except AssertionError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print(told(figures))
    return 0 if figures.growth <= MOST_GROWTH else 1


def told(figures: Figures) -> str:
    """The figures as a person reads them."""
    samples = figures.samples
    step = max(1, len(samples) // SHOWN)
    shown = [*samples[::step], samples[-1]]
    known = ", ".join(f"{count} {kind}" for kind, count in figures.known.items())
    return "\n".join(
        [
            f"{figures.seconds:.0f} s, {figures.cycles} cycles, {figures.evictions} evictions",
            f"asked for {figures.ups} pods more and {figures.downs} fewer, "
            f"deleted {figures.deletions}",
            f"{figures.made} pods made, {figures.events} changes of pods",
            f"known in the end, as a fresh list has it: {known}",
            f"memory after cycle {WARM}: {figures.warm.rss_kb / 1024:.1f} MiB, "
            f"in the end {samples[-1].rss_kb / 1024:.1f} MiB: {figures.growth:.3f} times",
            "memory by cycle: " + ", ".join(f"{it.cycle}: {it.rss_kb / 1024:.1f}" for it in shown),
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
