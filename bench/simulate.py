"""A cluster over many cycles, under descheduler's semantics and under `resettle/v1`.

    python -m bench.simulate --nodes 100 --pods 30 --cycles 50 [--write]

One generated cluster is simulated with the same strategies three times: as the policy is, as
`resettle/v1` with its safe limits, and as `resettle/v1` without any.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from time import process_time

from bench.improved import policies
from bench.report import table, within_markers
from bench.run import DOCS, repeatable, setting
from bench.steady import taken
from resettle.framework import build_descheduler, default_registry, load_policy
from resettle.model import Snapshot
from resettle.simulate.measures import count_broken_rules
from resettle.simulate.result import SimulationResult, run_simulation

INTERVAL = timedelta(minutes=5)


def main(words: Sequence[str] | None = None) -> int:
    """Measures, prints, and writes if asked to."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(
        prog="bench.simulate", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=30, help="pods on each node, on average")
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--write", action="store_true", help="put the figures into docs")
    chosen = parser.parse_args(words)
    text = measured(chosen.nodes, chosen.pods, chosen.cycles)
    command = repeatable(words).replace("bench.run", "bench.simulate")
    text = f"{text}\n\n{setting(None)}\n\n- {datetime.now(UTC).date()}, `{command}`"
    print(text)
    if chosen.write:
        page = DOCS / "reference" / "performance.md"
        page.write_text(within_markers(page.read_text(), "simulate", text))
    return 0


def measured(nodes: int, pods: int, cycles: int) -> str:
    """The table of what each policy comes to."""
    snapshot = taken(nodes, pods)
    gc.collect()
    gc.freeze()
    rows = [row(called, *simulated(text, snapshot, cycles)) for called, text in policies().items()]
    heads = (
        *("policy", "evictions", "for nothing", "ping-pong", "in the last cycle"),
        *("rules broken", "settled after", "CPU s"),
    )
    many = f"{nodes:,} nodes, {len(snapshot.pod_index):,} pods, {cycles} cycles of 5 minutes"
    return f"{many}, `nodeFit` on:\n\n{table(heads, rows, 1)}"


def simulated(text: str, snapshot: Snapshot, cycles: int) -> tuple[SimulationResult, float]:
    """The story of a policy, and the seconds of CPU it took."""
    plugins = default_registry()
    planner = build_descheduler(load_policy(text, name="bench", plugins=plugins), plugins)
    begun = process_time()
    story = run_simulation("bench", planner, snapshot, interval=INTERVAL, cycles=cycles)
    return story, process_time() - begun


def row(called: str, story: SimulationResult, seconds: float) -> tuple[str, ...]:
    """The figures of one policy."""
    last, after = story.cycles[-1], story.settled_after
    return (
        called,
        f"{story.move_count:,}",
        f"{story.returned:,}",
        f"{sum(rally.times for rally in story.ping_pong):,}",
        f"{len(last.moves):,}",
        f"{count_broken_rules(story.violations):,} → {count_broken_rules(last.violations):,}",
        "not" if after is None else f"cycle {after}",
        f"{seconds:.1f}",
    )


if __name__ == "__main__":
    sys.exit(main())
