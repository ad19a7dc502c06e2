"""The controller of PodMigrationJobs: passes over all jobs, started by changes and by time.

A pass starts whatever has something to do, and waits for none of it: a task for each job that can
go on (`observe`, `next_step`, `apply`), one for the jobs that wait (`arbitration`), and one that
removes what no job needs any more (`sweep`). A job is looked at again when it, its pod, its
placeholder or a pod of its workload has changed, or when its time has come.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Any

from resettle.clock import Clock
from resettle.controllers.migration.api import MigrationApi, WrittenMeanwhile
from resettle.controllers.migration.apply import StepRunner
from resettle.controllers.migration.arbitration.arbiter import Arbiter, may_wait
from resettle.controllers.migration.known_jobs import KnownJobs, moving_beside
from resettle.controllers.migration.next_step import next_step
from resettle.controllers.migration.observe import JobObserver, pods_beside
from resettle.controllers.migration.plugin import Args
from resettle.controllers.migration.reservations import placeholder_name
from resettle.controllers.migration.status import note_unreadable
from resettle.controllers.migration.sweep import Sweeper
from resettle.controllers.migration.types import (
    CreatePlaceholder,
    Evict,
    Finish,
    LeaveAlone,
    Steer,
    Step,
    Wait,
)
from resettle.errors import ClusterError, NotNow
from resettle.framework.controller import ControllerHandle
from resettle.framework.view import View
from resettle.kube.leader_election.election import new_identity
from resettle.kube.transport.pacing import RateLimiter
from resettle.model.migration_job import (
    ConditionType,
    JobPhase,
    MigrationJob,
    Steering,
)
from resettle.policy.args import parse_duration

RETRY_SECONDS = 2.0
"""How often a job that waits for others is looked at although nothing seems to have changed."""
SOON_SECONDS = 0.1
"""How soon a step is tried again that has to wait for the API server to know something."""
LONGEST_RETRY_SECONDS = 15.0
"""The longest pause before a refused step is tried again; each pause is twice the last one."""
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
        self._jobs = KnownJobs(args.settings)
        self._steps = StepRunner(
            self._api,
            handle,
            namespace=args.namespace,
            image=args.placeholder_image,
            jobs=self._jobs,
            instance=new_identity(),
        )
        self._working: dict[str, asyncio.Task[None]] = {}
        self._arbiter = Arbiter(self._api, self._steps, self._jobs, handle)
        self._sweeper = Sweeper(self._api, self._steps, self._jobs, args, handle, self._working)
        self._beside: dict[str, asyncio.Task[None]] = {}
        """Arbitration and the sweep, while they run."""
        self._tick = parse_duration(args.arbitration_interval).total_seconds()
        self._slots = asyncio.Semaphore(args.max_concurrent_reconciles)
        self._seen: dict[str, tuple[Hashable, ...]] = {}
        """What was last known of each job when it was worked on."""
        self._due: dict[str, float] = {}
        """When to look at a job again, by the steady clock."""
        self._failures: dict[str, tuple[str, int]] = {}
        """What of a job failed last, and how many times in a row."""

    async def run(self) -> None:
        """Carry out jobs until cancelled."""
        try:
            while True:
                self._pass()
                await self._handle.wait_for_change(self._pause())
                await self._handle.clock.sleep(SHORTEST_PAUSE)
        finally:
            tasks = [*self._working.values(), *self._beside.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _pause(self) -> float:
        """Seconds until something is due, at most until the next look at the jobs that wait."""
        due = (at for uid, at in self._due.items() if uid not in self._working)
        seconds = min(due, default=float("inf")) - self._handle.clock.steady()
        return min(self._tick, max(seconds, SHORTEST_PAUSE))

    # -- one pass ----------------------------------------------------------------------------------

    def _pass(self) -> None:
        _remove_finished(self._working)
        _remove_finished(self._beside)
        view = self._handle.evictor.view
        jobs = self._jobs.newest(view)
        self._forget_all_but(job.uid for job in jobs if _may_work(job))
        self._start_work(jobs, view)
        if any(may_wait(job) for job in jobs):
            self._start_beside("arbitration", self._arbiter.judge)
        self._start_beside("sweep", self._sweeper.sweep)
        self._report(jobs)

    def _forget_all_but(self, uids: Iterable[str]) -> None:
        known = set(uids)
        memories: tuple[dict[str, Any], ...] = (self._seen, self._due, self._failures)
        for memory in memories:
            for uid in memory.keys() - known:
                del memory[uid]

    def _start_beside(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start this work, unless it is still going on."""
        if name in self._beside:
            return

        async def run() -> None:
            try:
                await work()
            except NotNow:
                pass  # acting has ended, or the cache is too old
            except ClusterError as error:
                self._handle.log.warning("task failed", task=name, reason=str(error))

        self._beside[name] = asyncio.create_task(run(), name=name)

    def _report(self, jobs: Iterable[MigrationJob]) -> None:
        phases = Counter(str(job.phase) for job in jobs)
        for phase in JobPhase:
            self._handle.set_figure(f"jobs-{phase.lower()}", phases[phase])

    # -- work --------------------------------------------------------------------------------------

    def _start_work(self, jobs: list[MigrationJob], view: View) -> None:
        """Start a task for each job that has something to do and is not being worked on."""
        now = self._handle.clock.steady()
        for job in jobs:
            if job.uid in self._working or self._jobs.is_behind(job) or not _may_work(job):
                continue
            seen = self._fingerprint(job, view)
            if self._seen.get(job.uid) == seen and now < self._due[job.uid]:
                continue
            self._seen[job.uid] = seen
            self._due[job.uid] = now + RETRY_SECONDS
            task = asyncio.create_task(self._work(job), name=f"job {job.name}")
            self._working[job.uid] = task

    def _fingerprint(self, job: MigrationJob, view: View) -> tuple[Hashable, ...]:
        """What a job depends on, as far as the cache knows; objects change by being replaced."""
        pods = [
            view.pod(job.pod.namespace, job.pod.name),
            view.pod(self._args.namespace, placeholder_name(job.uid)),
            *pods_beside(job, view),
        ]
        return job.object.metadata.resource_version, *(id(pod) for pod in pods)

    async def _work(self, job: MigrationJob) -> None:
        """Take the job as far as it can go now; what fails is tried again after a pause."""
        try:
            async with self._slots:
                waits_for_turn = await self._advance(job, has_turn=False)
            if not waits_for_turn:
                return
            await self._limiter.acquire()  # without a slot: those who hold a place go on meanwhile
            async with self._slots:
                # A person may have stopped the job, and any node or pod may have changed.
                if newest := await self._steps.read_again(job):
                    await self._advance(newest, has_turn=True)
        except WrittenMeanwhile:
            pass  # the next pass sees what was written
        except NotNow:
            pass  # acting has ended, or the cache is too old
        except ClusterError as error:
            self._handle.log.warning("job not advanced", job=job.name, reason=str(error))
            self._pause_after("request", job, RETRY_SECONDS)
            await self._say_why(job, str(error))
        except Exception as error:
            # The other jobs go on.
            says = f"{type(error).__name__}: {error}"
            self._handle.log.error("job not advanced", job=job.name, reason=says)
            self._pause_after("fault", job, RETRY_SECONDS)

    async def _advance(self, job: MigrationJob, *, has_turn: bool) -> bool:
        """Take the job as far as it can go; whether it has to wait for its turn to evict."""
        for _ in range(MAX_STEPS):
            view = self._handle.evictor.view
            jobs = self._jobs.newest(view)
            moving = moving_beside(job, jobs, view)
            observer = JobObserver(self._api, self._handle, self._args, view, jobs)
            sight = await observer.observe(job, moving)
            step = next_step(job, sight.observed, self._handle.clock.now())
            if _leads_to_eviction(step) and not has_turn:
                return True
            updated = await self._steps.run(job, step, sight, moving)
            if updated is None or self._is_done_for_now(job, step, updated):
                return False
            job = updated
        return False

    def _is_done_for_now(self, job: MigrationJob, step: Step, updated: MigrationJob) -> bool:
        """Whether nothing more can be done after this step; sets when to look again."""
        match step:
            case Finish():
                self._log_end(updated)
                return True
            case LeaveAlone():
                return True
            case Wait():
                if step.until is not None:
                    self._look_again(job, (step.until - self._handle.clock.now()).total_seconds())
                return True
            case Evict() if not updated.eviction_requested_at:
                # Refused, or not asked for because the pod changed: what was observed is too old.
                self._pause_after("eviction", updated, RETRY_SECONDS)
                return True
            case CreatePlaceholder() if not updated.is_true(ConditionType.RESERVATION_CREATED):
                # Perhaps the API server does not know the PriorityClass yet.
                self._pause_after("placeholder", updated, SOON_SECONDS)
                return True
        return False

    def _pause_after(self, what: str, job: MigrationJob, first: float) -> None:
        """Try again after a pause, or when anything but our own note of the failure has changed."""
        last, count = self._failures.get(job.uid, ("", 0))
        count = count + 1 if last == what else 1
        self._failures[job.uid] = (what, count)
        seconds = min(first * 2 ** (count - 1), max(first, LONGEST_RETRY_SECONDS))
        _, *pods = self._seen.get(job.uid, ("",))
        self._seen[job.uid] = (job.object.metadata.resource_version, *pods)
        self._due[job.uid] = self._handle.clock.steady() + seconds

    async def _say_why(self, job: MigrationJob, says: str) -> None:
        """Write to the job why it does not go on, if that can be written."""
        try:
            if (newest := await self._steps.read_again(job)) and not newest.is_terminal:
                change = note_unreadable(newest, self._handle.clock.now(), says)
                updated = await self._steps.write(newest, change) if change else newest
                if updated:
                    self._pause_after("request", updated, RETRY_SECONDS)
        except (ClusterError, NotNow):
            return  # it is in the log

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


def _remove_finished(tasks: dict[str, asyncio.Task[None]]) -> None:
    """Remove the tasks that are done; raises what one of them has raised."""
    for name, task in list(tasks.items()):
        if task.done():
            del tasks[name]
            task.result()


def _leads_to_eviction(step: Step) -> bool:
    """Whether the pod leaves by this step, or right after it: the taint is set for the eviction."""
    if isinstance(step, Steer):
        return step.steering is not Steering.GATE
    return isinstance(step, Evict)


def _may_work(job: MigrationJob) -> bool:
    """Whether the machine may have something to do: accepted, ending, or of a newer version."""
    if job.is_terminal:
        return False
    return job.is_accepted or job.ending is not None or bool(job.unknown) or job.is_being_deleted
