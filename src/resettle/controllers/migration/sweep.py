"""Removes what no job needs: taints, placeholders, PriorityClasses, gates, and old jobs.

What should exist follows from all jobs (`desired`); this compares it with what the watch cache has,
so that whatever a stopped process has left goes as well. One thing that cannot be removed does not
keep the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container
from datetime import timedelta
from functools import partial

from resettle.controllers.migration.api import PRIORITY_CLASSES, MigrationApi, pod_path
from resettle.controllers.migration.apply import StepRunner
from resettle.controllers.migration.desired import (
    desired_taints,
    nodes_left_alone,
    unneeded_placeholders,
    unneeded_priority_classes,
)
from resettle.controllers.migration.known_jobs import KnownJobs
from resettle.controllers.migration.observe import live_pod_of, workload_uid
from resettle.controllers.migration.plugin import Args
from resettle.controllers.migration.replacement import gates_to_release
from resettle.controllers.migration.reservations import HOLD_CLASS_PREFIX, YIELD_CLASS
from resettle.controllers.migration.types import LivePod
from resettle.errors import ClusterError
from resettle.framework.controller import ControllerHandle
from resettle.framework.view import View
from resettle.model.migration_job import GATE, JOBS_PATH, PLACEHOLDER, TAINT, MigrationJob
from resettle.policy.args import parse_duration

SWEEP_SECONDS = 60.0
BUSY_SWEEP_SECONDS = 1.0
"""Time between two sweeps for what no job needs, and while there may be something to remove."""


class Sweeper:
    """Removes what no job needs, for one controller.

    `working` has the uids of the jobs that are taken further at the moment.
    """

    def __init__(
        self,
        api: MigrationApi,
        steps: StepRunner,
        jobs: KnownJobs,
        args: Args,
        handle: ControllerHandle,
        working: Container[str],
    ) -> None:
        self._api = api
        self._steps = steps
        self._jobs = jobs
        self._namespace = args.namespace
        self._history: timedelta = parse_duration(args.job_history_ttl)
        self._handle = handle
        self._working = working
        self._swept_at = float("-inf")

    async def sweep(self) -> None:
        """Remove taints that nothing needs, and from time to time everything else."""
        view = self._handle.evictor.view
        await self._remove_taints(view)
        now = self._handle.clock.steady()
        passed = now - self._swept_at
        if passed >= SWEEP_SECONDS or (passed >= BUSY_SWEEP_SECONDS and _is_busy(view)):
            self._swept_at = now
            await self._remove_others(self._jobs.newest(view), view)

    async def _remove_taints(self, view: View) -> None:
        """Take our taint off every node that no job needs it on, or correct its effect."""
        for node in view.node_index:
            effects = [taint.effect for taint in node.taints if taint.key == TAINT]
            if effects and self._wanted_effect(node.name) not in (None, *effects):
                wanted = partial(self._wanted_effect, node.name)
                await self._try("taint", node.name, self._steps.write_taint(node.name, wanted))

    def _wanted_effect(self, node: str) -> str | None:
        """The effect that our taint should have on the node; None to leave it as it is."""
        jobs = self._jobs.newest(self._handle.evictor.view)
        if node in nodes_left_alone(jobs):
            return None
        return desired_taints(jobs, self._working).get(node, "")

    async def _remove_others(self, jobs: list[MigrationJob], view: View) -> None:
        """Remove placeholders, gates, PriorityClasses and jobs that nothing needs any more."""
        placeholders = [
            live_pod_of(pod)
            for pod in view.pods
            if pod.namespace == self._namespace and PLACEHOLDER in pod.labels
        ]
        for pod in unneeded_placeholders(jobs, placeholders):
            if not pod.terminating:
                path = pod_path(pod.namespace, pod.name)
                await self._try("placeholder", pod.name, self._api.delete(path, pod.uid, 0))
        await self._release_gates(jobs, view)
        await self._remove_classes(jobs, view, placeholders)
        await self._remove_old(jobs)

    async def _release_gates(self, jobs: list[MigrationJob], view: View) -> None:
        gated = [live_pod_of(pod) for pod in view.pods if GATE in pod.spec.gates and not pod.node]
        now = self._handle.clock.now()
        for reference in gates_to_release(jobs, gated, lambda pod: _workload(pod, view), now):
            await self._try("gate", reference.key, self._steps.release_gate(reference))

    async def _remove_classes(
        self, jobs: list[MigrationJob], view: View, placeholders: list[LivePod]
    ) -> None:
        # A placeholder that is still going away uses its class; the next sweep removes both.
        existing = [] if placeholders else _own_classes(view)
        for name in unneeded_priority_classes(jobs, existing):
            path = f"{PRIORITY_CLASSES}/{name}"
            await self._try("PriorityClass", name, self._api.delete(path, ""))

    async def _remove_old(self, jobs: list[MigrationJob]) -> None:
        """Delete jobs that ended long ago."""
        now = self._handle.clock.now()
        for job in jobs:
            ended = job.finished_at
            if job.is_terminal and ended and now - ended >= self._history and not job.unknown:
                path = f"{JOBS_PATH}/{job.name}"
                await self._try("job", job.name, self._api.delete(path, job.uid))

    async def _try(self, what: str, name: str, work: Awaitable[None]) -> None:
        try:
            await work
            self._handle.log.info("removed", what=what, name=name)
        except ClusterError as error:
            self._handle.log.warning("not removed", what=what, name=name, reason=str(error))


def _own_classes(view: View) -> list[str]:
    """Names of the PriorityClasses that were made for placeholders."""
    return [
        name
        for name in view.priority_classes
        if name == YIELD_CLASS or name.startswith(HOLD_CLASS_PREFIX)
    ]


def _is_busy(view: View) -> bool:
    """Whether something may have to be removed: our PriorityClasses go last; or a gate is old."""
    return bool(_own_classes(view)) or any(GATE in pod.spec.gates for pod in view.pods)


def _workload(pod: LivePod, view: View) -> str:
    cached = view.pod(pod.namespace, pod.name)
    return workload_uid(cached, view) if cached else ""
