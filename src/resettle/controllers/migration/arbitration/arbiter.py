"""Reads what arbitration needs, asks for the judgements, and writes them to the jobs."""

from __future__ import annotations

from resettle.controllers.migration.api import MigrationApi, WrittenMeanwhile
from resettle.controllers.migration.apply import StepRunner
from resettle.controllers.migration.arbitration.judgement import (
    Arbitrated,
    Judgement,
    WaitingJob,
    arbitrate,
)
from resettle.controllers.migration.known_jobs import KnownJobs, moving_pods
from resettle.controllers.migration.observe import (
    live_pod_of,
    rollout_of,
    unreadable_workload,
    workload_uid,
)
from resettle.controllers.migration.types import read_live_pod
from resettle.errors import ClusterError
from resettle.framework.controller import ControllerHandle
from resettle.framework.limits import DisruptionBudgets
from resettle.framework.view import View
from resettle.model.migration_job import JobReason, MigrationJob


class Arbiter:
    """Judges the jobs that wait, for one controller."""

    def __init__(
        self, api: MigrationApi, steps: StepRunner, jobs: KnownJobs, handle: ControllerHandle
    ) -> None:
        self._api = api
        self._steps = steps
        self._jobs = jobs
        self._handle = handle

    async def judge(self) -> None:
        """Accept the waiting jobs that may start, end those that never can."""
        view = self._handle.evictor.view
        jobs, budgets = self._jobs.newest(view), DisruptionBudgets(view.snapshot)
        # Also those that the cache has in an older version: left out, they would be overtaken.
        entries = [await self._waiting_job(job, view, budgets) for job in jobs if may_wait(job)]
        moving = moving_pods(jobs, view)
        judgements = arbitrate(
            entries,
            lambda pod, accepted: self._handle.evictor.refusal(
                # One view for all: in a newer one a later job may find the slot that was taken.
                pod,
                (frozenset(moving) | accepted) - {pod.uid},
                view=view,
            ),
            self._handle.clock.now(),
            moving,
        )
        for result in judgements:
            await self._write(result)

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

    async def _write(self, result: Arbitrated) -> None:
        if result.change is None:
            return
        try:
            await self._steps.write(result.job, result.change)
        except WrittenMeanwhile:
            return  # the job was edited: the next pass sees it as it is then
        except ClusterError as error:
            self._handle.log.warning("job not written", job=result.job.name, reason=str(error))
            return
        name, key = result.job.name, result.job.pod.key
        if result.judgement is Judgement.ACCEPTED:
            self._handle.log.info("job accepted", job=name, pod=key)
        elif result.judgement is Judgement.ENDED:
            self._handle.log.warning(
                "job ended", job=name, pod=key, reason=str(result.reason), says=result.message
            )


def may_wait(job: MigrationJob) -> bool:
    """Whether the job waits for arbitration."""
    return not (job.is_terminal or job.is_accepted or job.is_being_deleted or job.unknown)
