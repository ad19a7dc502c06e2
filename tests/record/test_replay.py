"""The past can be asked: whatever happened in a cycle, its plans come out again as they were."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.cycle import CycleReport
from resettle.errors import InputError
from resettle.framework import MoveResult
from resettle.model.decoding.decoder import Decoder
from resettle.model.snapshot import Snapshot
from resettle.record.reader import RecordReader
from resettle.record.segments import GzipLines, RecordLimits, segments_in
from resettle.record.writer import RecordWriter
from resettle.testing.random.clusters import cluster_of
from resettle.testing.strategies import policies
from tests.builders import Case, cases
from tests.framework.fakes import EAGER, by_chance, by_name
from tests.model.test_changes import changes, mixed, taken
from tests.record.harness import OLD_PODS, PLENTY, lived, replays_as, world

ANY = [
    MoveResult.EVICTED,
    *(result for result in MoveResult if result not in (MoveResult.SHOWN, MoveResult.UNSENT)),
]
FEW = RecordLimits(size=1 << 14, age=timedelta(days=365))
THOROUGH = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def cycles(
    case: Case, other: dict[str, Any], seed: int, count: int
) -> Iterator[tuple[Snapshot, CycleReport]]:
    """Cycles over a cluster that changes, with declined moves and now and then another policy."""
    dice, decoder = Random(seed), Decoder()
    objects = case.objects
    snapshot = replace(taken(objects, decoder, 0), moving=case.moving)
    for number in range(count):
        document = dice.choice([case.document, case.document, other])
        report = lived(document, snapshot, by_chance(seed + number, ANY))
        yield snapshot, report
        if dice.random() < 0.2:
            later, decoder = objects, Decoder()  # as after a new list: all alike, nothing the same
            snapshot = taken(later, decoder, number + 1)
        else:
            pods = range(dice.randint(0, 30))
            world = cluster_of(dice, nodes=dice.randint(1, 7), pods=pods, budgets=3)
            later = mixed(dice, objects, world.objects)
            scratch = taken(later, decoder, number + 1)
            snapshot = snapshot.next(changes(objects, later, scratch))
        uids = [pod.uid for pod in snapshot.pods]
        snapshot = replace(
            snapshot,
            history=report.plan.history,
            moving=frozenset(dice.sample(uids, min(len(uids), dice.choice([0, 1, 2])))),
        )
        objects = later


@THOROUGH
@given(
    case=cases(),
    other=policies(plugins={EAGER: [{}]}),
    seed=st.integers(0, 2**32),
    count=st.integers(1, 5),
    bounds=st.sampled_from([PLENTY, FEW]),
    restarts=st.booleans(),
)
def test_every_plan_of_every_recorded_cycle_is_drawn_again(
    case: Case, other: dict[str, Any], seed: int, count: int, bounds: RecordLimits, restarts: bool
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        archive, reports = RecordWriter(folder, bounds), []
        for snapshot, report in cycles(case, other, seed, count):
            archive.write(snapshot, report)
            reports.append(report)
            if restarts:
                archive.close()
                archive = RecordWriter(folder, bounds)
        archive.close()

        book = RecordReader(name)
        assert book.warnings == []
        kept = {cycle.entry.cycle: cycle for cycle in book.cycles}
        assert max(kept) == count
        assert bounds is FEW or len(kept) == count
        for number, recorded in kept.items():
            replays_as(book, recorded, reports[number - 1])


def segment_entries(name: str) -> Iterator[bytes]:
    """The lines that are left of what cycles decided."""
    for segment in segments_in(Path(name)):
        yield from GzipLines(segment.cycles)


@THOROUGH
@given(case=cases(), seed=st.integers(0, 2**32), cut=st.integers(1, 400))
def test_what_was_whole_before_a_cut_is_whole_after_it(case: Case, seed: int, cut: int) -> None:
    with TemporaryDirectory() as name:
        archive, reports = RecordWriter(Path(name), PLENTY), []
        for snapshot, report in cycles(case, case.document, seed, 4):
            archive.write(snapshot, report)
            reports.append(report)
        archive.close()
        last = segments_in(Path(name))[-1]
        content = last.cycles.read_bytes()
        last.cycles.write_bytes(content[: max(0, len(content) - cut)])

        if not any(segment_entries(name)):
            with pytest.raises(InputError, match="no cycle that can be read"):
                RecordReader(name)
            return
        book = RecordReader(name)
        assert [cycle.entry.cycle for cycle in book.cycles] == list(range(1, len(book.cycles) + 1))
        for recorded, report in zip(book.cycles, reports, strict=False):
            replays_as(book, recorded, report)


def test_a_policy_is_written_when_it_changes() -> None:
    """Most of the text of a record would else be the policy."""
    with TemporaryDirectory() as name:
        archive = RecordWriter(Path(name), PLENTY)
        strict = {**OLD_PODS, "maxNoOfPodsToEvictTotal": 1}
        snapshot = world("a", "b")
        for document in (OLD_PODS, OLD_PODS, strict, strict, OLD_PODS):
            archive.write(snapshot, lived(document, snapshot, by_name({})))
        archive.close()

        book = RecordReader(name)
        assert [cycle.entry.policy is None for cycle in book.cycles] == [
            False,
            True,
            False,
            True,
            False,
        ]
        assert [json.loads(cycle.policy) for cycle in book.cycles] == [
            *([OLD_PODS] * 2),
            *([strict] * 2),
            OLD_PODS,
        ]
