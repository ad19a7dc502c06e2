"""Cycles that a test makes up, written to a record and read back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from resettle.cli.text.plan import plan_json
from resettle.cycle import CycleReport, Round
from resettle.framework import (
    Descheduler,
    MoveResponse,
    MoveResult,
    Plugin,
    Registry,
    build_descheduler,
    load_policy,
)
from resettle.framework.plan_state import NO_EARLIER_ROUNDS
from resettle.model.snapshot import Snapshot
from resettle.record.reader import RecordedCycle, RecordReader
from resettle.record.replay import rebuild_descheduler, replay_cycle
from resettle.record.segments import RecordLimits
from resettle.record.writer import RecordWriter
from resettle.testing import cluster, node, pod
from tests.framework.fakes import REGISTRY, Cycle, Judge, by_name

PLENTY = RecordLimits(size=1 << 30, age=timedelta(days=365))
HEAD = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
OLD_PODS = {
    **HEAD,
    "profiles": [
        {
            "name": "main",
            "pluginConfig": [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 3600}}],
            "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
        }
    ],
}


def descheduler(text: str, plugins: Mapping[str, Plugin] = REGISTRY) -> Descheduler:
    """The descheduler of the text of a policy."""
    return build_descheduler(load_policy(text, name="policy", plugins=plugins), plugins)


def lived(
    document: Mapping[str, Any],
    snapshot: Snapshot,
    judge: Judge,
    plugins: Mapping[str, Plugin] = REGISTRY,
) -> CycleReport:
    """What a cycle comes to whose moves end as the judge says."""
    text = json.dumps(document)
    cycle = Cycle(descheduler(text, plugins), snapshot, judge)
    ends = iter(cycle.moved)
    rounds = [
        Round(plan, tuple(outcome(next(ends)[1]) for _ in plan.moves)) for plan in cycle.plans
    ]
    return CycleReport(tuple(rounds), 0.25, policy=text)


def outcome(ending: MoveResult) -> MoveResponse:
    """The ending, with a word for those who are declined."""
    return MoveResponse(ending, "no" if ending.declined else "")


def world(*names: str, more: Iterable[dict[str, Any]] = ()) -> Snapshot:
    """Two nodes, the first of which holds old pods of these names."""
    full = node("n1").holding(*(pod(name, age="3h") for name in names))
    return cluster(full, node("n2"), *more).snapshot()


def write(
    folder: Path, snapshots: Sequence[Snapshot], bounds: RecordLimits = PLENTY, **endings: Any
) -> list[CycleReport]:
    """Records a cycle over each of the snapshots in one run."""
    archive = RecordWriter(folder, bounds)
    reports = [lived(OLD_PODS, snapshot, by_name(endings)) for snapshot in snapshots]
    for snapshot, report in zip(snapshots, reports, strict=True):
        archive.write(snapshot, report)
    archive.close()
    return reports


def replays_as(
    book: RecordReader, recorded: RecordedCycle, report: CycleReport, plugins: Registry = REGISTRY
) -> Snapshot:
    """Has a recorded cycle drawn again; it must be what was, byte for byte. Gives what it saw."""
    kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
    snapshot = book.snapshot(recorded, kinds)
    replay = replay_cycle(recorded, rebuild_descheduler(recorded, plugins), snapshot)
    assert [plan_json(act.plan) for act in replay.rounds] == [
        plan_json(round_.plan) for round_ in report.rounds
    ]
    assert [[move.response for move in round_.moves] for round_ in recorded.entry.rounds] == [
        list(round_.responses) for round_ in report.rounds
    ]
    earlier_rounds = NO_EARLIER_ROUNDS
    for act, round_ in zip(replay.rounds, report.rounds, strict=True):
        assert act.earlier_rounds.moves.keys() == earlier_rounds.moves.keys()
        earlier_rounds = earlier_rounds.after(round_.plan.moves, round_.responses)
    return snapshot
