"""What the next plan costs, once a snapshot is there and a few pods have changed.

    python -m bench.steady --nodes 5000 --pods 30 --changed 1 [--write]

A cluster is read as usual and planned over once. Then a share of its pods, in percent, is replaced
by others on other nodes, the next snapshot is made from the last, and the next plan is drawn.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from statistics import median

from msgspec import structs

from bench.generate import Generator, shape_of
from bench.report import table, within_markers
from bench.run import DOCS, policy_text, repeatable, setting
from resettle.clock import Stopwatch
from resettle.dumps.collection import Collection
from resettle.framework import Descheduler, build_descheduler, default_registry, load_policy
from resettle.model import Change, Changes, Pod, Snapshot

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROUNDS = 5


def main(words: Sequence[str] | None = None) -> int:
    """Measures, prints, and writes if asked to."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(
        prog="bench.steady", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=30, help="pods on each node, on average")
    parser.add_argument("--changed", type=float, default=1, help="percent of pods that change")
    parser.add_argument("--write", action="store_true", help="put the figures into docs")
    chosen = parser.parse_args(words)
    text = measured(chosen.nodes, chosen.pods, chosen.changed)
    when = datetime.now(UTC).date()
    command = repeatable(words).replace("bench.run", "bench.steady")
    text = f"{text}\n\n{setting(None)}\n\n- {when}, `{command}`"
    print(text)
    if chosen.write:
        page = DOCS / "reference" / "performance.md"
        page.write_text(within_markers(page.read_text(), "steady", text))
    return 0


def measured(nodes: int, pods: int, percent: float) -> str:
    """The table of medians over some rounds."""
    gc.disable()
    snapshot = taken(nodes, pods)
    plugins = default_registry()
    planner = build_descheduler(
        load_policy(policy_text("on"), name="bench", plugins=plugins), plugins
    )
    planner.draw_plan(snapshot)
    lots = random.Random(753)
    rounds: list[dict[str, float]] = []
    moves = changed = 0
    for i in range(ROUNDS):
        changes = replaced(snapshot, percent, lots, i)
        changed = len(changes.pods.put)
        snapshot, moves, spent = timed(planner, snapshot, changes)
        rounds.append(spent)
    rows = [(name, f"{median(spent[name] for spent in rounds) * 1000:.0f}") for name in rounds[0]]
    total = median(sum(spent.values()) for spent in rounds) * 1000
    heading = (
        f"{nodes:,} nodes, {len(snapshot.pod_index):,} pods, {changed:,} of them changed, "
        f"{moves:,} moves planned; medians of {ROUNDS} rounds, `nodeFit` on:"
    )
    shown = table(("phase", "CPU ms"), [*rows, ("together", f"{total:.0f}")], 1)
    return f"{heading}\n\n{shown}"


def timed(
    planner: Descheduler, before: Snapshot, changes: Changes
) -> tuple[Snapshot, int, dict[str, float]]:
    """The next snapshot, how many moves its plan has, and CPU seconds by phase."""
    watch = Stopwatch[str]()
    with watch.phase("snapshot"):
        snapshot = before.next(changes)
    plan = planner.draw_plan(snapshot, phase=lambda turn: watch.phase(turn.plugin))
    return snapshot, len(plan.moves), {name: spent.cpu for name, spent in watch.spent.items()}


def taken(nodes: int, pods: int) -> Snapshot:
    """A generated cluster as a snapshot."""
    collection = Collection()
    collection.begin_source("bench")
    for kind, text in Generator(shape_of(nodes, pods)).lists():
        collection.add(kind, text.encode(), kind)
    return collection.snapshot(AT)


def replaced(snapshot: Snapshot, percent: float, lots: random.Random, i: int) -> Changes:
    """Some pods gone, and as many of their like on the nodes of others."""
    movable = [pod for pod in snapshot.pods if not pod.template.owned_by(("DaemonSet",))]
    gone = lots.sample(movable, round(len(snapshot.pod_index) * percent / 100))
    places = [pod.node for pod in gone]
    lots.shuffle(places)
    put: list[Pod] = [
        structs.replace(pod, name=f"{pod.name}-{i}", uid=f"{pod.uid}-{i}", node=place)
        for pod, place in zip(gone, places, strict=True)
    ]
    keys = frozenset(pod.key for pod in gone)
    return Changes(at=AT + timedelta(minutes=5 * (i + 1)), pods=Change(tuple(put), keys))


if __name__ == "__main__":
    sys.exit(main())
