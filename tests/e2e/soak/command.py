"""Runs resettle for minutes while pods change all the time, and prints the result.

    python -m tests.e2e.soak.command --minutes 10 --pods 2000

Uses the control plane that RESETTLE_E2E_FOLDER names, or starts one. Exit status: 0 if the cache
equals a fresh list in the end, every eviction is logged and memory has not grown; 1 if not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.e2e.processes.run import Account
from tests.e2e.soak.harness import MOST_GROWTH, WARM, SoakResult, soak
from tests.e2e.soak.workloads import SoakCluster
from tools.control_plane.build import built
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access, ControlPlane

SHOWN = 12
"""Samples of memory in the summary."""


def main(words: list[str]) -> int:
    """Runs the soak; returns the exit status."""
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
        soak_cluster = stack.enter_context(SoakCluster(api, chosen.pods))
        print(f"creating {chosen.pods} pods", file=sys.stderr, flush=True)
        soak_cluster.create_deployments()
        print(f"soaking for {chosen.minutes:g} minutes", file=sys.stderr, flush=True)
        try:
            result = soak(account, soak_cluster, chosen.minutes * 60, chosen.interval)
        except AssertionError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print(summary(result))
    return 0 if result.growth <= MOST_GROWTH else 1


def summary(result: SoakResult) -> str:
    """The result as text."""
    samples = result.samples
    step = max(1, len(samples) // SHOWN)
    shown = [*samples[::step], samples[-1]]
    known = ", ".join(f"{count} {kind}" for kind, count in result.known.items())
    return "\n".join(
        [
            f"{result.seconds:.0f} s, {result.cycles} cycles, {result.evictions} evictions",
            f"scaled up by {result.ups} pods and down by {result.downs}, "
            f"deleted {result.deletions}",
            f"{result.made} pods created, {result.events} changes of pods",
            f"in the cache at the end, as in a fresh list: {known}",
            f"memory after cycle {WARM}: {result.warm.rss_kb / 1024:.1f} MiB, "
            f"at the end {samples[-1].rss_kb / 1024:.1f} MiB: {result.growth:.3f} times",
            "memory by cycle: "
            + ", ".join(f"{sample.cycle}: {sample.rss_kb / 1024:.1f}" for sample in shown),
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
