"""The folder of a record: what is in it, how much, and what becomes of it when things go wrong."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from resettle.errors import InputError
from resettle.framework import Args, Draft, MoveResult, Plugin
from resettle.framework.view import View
from resettle.model.changes import Change, Changes
from resettle.model.snapshot import Snapshot
from resettle.record import reader as books
from resettle.record.reader import RecordReader
from resettle.record.replay import rebuild_descheduler, replay_cycle
from resettle.record.segments import GzipLines, GzipWriter, RecordLimits, Segment, segments_in
from resettle.record.writer import RecordWriter
from resettle.testing import NOW
from tests.framework.fakes import REGISTRY, by_name
from tests.record.harness import HEAD, OLD_PODS, PLENTY, lived, replays_as, world, write

HOUR = timedelta(hours=1)


def later(snapshot: Snapshot, by: timedelta, *gone: str) -> Snapshot:
    """The cluster some time later, without these pods."""
    keys = frozenset(f"default/{name}" for name in gone)
    return snapshot.next(Changes(at=snapshot.taken_at + by, pods=Change(gone=keys)))


def two_hours(*gone: str) -> list[Snapshot]:
    """A cluster, and the same an hour later without these pods."""
    first = world("a", "b", "c")
    return [first, later(first, HOUR, *gone)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def numbers(folder: Path) -> list[int]:
    return [cycle.entry.cycle for cycle in RecordReader(str(folder)).cycles]


# -- what there is -------------------------------------------------------------------------------


def test_a_segment_is_a_capture_and_what_changed_since(tmp_path: Path) -> None:
    first = world("a", "b", "c", "d", "e")
    reports = write(tmp_path, [first, later(first, HOUR, "c"), later(first, 2 * HOUR, "a", "c")])

    assert names(tmp_path) == [
        ".lock",
        "00000001-20260131T120000Z.cycles.gz",
        "00000001-20260131T120000Z.objects.gz",
    ]
    book = RecordReader(str(tmp_path))
    seen = [
        replays_as(book, cycle, report) for cycle, report in zip(book.cycles, reports, strict=True)
    ]
    assert [sorted(pod.name for pod in item.pods) for item in seen] == [
        ["a", "b", "c", "d", "e"],
        ["a", "b", "d", "e"],
        ["b", "d", "e"],
    ]
    (segment,) = segments_in(tmp_path)
    pages = list(GzipLines(segment.objects))
    assert [b"gone" in page for page in pages] == [False, False, True, True]


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "record"
    write(folder, [world("a")])

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_numbers_go_on_where_the_last_run_ended(tmp_path: Path) -> None:
    write(tmp_path, two_hours())
    write(tmp_path, [later(world("a"), 2 * HOUR)])

    assert numbers(tmp_path) == [1, 2, 3]
    assert len(segments_in(tmp_path)) == 2


def test_another_cluster_all_at_once_begins_a_segment(tmp_path: Path) -> None:
    write(tmp_path, [world("a", "b", "c"), world("a", "x", "y")])

    assert [segment.first for segment in segments_in(tmp_path)] == [1, 2]


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "00000001-20260131T120000Z.cycles.gz.bak").write_text("mine")
    write(tmp_path, [world("a")], RecordLimits(size=1 << 20, age=HOUR))

    assert numbers(tmp_path) == [1]
    assert (tmp_path / "notes.txt").read_text() == "mine"


# -- how much ------------------------------------------------------------------------------------


def test_a_segment_ends_with_its_share_of_the_age_and_the_oldest_goes(tmp_path: Path) -> None:
    first = world("a", "b", "c")
    every = [later(first, HOUR * i) for i in range(40)]
    write(tmp_path, every, RecordLimits(size=1 << 30, age=16 * HOUR))

    began = [segment.began for segment in segments_in(tmp_path)]
    assert began[-1] - began[0] <= 18 * HOUR, "one more than the age is in its oldest segment"
    assert set(numbers(tmp_path)) >= set(range(40 - 15, 41)), "what is young enough is there"


def test_the_size_is_kept(tmp_path: Path) -> None:
    bounds = RecordLimits(size=60_000, age=timedelta(days=365))
    archive, snapshot = RecordWriter(tmp_path, bounds), world(*(f"pod-{i}" for i in range(120)))
    for i in range(60):
        snapshot = renamed(later(snapshot, HOUR), i)
        archive.write(snapshot, lived(OLD_PODS, snapshot, by_name({})))
        sizes = sum(path.stat().st_size for path in tmp_path.iterdir())
        assert sizes <= bounds.size
    archive.close()

    kept = numbers(tmp_path)
    assert kept[-1] == 60
    assert 1 < len(kept) < 60
    assert len(segments_in(tmp_path)) > 4, "it is thrown away in small steps"


def renamed(snapshot: Snapshot, number: int) -> Snapshot:
    """The cluster with another uid for a tenth of its pods."""
    put = [
        structs.replace(pod, uid=os.urandom(16).hex()) for pod in snapshot.pods[number % 10 :: 10]
    ]
    return snapshot.next(Changes(at=snapshot.taken_at, pods=Change(tuple(put))))


def test_a_capture_that_is_larger_than_the_whole_record_is_not_kept(tmp_path: Path) -> None:
    snapshot = world(*(f"pod-{i}" for i in range(500)))
    archive = RecordWriter(tmp_path, RecordLimits(size=2_000, age=HOUR))

    with pytest.raises(InputError, match=r"takes [\d,]+ bytes; raise --record-max-size"):
        archive.write(snapshot, lived(OLD_PODS, snapshot, by_name({})))

    assert names(tmp_path) == [".lock"]


# -- what goes wrong -----------------------------------------------------------------------------


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Has every file that grows over this size fail to, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_costs_a_cycle_and_no_more(tmp_path: Path) -> None:
    names_of = [f"pod-{i}" for i in range(200)]
    snapshots = [later(world(*names_of), HOUR * i, *names_of[:i]) for i in range(4)]
    reports = [lived(OLD_PODS, snapshot, by_name({})) for snapshot in snapshots]
    archive = RecordWriter(tmp_path, PLENTY)

    archive.write(snapshots[0], reports[0])
    size = max(path.stat().st_size for path in tmp_path.iterdir())
    with files_of_at_most(size), pytest.raises(OSError, match="too large"):
        archive.write(snapshots[1], reports[1])
    with files_of_at_most(10), pytest.raises(OSError, match="too large"):
        archive.write(snapshots[2], reports[2])
    archive.write(snapshots[3], reports[3])
    archive.close()

    book = RecordReader(str(tmp_path))
    assert [cycle.entry.cycle for cycle in book.cycles] == [1, 2]
    for recorded, report in zip(book.cycles, (reports[0], reports[3]), strict=True):
        replays_as(book, recorded, report)


def test_a_second_run_cannot_write_to_the_same_record(tmp_path: Path) -> None:
    snapshot, first, second = (
        world("a"),
        RecordWriter(tmp_path, PLENTY),
        RecordWriter(tmp_path, PLENTY),
    )
    report = lived(OLD_PODS, snapshot, by_name({}))
    first.write(snapshot, report)
    with pytest.raises(InputError, match="another run writes to it"):
        second.write(snapshot, report)

    first.close()
    second.write(snapshot, report)
    second.close()
    assert numbers(tmp_path) == [1, 2]


def test_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    snapshot = world("a")

    with pytest.raises(OSError, match="exists"):
        RecordWriter(tmp_path / "file", PLENTY).write(
            snapshot, lived(OLD_PODS, snapshot, by_name({}))
        )


def test_a_segment_that_was_cut_off_before_its_first_entry_is_cleared_away(tmp_path: Path) -> None:
    write(tmp_path, [world("a")])
    dead = Segment(2, NOW, tmp_path)
    GzipWriter(dead.objects).close()
    dead.cycles.write_bytes(b"\x1f\x8b")
    write(tmp_path, [later(world("a"), HOUR)])

    assert numbers(tmp_path) == [1, 2]
    assert RecordReader(str(tmp_path)).warnings == []


def test_a_torn_entry_is_left_out_with_a_word(tmp_path: Path) -> None:
    reports = write(tmp_path, two_hours())
    (segment,) = segments_in(tmp_path)
    *whole, _ = GzipLines(segment.cycles)
    segment.cycles.unlink()
    torn = GzipWriter(segment.cycles)
    torn.add([line + b"\n" for line in whole] + [b'{"form":1,"cyc'])
    torn.close()

    book = RecordReader(str(tmp_path))
    assert book.warnings == [
        f"{segment.cycles.name} ends in an incomplete entry, which is skipped; "
        "it is being written, or the run was killed"
    ]
    assert [cycle.entry.cycle for cycle in book.cycles] == [1]
    replays_as(book, book.cycles[0], reports[0])


def test_objects_that_are_missing_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, two_hours("a"))
    (segment,) = segments_in(tmp_path)
    first, *_ = GzipLines(segment.objects)
    segment.objects.unlink()
    short = GzipWriter(segment.objects)
    short.add([first + b"\n"])
    short.close()
    book = RecordReader(str(tmp_path))

    with pytest.raises(InputError, match=r"what cycle 1 of \S+ saw cannot be read: .* too early"):
        book.snapshot(book.cycles[0])


# -- what cannot be asked any more ----------------------------------------------------------------


def test_another_version_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [world("a")])
    monkeypatch.setattr(books, "__version__", "9.9.9")
    book = RecordReader(str(tmp_path))

    with pytest.raises(InputError, match=r"by resettle 0\S+; this is 9\.9\.9, which may decide"):
        book.snapshot(book.cycles[0])
    assert [move.key for move in book.cycles[0].entry.moves] == ["default/a"]


def test_another_form_is_left_out_and_its_numbers_count(tmp_path: Path) -> None:
    write(tmp_path, two_hours())
    (segment,) = segments_in(tmp_path)
    lines = [msgspec.json.decode(line) | {"form": 77} for line in GzipLines(segment.cycles)]
    segment.cycles.unlink()
    strange = GzipWriter(segment.cycles)
    strange.add(msgspec.json.encode(line) + b"\n" for line in lines)
    strange.close()

    with pytest.raises(InputError, match="no cycle that can be read"):
        RecordReader(str(tmp_path))
    write(tmp_path, [later(world("a"), 2 * HOUR)])
    book = RecordReader(str(tmp_path))
    assert [cycle.entry.cycle for cycle in book.cycles] == [3]
    assert "in a format that this version does not know" in book.warnings[0]


def remember_a_set(args: Args, view: View, draft: Draft) -> None:
    draft.remember({"seen"} | (draft.recall() or set()))


def propose_by_name(args: Args, view: View, draft: Draft) -> None:
    for pod in sorted(view.pods, key=lambda pod: pod.name):
        draft.propose(pod, because="of its name")


def propose_the_last(args: Args, view: View, draft: Draft) -> None:
    draft.propose(max(view.pods, key=lambda pod: pod.name), because="of its name")


def policy_of(name: str) -> dict[str, Any]:
    plugins = {"deschedule": {"enabled": [name]}}
    profile = {"name": "main", "pluginConfig": [{"name": name}], "plugins": plugins}
    return {**HEAD, "profiles": [profile]}


def test_memory_that_cannot_be_written_is_not_guessed(tmp_path: Path) -> None:
    plugins = REGISTRY.with_plugins(Plugin(name="Elephant", deschedule=remember_a_set))
    document, snapshot = policy_of("Elephant"), world("a")
    archive = RecordWriter(tmp_path, PLENTY)
    first = lived(document, snapshot, by_name({}), plugins)
    assert archive.write(snapshot, first) == ()
    snapshot = replace(snapshot, history=first.plan.history)
    second = lived(document, snapshot, by_name({}), plugins)
    assert archive.write(snapshot, second) == ("Elephant in profile main",)
    archive.close()

    book = RecordReader(str(tmp_path))
    replays_as(book, book.cycles[0], first, plugins)
    with pytest.raises(InputError, match="the history of Elephant in profile main is not"):
        replays_as(book, book.cycles[1], second, plugins)


def test_a_plugin_that_is_gone_or_decides_otherwise_is_an_error(tmp_path: Path) -> None:
    then = REGISTRY.with_plugins(Plugin(name="Alphabet", deschedule=propose_by_name))
    document, snapshot = policy_of("Alphabet"), world("a", "b")
    archive = RecordWriter(tmp_path, PLENTY)
    archive.write(snapshot, lived(document, snapshot, by_name({"b": MoveResult.BUDGET}), then))
    archive.close()
    book = RecordReader(str(tmp_path))
    (recorded,) = book.cycles
    seen = book.snapshot(recorded)

    with pytest.raises(
        InputError, match="install the plugins that were installed at that time"
    ) as gone:
        rebuild_descheduler(recorded, REGISTRY)
    assert "no plugin is named `Alphabet`" in str(gone.value)
    now = REGISTRY.with_plugins(Plugin(name="Alphabet", deschedule=propose_the_last))
    with pytest.raises(InputError, match="round 1 had 2 moves then and has 1 now"):
        replay_cycle(recorded, rebuild_descheduler(recorded, now), seen)
