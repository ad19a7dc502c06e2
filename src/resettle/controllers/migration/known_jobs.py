"""All jobs in their newest version: as the watch cache has them, or as they were written since.

What was written is used until the cache has it, so that no step is taken twice. A job is read from
its object only once: those that ended stay for a while, and there may be many.
"""

from __future__ import annotations

from msgspec import Struct

from resettle.controllers.migration.arbitration import pods_accepted_later
from resettle.eviction.in_flight import is_moved_by_others
from resettle.framework.view import View
from resettle.model.migration_job import KIND, JobSettings, MigrationJob, read_job


class WrittenJob(Struct, frozen=True):
    """A job as it was last written, and the versions that it had before."""

    job: MigrationJob
    older: frozenset[str]


class KnownJobs:
    """Reads jobs for one controller; `settings` apply where a job says nothing."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._cached: dict[str, MigrationJob] = {}
        self._written: dict[str, WrittenJob] = {}

    def newest(self, view: View) -> list[MigrationJob]:
        """All jobs that the view has, in the newest version that is known."""
        cached: dict[str, MigrationJob] = {}
        for wire in view.snapshot.others.get(KIND, ()):
            known = self._cached.get(wire.metadata.uid)
            # Objects of the cache change by being replaced.
            job = known if known and known.object is wire else read_job(wire, self._settings)
            cached[job.uid] = job
        self._cached = cached
        for uid in self._written.keys() - cached.keys():
            del self._written[uid]
        return [self._newest(job) for job in cached.values()]

    def _newest(self, cached: MigrationJob) -> MigrationJob:
        written = self._written.get(cached.uid)
        if written is None:
            return cached
        if cached.object.metadata.resource_version in written.older:
            return written.job
        del self._written[cached.uid]
        return cached

    def note(self, before: MigrationJob, after: MigrationJob) -> None:
        """Remember what was written."""
        version = before.object.metadata.resource_version
        if after.object.metadata.resource_version == version:
            return
        known = self._written.get(before.uid)
        older = known.older if known else frozenset()
        self._written[before.uid] = WrittenJob(after, older | {version})

    def is_behind(self, job: MigrationJob) -> bool:
        """Whether the cache still has a version of the job that was written over."""
        return job.uid in self._written


def moving_pods(jobs: list[MigrationJob], view: View) -> dict[str, str]:
    """The uids of pods on their way, with those of their workloads; waiting jobs do not count.

    What moves without a job counts as well: evictions under way, and moves of others.
    """
    of_jobs: dict[str, str] = {}
    waiting = set()
    for job in jobs:
        if job.is_terminal:
            # The cache of pods may be behind: it has the pod, and its replacement not yet.
            if job.source and job.eviction_requested_at and _is_there(job, view):
                of_jobs[job.source.uid] = job.source.workload
        elif job.is_accepted and job.source:
            of_jobs[job.source.uid] = job.source.workload
        elif (pod := view.pod(job.pod.namespace, job.pod.name)) and not is_moved_by_others(pod):
            waiting.add(pod.uid)
    return dict.fromkeys(view.moving - waiting, "") | of_jobs


def moving_beside(job: MigrationJob, jobs: list[MigrationJob], view: View) -> frozenset[str]:
    """The uids of the pods that count as moving for the limits of this job."""
    return frozenset(moving_pods(jobs, view)) - pods_accepted_later(jobs).get(job.uid, frozenset())


def _is_there(job: MigrationJob, view: View) -> bool:
    """Whether the view still has the pod that the job moved."""
    pod = view.pod(job.pod.namespace, job.pod.name)
    return pod is not None and job.source is not None and pod.uid == job.source.uid
