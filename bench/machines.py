"""What becomes of 130 virtual machines on 12 nodes, half of them saturated, under several policies.

    python -m bench.machines --seeds 20 [--write]

The cluster is that of `examples/load-aware-vms`, with other loads for each seed. Nothing is timed:
the same seeds give the same table, and a test holds the page to it.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from bench.heat import picture
from bench.report import table, within_markers
from resettle.controllers.soft_taints.reconcile import Mode, SimulatedTainter, task_of
from resettle.framework import Descheduler, build_descheduler, default_registry, load_policy
from resettle.model import Snapshot
from resettle.simulate.load_model import CpuDemand
from resettle.simulate.result import SimulationResult, run_simulation
from resettle.testing import World

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "load-aware-vms"
PAGE, PICTURE = (
    ROOT / "docs" / "policy" / "rebalancing-vms.md",
    ROOT / "docs" / "policy" / "rebalance.svg",
)
SEEDS = 20
CYCLES = 65
"""Fifteen to settle in, and fifty to stay still."""
INTERVAL = timedelta(minutes=5)
ONE_TAINT = ("style: OpenShift", "style: Levels")


class Setting(NamedTuple):
    """A policy of the example, whether nodes are tainted by it, and what is written otherwise."""

    file: str
    tainted: bool
    edit: tuple[str, str] = ("", "")


SETTINGS: Mapping[str, Setting] = {
    "`descheduler/v1alpha2`, no taints": Setting("descheduler.yaml", False),
    "`resettle/v1`, no taints": Setting("policy.yaml", False),
    "`resettle/v1`, one taint": Setting("policy.yaml", True, ONE_TAINT),
    "`resettle/v1`, OpenShift's two": Setting("policy.yaml", True),
}


@cache
def builder() -> ModuleType:
    """The script that writes the example."""
    found = importlib.util.spec_from_file_location("load_aware_vms", EXAMPLE / "build.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def planner_of(setting: Setting) -> Descheduler:
    """The policy made ready."""
    text = (EXAMPLE / setting.file).read_text(encoding="utf-8").replace(*setting.edit)
    plugins = default_registry()
    return build_descheduler(load_policy(text, name=setting.file, plugins=plugins), plugins)


def story_of(setting: Setting, seed: int, figure: str = "Pressure") -> SimulationResult:
    """What becomes of the machines with the loads of this seed."""
    planner, machines = planner_of(setting), builder().machines(seed)
    (question,) = planner.measures
    wants = CpuDemand({it.key: it.wants for it in machines}, {question: figure})
    tainter = SimulatedTainter(task_of(planner, Mode.TAINT)) if setting.tainted else None
    return run_simulation(
        "with soft taints" if setting.tainted else "without soft taints",
        planner,
        taken(seed),
        interval=INTERVAL,
        cycles=CYCLES,
        demand=wants,
        tainter=tainter,
    )


@cache
def taken(seed: int) -> Snapshot:
    """The cluster with the machines of this seed."""
    return World(tuple(builder().cluster(builder().machines(seed)))).snapshot()


def row(name: str, stories: Sequence[SimulationResult]) -> tuple[str, ...]:
    """The figures of one setting over all seeds."""
    after = [story.settled_after for story in stories]
    settled = [it for it in after if it is not None]
    first = [fullest(story.loads.values()) for story in stories]
    last = [fullest(story.cycles[-1].after.values()) for story in stories]
    return (
        name,
        f"{len(settled)} of {len(after)}",
        _spread(settled) if settled else "-",
        _spread([story.move_count for story in stories]),
        f"{sum(story.returned for story in stories):,}",
        f"{sum(rally.times for story in stories for rally in story.ping_pong):,}",
        f"{statistics.mean(first):.0f}% → {statistics.mean(last):.0f}%",
    )


def fullest(loads: Iterable[object]) -> float:
    """What the query says of the fullest node."""
    return max(getattr(load, "measured", None) or 0.0 for load in loads)


def _spread(counts: Sequence[int]) -> str:
    return f"{statistics.median_low(counts)} ({min(counts)} to {max(counts)})"


def written(stories: Mapping[str, Sequence[SimulationResult]]) -> str:
    """The table of the page."""
    heads = ("policy", "settled", "after cycle", "moves", "for nothing", "twice", "fullest node")
    return table(heads, [row(name, found) for name, found in stories.items()], 1)


def main(words: Sequence[str] | None = None) -> int:
    """Simulates, prints, and writes page and picture if asked to."""
    parser = argparse.ArgumentParser(
        prog="bench.machines", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--write", action="store_true", help="put table and picture into docs")
    chosen = parser.parse_args(words)
    seeds = range(1, chosen.seeds + 1)
    text = written({name: [story_of(it, seed) for seed in seeds] for name, it in SETTINGS.items()})
    print(text)
    if chosen.write:
        PAGE.write_text(within_markers(PAGE.read_text(), "machines", text))
        PICTURE.write_text(drawn())
    return 0


def drawn() -> str:
    """The picture: the example as it is, without taints and with them."""
    pair = (SETTINGS["`resettle/v1`, no taints"], SETTINGS["`resettle/v1`, OpenShift's two"])
    return picture([story_of(it, builder().SEED) for it in pair])


if __name__ == "__main__":
    raise SystemExit(main())
