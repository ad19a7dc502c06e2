"""The controller of PodMigrationJobs: passes over all jobs, started by changes and by time.

A pass judges the jobs that wait (`arbitration`), takes each accepted job as far as it can go
(`observe`, `next_step`, `apply`), and removes what no job needs (`sweep`). Jobs are worked on side
by side, each by one task at a time. A job is looked at again when it, its pod, its placeholder or
a pod of its workload has changed, or when its time has come.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

from resettle.clock import Clock
from resettle.controllers.migration.api import MigrationApi, WrittenMeanwhile
from resettle.controllers.migration.apply import StepRunner
from resettle.controllers.migration.arbitration import (
    Arbitrated,
    Judgement,
    WaitingJob,
    arbitrate,
    pods_accepted_later,
)
from resettle.controllers.migration.next_step import next_step
from resettle.controllers.migration.observe import (
    JobObserver,
    live_pod_of,
    pods_beside,
    rollout_of,
    unreadable_workload,
    workload_uid,
)
from resettle.controllers.migration.plugin import Args
from resettle.controllers.migration.reservations import placeholder_name
from resettle.controllers.migration.sweep import Sweeper, own_classes
from resettle.controllers.migration.types import (
    CreatePlaceholder,
    Evict,
    Finish,
    LeaveAlone,
    Steer,
    Step,
    Wait,
    read_live_pod,
)
from resettle.errors import ClusterError, NotNow
from resettle.eviction.migration_job import jobs_in
from resettle.framework.controller import ControllerHandle
from resettle.framework.limits import DisruptionBudgets
from resettle.framework.view import View
from resettle.kube.leader_election.election import new_identity
from resettle.kube.transport.pacing import RateLimiter
from resettle.model.migration_job import ConditionType, JobPhase, JobReason, MigrationJob
from resettle.policy.args import parse_duration

RETRY_SECONDS = 2.0
"""How often a job that waits for others is looked at although nothing seems to have changed."""
SWEEP_SECONDS = 60.0
BUSY_SWEEP_SECONDS = 1.0
"""Time between two sweeps for what no job needs, and while there may be something to remove."""
SOON_SECONDS = 0.1
"""How soon a step is tried again that has to wait for the API server to know something."""
SHORTEST_PAUSE = 0.02
"""Seconds between two passes, at least: changes come in groups."""
MAX_STEPS = 20
"""Steps of one job in one go; more would mean that a step does not make a difference."""


class JobController:
    """Carries out jobs by the filters of one profile."""

    def __init__(self, args: Args, handle: ControllerHandle) -> None:
        self._args = args
        self._handle = handle
        self._api = MigrationApi(handle.requests)
        clock: Clock = handle.clock
        self._limiter = RateLimiter(args.evict_qps, args.evict_burst, clock)
        self._steps = StepRunner(
            self._api,
            handle,
            namespace=args.namespace,
            image=args.placeholder_image,
            wait_for_turn=self._limiter.acquire,
            instance=new_identity(),
        )
        self._sweeper = Sweeper(
            self._api, self._steps, args.namespace, parse_duration(args.job_history_ttl), handle
        )
        self._tick = parse_duration(args.arbitration_interval).total_seconds()
        self._slots = asyncio.Semaphore(args.max_concurrent_reconciles)
        self._working: dict[str, asyncio.Task[None]] = {}
        self._seen: dict[str, tuple[Hashable, ...]] = {}
        """What was last known of each job when it was worked on."""
        self._due: dict[str, float] = {}
        """When to look at a job again, by the steady clock."""
        self._written = WrittenJobs()
        self._swept_at = float("-inf")

    async def run(self) -> None:
        """Carry out jobs until cancelled."""
        try:
            while True:
                await self._pass()
                await self._handle.wait_for_change(self._pause())
                await self._handle.clock.sleep(SHORTEST_PAUSE)
        finally:
            for task in self._working.values():
                task.cancel()
            await asyncio.gather(*self._working.values(), return_exceptions=True)

    def _pause(self) -> float:
        """Seconds until something is due, at most until the next look at the jobs that wait."""
        due = min(self._due.values(), default=float("inf")) - self._handle.clock.steady()
        return min(self._tick, max(due, SHORTEST_PAUSE))

    # -- one pass ----------------------------------------------------------------------------------

    async def _pass(self) -> None:
        view = self._handle.evictor.view
        cached = list(jobs_in(view.snapshot, self._args.settings))
        self._forget_all_but(cached)
        jobs = [self._written.newest(job) for job in cached]
        await self._judge(jobs, view)
        self._start_work(jobs, view)
        await self._sweep(jobs, view)
        self._report(jobs)

    def _forget_all_but(self, jobs: Iterable[MigrationJob]) -> None:
        known = {job.uid for job in jobs}
        memories: tuple[dict[str, Any], ...] = (self._seen, self._due, self._written.jobs)
        for memory in memories:
            for uid in memory.keys() - known:
                del memory[uid]
        for uid, task in list(self._working.items()):
            if task.done():
                del self._working[uid]
                task.result()

    # -- arbitration -------------------------------------------------------------------------------

    async def _judge(self, jobs: list[MigrationJob], view: View) -> None:
        # Also those that the cache has in an older version: left out, they would be overtaken.
        waiting = [job for job in jobs if _may_wait(job)]
        if not waiting:
            return
        moving = self._moving(jobs, view)
        budgets = DisruptionBudgets(view.snapshot)
        entries = [await self._waiting_job(job, view, budgets) for job in waiting]
        now = self._handle.clock.now()
        judgements = arbitrate(
            entries,
            lambda pod, accepted: self._handle.evictor.refusal(
                # One view for all: in a newer one a later job may find the slot that was taken.
                pod,
                (frozenset(moving) | accepted) - {pod.uid},
                view=view,
            ),
            now,
            moving,
        )
        for judged in judgements:
            await self._write_judgement(judged)

    async def _waiting_job(
        self, job: MigrationJob, view: View, budgets: DisruptionBudgets
    ) -> WaitingJob:
        """The job with what arbitration reads; a pod that the cache lacks is asked for."""
        pod = view.pod(job.pod.namespace, job.pod.name)
        if pod is None or (job.pod.uid and pod.uid != job.pod.uid):
            try:
                raw = await self._api.get_pod(job.pod.namespace, job.pod.name)
            except ClusterError as error:
                return WaitingJob(job=job, unreadable=f"{job.pod.key}: {error}")
            return WaitingJob(job=job, live=read_live_pod(raw) if raw else None)
        hold, reason = rollout_of(pod, view), JobReason.WORKLOAD_ROLLING_OUT
        if not hold and (refusal := budgets.refusal(pod)):
            hold, reason = refusal.sentence, JobReason.WAITING_FOR_LIMIT
        return WaitingJob(
            job=job,
            unreadable=unreadable_workload(pod, view),
            live=live_pod_of(pod),
            pod=pod,
            workload=workload_uid(pod, view),
            hold=hold,
            hold_reason=reason,
        )

    async def _write_judgement(self, judged: Arbitrated) -> None:
        if judged.change is None:
            return
        try:
            written = await self._steps.write(judged.job, judged.change)
        except WrittenMeanwhile:
            return  # the job was edited: the next pass sees it as it is then
        except ClusterError as error:
            self._handle.log.warning("job not written", job=judged.job.name, reason=str(error))
            return
        self._written.note(judged.job, written)
        name, key = judged.job.name, judged.job.pod.key
        if judged.judgement is Judgement.ACCEPTED:
            self._handle.log.info("job accepted", job=name, pod=key)
        elif judged.judgement is Judgement.ENDED:
            self._handle.log.warning(
                "job ended", job=name, pod=key, reason=str(judged.reason), says=judged.message
            )

    def _moving(self, jobs: Iterable[MigrationJob], view: View) -> dict[str, str]:
        """The uids of pods on their way, with those of their workloads; waiting jobs do not count.

        What moves without a job counts as well: evictions under way, and moves of others.
        """
        of_jobs = {}
        waiting = set()
        for job in jobs:
            if job.is_terminal:
                # The cache of pods may be behind: it has the pod, and its replacement not yet.
                if job.source and job.eviction_requested_at and _is_there(job, view):
                    of_jobs[job.source.uid] = job.source.workload
            elif job.is_accepted and job.source:
                of_jobs[job.source.uid] = job.source.workload
            elif pod := view.pod(job.pod.namespace, job.pod.name):
                waiting.add(pod.uid)
        others = dict.fromkeys(view.moving - waiting, "")
        return others | of_jobs

    # -- work --------------------------------------------------------------------------------------

    def _start_work(self, jobs: list[MigrationJob], view: View) -> None:
        """Start a task for each job that has something to do and is not being worked on."""
        moving = frozenset(self._moving(jobs, view))
        followers = pods_accepted_later(jobs)
        observer = JobObserver(self._api, self._handle, self._args.namespace, view, jobs)
        for job in jobs:
            if job.uid in self._working or self._written.is_behind(job) or not _may_work(job):
                continue
            seen = self._fingerprint(job, view)
            if self._seen.get(job.uid) == seen and self._handle.clock.steady() < self._due[job.uid]:
                continue
            self._seen[job.uid] = seen
            self._due[job.uid] = self._handle.clock.steady() + RETRY_SECONDS
            counted = moving - followers.get(job.uid, frozenset())
            self._working[job.uid] = asyncio.create_task(
                self._work(job, observer, counted), name=f"job {job.name}"
            )

    def _fingerprint(self, job: MigrationJob, view: View) -> tuple[Hashable, ...]:
        """What a job depends on, as far as the cache knows; objects change by being replaced."""
        pods = [
            view.pod(job.pod.namespace, job.pod.name),
            view.pod(self._args.namespace, placeholder_name(job.uid)),
            *pods_beside(job, view),
        ]
        return job.object.metadata.resource_version, *(id(pod) for pod in pods)

    async def _work(self, job: MigrationJob, observer: JobObserver, moving: frozenset[str]) -> None:
        """Take the job as far as it can go now; what fails is tried again soon."""
        async with self._slots:
            try:
                await self._advance(job, observer, moving)
            except WrittenMeanwhile:
                pass  # the next pass sees what was written
            except NotNow:
                pass  # acting has ended
            except ClusterError as error:
                self._handle.log.warning("job not advanced", job=job.name, reason=str(error))

    async def _advance(
        self, job: MigrationJob, observer: JobObserver, moving: frozenset[str]
    ) -> None:
        for _ in range(MAX_STEPS):
            sight = await observer.observe(job, moving)
            step = next_step(job, sight.observed, self._handle.clock.now())
            updated = await self._steps.run(job, step, sight, moving)
            if updated is None:
                return
            self._written.note(job, updated)
            if isinstance(step, Finish):
                self._log_end(updated)
            if isinstance(step, Wait) and step.until is not None:
                self._look_again(job, (step.until - self._handle.clock.now()).total_seconds())
            if isinstance(step, Wait | LeaveAlone | Finish):
                return
            if isinstance(step, Evict) and not updated.eviction_requested_at:
                # Refused, or not asked for because the pod changed: what was observed is too old.
                self._pause_after_refusal(updated)
                return
            if _made_no_difference(step, updated, job):
                self._look_again(job, SOON_SECONDS)
                return
            job = updated

    def _pause_after_refusal(self, updated: MigrationJob) -> None:
        """Ask again after a while, or when anything but our own note of the refusal has changed."""
        _, *pods = self._seen.get(updated.uid, ("",))
        self._seen[updated.uid] = (updated.object.metadata.resource_version, *pods)
        self._due[updated.uid] = self._handle.clock.steady() + RETRY_SECONDS

    def _look_again(self, job: MigrationJob, seconds: float) -> None:
        """Look at the job again after so many seconds, if that is sooner than it would be."""
        due = self._handle.clock.steady() + max(seconds, 0.0)
        self._due[job.uid] = min(self._due.get(job.uid, due), due)

    def _log_end(self, job: MigrationJob) -> None:
        reason, says = job.object.status.get("reason"), job.object.status.get("message")
        name, key, log = job.name, job.pod.key, self._handle.log
        if job.phase is JobPhase.SUCCEEDED:
            log.info("job ended", job=name, pod=key, reason=reason, says=says)
        else:
            log.warning("job ended", job=name, pod=key, reason=reason, says=says)

    # -- what no job needs -------------------------------------------------------------------------

    async def _sweep(self, jobs: list[MigrationJob], view: View) -> None:
        try:
            await self._sweeper.remove_taints(jobs, view)
            # Our PriorityClasses exist as long as something may be left to remove.
            pause = BUSY_SWEEP_SECONDS if own_classes(view) else SWEEP_SECONDS
            if self._handle.clock.steady() - self._swept_at >= pause:
                self._swept_at = self._handle.clock.steady()
                await self._sweeper.sweep(jobs, view)
        except ClusterError as error:
            self._handle.log.warning("sweep failed", reason=str(error))

    def _report(self, jobs: Iterable[MigrationJob]) -> None:
        phases = Counter(str(job.phase) for job in jobs)
        for phase in JobPhase:
            self._handle.set_figure(f"jobs-{phase.lower()}", phases[phase])


class WrittenJobs:
    """The jobs that we have written, until the cache has them as they are now."""

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[MigrationJob, frozenset[str]]] = {}
        """By uid: the job as it was last written, and the versions that it had before."""

    def note(self, before: MigrationJob, after: MigrationJob | None) -> None:
        """Remember what was written; None for a job that was deleted meanwhile."""
        version = before.object.metadata.resource_version
        if after is None or after.object.metadata.resource_version == version:
            return
        _, older = self.jobs.get(before.uid, (before, frozenset()))
        self.jobs[before.uid] = (after, older | {version})

    def newest(self, cached: MigrationJob) -> MigrationJob:
        """The job as it was last written, as long as the cache has an older version."""
        if cached.uid not in self.jobs:
            return cached
        written, older = self.jobs[cached.uid]
        if cached.object.metadata.resource_version in older:
            return written
        del self.jobs[cached.uid]
        return cached

    def is_behind(self, job: MigrationJob) -> bool:
        """Whether the cache still has a version of the job that was written over."""
        return job.uid in self.jobs


def _made_no_difference(step: Step, updated: MigrationJob, job: MigrationJob) -> bool:
    """Whether the step must be tried again: the API server does not know gate or class yet."""
    if isinstance(step, Steer):
        return updated is job
    created = updated.condition(ConditionType.RESERVATION_CREATED)
    return isinstance(step, CreatePlaceholder) and created is not None and created.status == "False"


def _is_there(job: MigrationJob, view: View) -> bool:
    """Whether the view still has the pod that the job moved."""
    pod = view.pod(job.pod.namespace, job.pod.name)
    return pod is not None and job.source is not None and pod.uid == job.source.uid


def _may_wait(job: MigrationJob) -> bool:
    return not (job.is_terminal or job.is_accepted or job.is_being_deleted or job.unknown)


def _may_work(job: MigrationJob) -> bool:
    """Whether the machine may have something to do: accepted, ending, or of a newer version."""
    if job.is_terminal:
        return False
    return job.is_accepted or job.ending is not None or bool(job.unknown) or job.is_being_deleted
