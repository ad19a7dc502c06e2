"""What the controller remembers of its own writes until the watch cache has them."""

from __future__ import annotations

from typing import Any

from resettle.controllers.migration.reconcile import WrittenJobs
from resettle.model.migration_job import MigrationJob
from tests.controllers.migration.builders import job


def version(number: int, *, accepted: bool = False) -> MigrationJob:
    metadata: dict[str, Any] = {"resourceVersion": str(number)}
    return job(accepted=accepted, metadata=metadata)


def test_a_job_counts_as_it_was_written_until_the_cache_has_it() -> None:
    written = WrittenJobs()
    waits, runs, later = version(1), version(2, accepted=True), version(3, accepted=True)

    assert written.newest(waits) is waits
    written.note(waits, runs)
    assert written.is_behind(waits)
    assert written.newest(waits) is runs
    assert written.newest(version(2)).is_accepted is False, "the cache has it by now"
    assert not written.is_behind(later)


def test_after_several_writes_every_older_version_is_behind() -> None:
    written = WrittenJobs()
    versions = [version(number, accepted=True) for number in (1, 2, 3)]
    written.note(versions[0], versions[1])
    written.note(versions[1], versions[2])

    assert [written.newest(each) for each in versions] == [versions[2]] * 3
    assert not written.is_behind(versions[2])


def test_what_another_program_wrote_counts_at_once() -> None:
    written = WrittenJobs()
    edited = version(9)
    written.note(version(1), version(2, accepted=True))

    assert written.newest(edited) is edited


def test_a_deleted_job_and_a_write_that_changed_nothing_are_not_remembered() -> None:
    written = WrittenJobs()
    written.note(version(1), None)
    written.note(version(1), version(1))

    assert not written.is_behind(version(1))
