"""What the controller knows of jobs: its own writes until the watch cache has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from resettle.controllers.migration.known_jobs import KnownJobs, moving_pods
from resettle.framework.view import View
from resettle.model.migration_job import DEFAULTS, KIND, MigrationJob
from resettle.model.pod import IN_PROGRESS, ON_REQUEST
from resettle.model.semantics import IMPROVED
from resettle.testing import cluster, node, pod
from tests.controllers.migration.builders import job


def version(number: int, *, accepted: bool = False) -> MigrationJob:
    metadata: dict[str, Any] = {"resourceVersion": str(number)}
    return job(accepted=accepted, metadata=metadata)


def view_of(*jobs: MigrationJob, moving: frozenset[str] = frozenset(), **annotations: str) -> View:
    """A view with these jobs, and the pod that they move."""
    moved = pod("web-1", namespace="shop", metadata={"uid": "victim"}, annotations=annotations)
    snapshot = cluster(node("n1").holding(moved)).snapshot().with_moving(moving)
    wires = tuple(each.object for each in jobs)
    return View(replace(snapshot, others={KIND: wires}), IMPROVED)


def newest(jobs: KnownJobs, cached: MigrationJob) -> MigrationJob:
    (known,) = jobs.newest(view_of(cached))
    return known


def test_a_job_counts_as_it_was_written_until_the_cache_has_it() -> None:
    jobs = KnownJobs(DEFAULTS)
    waits, runs, later = version(1), version(2, accepted=True), version(3, accepted=True)

    assert newest(jobs, waits).object is waits.object
    jobs.note(waits, runs)
    assert jobs.is_behind(waits)
    assert newest(jobs, waits) is runs
    assert newest(jobs, version(2)).is_accepted is False, "the cache has it by now"
    assert not jobs.is_behind(later)


def test_after_several_writes_every_older_version_is_behind() -> None:
    jobs = KnownJobs(DEFAULTS)
    versions = [version(number, accepted=True) for number in (1, 2, 3)]
    jobs.note(versions[0], versions[1])
    jobs.note(versions[1], versions[2])

    assert [newest(jobs, each).object for each in versions] == [versions[2].object] * 3
    assert not jobs.is_behind(versions[2])


def test_what_another_program_wrote_counts_at_once() -> None:
    jobs = KnownJobs(DEFAULTS)
    edited = version(9)
    jobs.note(version(1), version(2, accepted=True))

    assert newest(jobs, edited).object is edited.object


def test_a_write_that_changed_nothing_is_not_remembered() -> None:
    jobs = KnownJobs(DEFAULTS)
    jobs.note(version(1), version(1))

    assert not jobs.is_behind(version(1))


def test_a_job_is_read_again_only_when_it_has_changed() -> None:
    jobs, cached = KnownJobs(DEFAULTS), version(1)

    assert newest(jobs, cached) is newest(jobs, cached)
    assert newest(jobs, version(1)) is not newest(jobs, cached)


def test_the_pod_of_a_waiting_job_does_not_count_as_moving_unless_others_move_it() -> None:
    waits, moving = job(accepted=False), frozenset({"victim", "other"})
    by_others = {ON_REQUEST: "", IN_PROGRESS: ""}

    assert moving_pods([waits], view_of(waits, moving=moving)) == {"other": ""}
    assert moving_pods([waits], view_of(waits, moving=moving, **by_others)).keys() == moving
