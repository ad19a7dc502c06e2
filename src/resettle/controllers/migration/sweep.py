"""Removes what no job needs: taints, placeholders, PriorityClasses, gates, and old jobs.

What should exist follows from all jobs (`desired`); this compares it with what the watch cache has,
so that whatever a stopped process has left goes as well. One thing that cannot be removed does not
keep the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from datetime import timedelta

from resettle.controllers.migration.api import PRIORITY_CLASSES, MigrationApi, pod_path
from resettle.controllers.migration.apply import StepRunner
from resettle.controllers.migration.desired import (
    desired_taints,
    nodes_left_alone,
    unneeded_placeholders,
    unneeded_priority_classes,
)
from resettle.controllers.migration.observe import live_pod_of, workload_uid
from resettle.controllers.migration.replacement import gates_to_release
from resettle.controllers.migration.reservations import HOLD_CLASS_PREFIX, YIELD_CLASS
from resettle.controllers.migration.types import LivePod, read_live_pod
from resettle.errors import ClusterError
from resettle.framework.controller import ControllerHandle
from resettle.framework.view import View
from resettle.model.migration_job import JOBS_PATH, PLACEHOLDER, TAINT, MigrationJob
from resettle.model.pod import Pod


class Sweeper:
    """Removes what no job needs, for one controller."""

    def __init__(
        self,
        api: MigrationApi,
        steps: StepRunner,
        namespace: str,
        history: timedelta,
        handle: ControllerHandle,
    ) -> None:
        self._api = api
        self._steps = steps
        self._namespace = namespace
        self._history = history
        self._handle = handle

    async def remove_taints(self, jobs: Iterable[MigrationJob], view: View) -> None:
        """Take our taint off every node that no job needs it on, or correct its effect."""
        jobs = list(jobs)
        tainted = {
            node.name: taint.effect
            for node in view.node_index
            for taint in node.taints
            if taint.key == TAINT
        }
        if not tainted:
            return
        wanted, untouched = desired_taints(jobs), nodes_left_alone(jobs)
        for node, effect in tainted.items():
            if node not in untouched and wanted.get(node, "") != effect:
                await self._try("taint", node, self._steps.write_taint(node, wanted.get(node, "")))

    async def sweep(self, jobs: Iterable[MigrationJob], view: View) -> None:
        """Remove placeholders, gates, PriorityClasses and jobs that nothing needs any more."""
        jobs = list(jobs)
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
        held_up = [pod for pod in view.pods if pod.spec.gated and not pod.node]
        gated = [live for pod in held_up if (live := await self._read_if_gated(pod))]
        now = self._handle.clock.now()
        for reference in gates_to_release(jobs, gated, lambda pod: _workload(pod, view), now):
            await self._try("gate", reference.key, self._steps.release_gate(reference))

    async def _read_if_gated(self, pod: Pod) -> LivePod | None:
        """The pod as the API server has it, if it has our gate."""
        raw = await self._api.get_pod(pod.namespace, pod.name)
        live = read_live_pod(raw) if raw else None
        return live if live and live.gated else None

    async def _remove_classes(
        self, jobs: list[MigrationJob], view: View, placeholders: list[LivePod]
    ) -> None:
        # A placeholder that is still going away uses its class; the next sweep removes both.
        existing = [] if placeholders else own_classes(view)
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


def own_classes(view: View) -> list[str]:
    """Names of the PriorityClasses that were made for placeholders."""
    return [
        name
        for name in view.priority_classes
        if name == YIELD_CLASS or name.startswith(HOLD_CLASS_PREFIX)
    ]


def _workload(pod: LivePod, view: View) -> str:
    cached = view.pod(pod.namespace, pod.name)
    return workload_uid(cached, view) if cached else ""
