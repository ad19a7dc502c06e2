"""What it costs to record cycles, and to ask the record.

    python -m bench.recording --nodes 1000 --pods 30 --changed 1 [--write]

A cluster is planned over again and again. In between a share of its pods, in percent, is replaced
by others, and each plan moves as many. What is measured is what `resettle run --record` does beside
its cycles: bytes on the disk and CPU.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.report import table, within_markers
from bench.run import DOCS, policy_text, repeatable, setting
from bench.steady import replaced, taken
from resettle.cycle import CycleReport, Round
from resettle.framework import (
    MoveResponse,
    MoveResult,
    build_descheduler,
    default_registry,
    load_policy,
)
from resettle.record.reader import RecordReader
from resettle.record.replay import rebuild_descheduler, replay_cycle
from resettle.record.segments import RecordLimits, segments_in
from resettle.record.writer import RecordWriter

CYCLES = 12
A_DAY = 288
"""Cycles, at one in five minutes."""


def main(words: Sequence[str] | None = None) -> int:
    """Measures, prints, and writes if asked to."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(
        prog="bench.recording", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--pods", type=int, default=30, help="pods on each node, on average")
    parser.add_argument("--changed", type=float, default=1, help="percent of pods that change")
    parser.add_argument("--write", action="store_true", help="put the figures into docs")
    chosen = parser.parse_args(words)
    rows = [measured(nodes, chosen.pods, chosen.changed) for nodes in chosen.nodes]
    head = (
        "cluster",
        "a capture",
        "CPU ms",
        "a cycle",
        "CPU ms",
        "a day",
        "to ask the last cycle, CPU s",
    )
    when = datetime.now(UTC).date()
    command = repeatable(words).replace("bench.run", "bench.recording")
    text = f"{table(head, rows, 1)}\n\n{setting(None)}\n\n- {when}, `{command}`"
    print(text)
    if chosen.write:
        page = DOCS / "operate" / "record.md"
        page.write_text(within_markers(page.read_text(), "recording", text))
    return 0


def measured(nodes: int, pods: int, percent: float) -> tuple[str, ...]:
    """The row of one cluster."""
    gc.disable()
    snapshot, lots = taken(nodes, pods), random.Random(753)
    plugins, changed = default_registry(), round(nodes * pods * percent / 100)
    policy = policy_text("on") + f"maxNoOfPodsToEvictTotal: {changed}\n"
    planner = build_descheduler(load_policy(policy, name="bench", plugins=plugins), plugins)
    sizes, costs = [0], []
    with tempfile.TemporaryDirectory() as name:
        archive = RecordWriter(Path(name), RecordLimits(1 << 40, timedelta(days=365)))
        for i in range(CYCLES):
            plan = planner.draw_plan(snapshot)
            outcomes = (MoveResponse(MoveResult.EVICTED),) * len(plan.moves)
            report = CycleReport((Round(plan, outcomes),), 1.0, policy=policy)
            began = time.process_time()
            archive.write(snapshot, report)
            costs.append((time.process_time() - began) * 1000)
            sizes.append(sum(it.size for it in segments_in(Path(name))))
            snapshot = snapshot.next(replaced(snapshot, percent, lots, i))
        archive.close()
        began = time.process_time()
        book = RecordReader(name)
        last = book.cycles[-1]
        replay_cycle(last, rebuild_descheduler(last, plugins), book.snapshot(last))
        asked = time.process_time() - began
    grown = [after - before for before, after in pairwise(sizes)]
    each = median(grown[1:])
    return (
        f"{nodes:,} nodes, {len(snapshot.pod_index):,} pods, {changed:,} replaced, "
        f"{len(plan.moves):,} moved",
        _bytes(grown[0]),
        f"{costs[0]:.0f}",
        _bytes(each),
        f"{median(costs[1:]):.0f}",
        _bytes(grown[0] + A_DAY * each),
        f"{asked:.1f}",
    )


def _bytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


if __name__ == "__main__":
    sys.exit(main())
