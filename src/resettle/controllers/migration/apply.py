"""Carries out the steps of jobs: each writes what differs and can be repeated without harm.

The status that goes before an action is written first, and the action happens only if that was
accepted: a process that continues after a crash finds in the job what may have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from resettle.controllers.migration.api import (
    PRIORITY_CLASSES,
    MigrationApi,
    Object,
    WrittenMeanwhile,
    job_event,
    path_of,
    pod_path,
)
from resettle.controllers.migration.desired import NO_SCHEDULE, PREFER_NO_SCHEDULE
from resettle.controllers.migration.known_jobs import KnownJobs
from resettle.controllers.migration.observe import Sight
from resettle.controllers.migration.reservations import (
    build_placeholder,
    pin_patch,
    placeholder_name,
    terms_of_volumes,
    ungate_patch,
)
from resettle.controllers.migration.status import (
    StatusChange,
    note_created,
    note_creation_refused,
    note_eviction_refused,
    note_eviction_time,
    note_victim_replaced,
)
from resettle.controllers.migration.types import (
    CreatePlaceholder,
    DeletePlaceholder,
    Evict,
    HandOver,
    ReleaseGates,
    Steer,
    Step,
    StopGating,
    read_live_pod,
)
from resettle.errors import ClusterError, NotThisPod
from resettle.eviction.eviction_api import EvictionAPI
from resettle.framework.controller import ControllerHandle
from resettle.framework.mover import MoveResponse, MoveResult, Options
from resettle.framework.plan import Move
from resettle.model.migration_job import (
    EVICT_REASON,
    EVICT_TRIGGER,
    GATE_LABEL,
    JOBS_PATH,
    PROFILE,
    TAINT,
    JobPhase,
    MigrationJob,
    PodReference,
    Steering,
    job_of_json,
)

_TRIES = 5
"""How often a node is read again that others keep writing."""
BY_HAND = "PodMigrationJob"
"""The initiator of moves for which a person created the job."""


class StepRunner:
    """Carries out steps, for one controller."""

    def __init__(
        self,
        api: MigrationApi,
        handle: ControllerHandle,
        *,
        namespace: str,
        image: str,
        jobs: KnownJobs,
        instance: str,
    ) -> None:
        self._api = api
        self._urgent = MigrationApi(handle.urgent_requests)
        """For the hand-over: between its requests another pod can take the place."""
        self._handle = handle
        self._namespace = namespace
        self._image = image
        self._jobs = jobs
        self._instance = instance
        self._evictions = EvictionAPI()

    async def run(
        self, job: MigrationJob, step: Step, sight: Sight, moving: frozenset[str]
    ) -> MigrationJob | None:
        """Carry out the step; the job as it is then, or None if it was deleted meanwhile."""
        if step.before is not None:
            updated = await self.write(job, step.before)
            if updated is None:
                return None
            job = updated
        change: StatusChange | None = step.after
        match step:
            case CreatePlaceholder():
                change = await self._create_placeholder(job, sight, step)
            case Steer():
                return await self._steer(job, step)
            case Evict():
                change = await self._evict(job, step, sight, moving)
            case HandOver():
                await self._hand_over(job, step, sight)
            case DeletePlaceholder():
                await self._delete_placeholder(job, sight)
            case ReleaseGates():
                for pod in step.pods:
                    await self.release_gate(pod)
            case StopGating():
                return await self._label(job, None)
        return await self.write(job, change) if change is not None else job

    async def write(self, job: MigrationJob, change: StatusChange) -> MigrationJob | None:
        """Write a change of the status, and an event where the condition or the phase changed."""
        # A change was computed from the job as it was read; what was written since must count.
        document = await self._api.write_status(job, change)
        if document is None:
            return None
        updated = self._note(job, document)
        await self._write_event(job, change.fields)
        return updated

    def _note(self, job: MigrationJob, document: Object) -> MigrationJob:
        """The job as it was written just now, which the cache does not have yet."""
        updated = job_of_json(document, job.settings)
        self._jobs.note(job, updated)
        return updated

    async def read_again(self, job: MigrationJob) -> MigrationJob | None:
        """The job as the API server has it now; None if it was deleted."""
        document = await self._api.get(f"{JOBS_PATH}/{job.name}")
        if document is None or document["metadata"].get("uid") != job.uid:
            return None
        return job_of_json(document, job.settings)

    async def _write_event(self, job: MigrationJob, fields: Mapping[str, Any]) -> None:
        phase = fields.get("phase", "")
        if "reason" not in fields or ("ending" in fields and not phase):
            return
        event = job_event(
            job,
            str(fields["reason"]),
            str(fields.get("message") or fields.get("status") or phase),
            warning=phase in (JobPhase.FAILED, JobPhase.ABORTED),
            instance=self._instance,
            at=self._handle.clock.now(),
        )
        if problem := await self._api.write_event(event):
            self._handle.log.warning("event not written", job=job.name, reason=problem)

    # -- the place ---------------------------------------------------------------------------------

    async def _create_placeholder(
        self, job: MigrationJob, sight: Sight, step: Step
    ) -> StatusChange | None:
        if sight.victim is None:
            return None
        now = self._handle.clock.now()
        try:
            placeholder = build_placeholder(
                job,
                sight.victim,
                namespace=self._namespace,
                now=now,
                image=self._image,
                volume_terms=terms_of_volumes(await self._volumes(sight.victim)),
            )
            await self._api.create(PRIORITY_CLASSES, placeholder.priority_class)
            path = f"/api/v1/namespaces/{self._namespace}/pods"
            if await self._api.create(path, placeholder.pod) is None:
                await self._check_own(job)
        except ClusterError as error:
            return note_creation_refused(job, now, str(error))
        return note_created(job, now, placeholder.notes) if placeholder.notes else step.after

    async def _check_own(self, job: MigrationJob) -> None:
        """Raise if the placeholder that exists already belongs to something else."""
        name = placeholder_name(job.uid)
        pod = await self._api.get_pod(self._namespace, name)
        owners = (pod or {}).get("metadata", {}).get("ownerReferences") or ()
        if pod is not None and not any(owner.get("uid") == job.uid for owner in owners):
            raise ClusterError(f"the pod {self._namespace}/{name} exists and is not of this job")

    async def _volumes(self, victim: Mapping[str, Any]) -> list[Object]:
        """The persistent volumes that the pod's claims are bound to."""
        namespace, volumes = victim["metadata"]["namespace"], []
        for volume in victim["spec"].get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not claim and "ephemeral" in volume:
                claim = f"{victim['metadata']['name']}-{volume['name']}"
            if not claim:
                continue
            path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
            bound = ((await self._api.get(path)) or {}).get("spec", {}).get("volumeName")
            if bound and (
                found_volume := await self._api.get(f"/api/v1/persistentvolumes/{bound}")
            ):
                volumes.append(found_volume)
        return volumes

    async def _delete_placeholder(self, job: MigrationJob, sight: Sight) -> None:
        placeholder = sight.observed.placeholder
        if placeholder is not None:
            path = pod_path(self._namespace, placeholder.name)
            await self._urgent.delete(path, placeholder.uid, 0)

    async def _still_has_place(self, job: MigrationJob) -> bool:
        """Whether the place that the job was given is held at this moment."""
        pod = await self._urgent.get_pod(self._namespace, placeholder_name(job.uid))
        placeholder = read_live_pod(pod) if pod else None
        return (
            placeholder is not None
            and not placeholder.is_lost
            and placeholder.node == job.node_name
        )

    # -- steering ----------------------------------------------------------------------------------

    async def _steer(self, job: MigrationJob, step: Steer) -> MigrationJob | None:
        """Set the taint or the label; whether it is in force is seen in the next pass."""
        if step.steering is Steering.GATE:
            return await self._label(job, "true")
        effect = NO_SCHEDULE if step.steering is Steering.HARD else PREFER_NO_SCHEDULE
        await self.write_taint(step.node, lambda: effect)
        return await self.write(job, step.after) if step.after else job

    async def _label(self, job: MigrationJob, value: str | None) -> MigrationJob | None:
        if job.labels.get(GATE_LABEL) == value:
            return job
        version = job.object.metadata.resource_version
        patch = {"metadata": {"resourceVersion": version, "labels": {GATE_LABEL: value}}}
        document = await self._api.merge(f"{JOBS_PATH}/{job.name}", patch)
        return self._note(job, document) if document else None

    async def write_taint(self, node: str, wanted_effect: Callable[[], str | None]) -> None:
        """Give the node our taint with this effect; none if it is empty, as it is for None.

        The effect is asked for right before the node is written: jobs go on meanwhile.
        """
        path = f"/api/v1/nodes/{node}"
        for _ in range(_TRIES):
            document = await self._api.get(path)
            effect = wanted_effect()
            if document is None or effect is None:
                return
            before = document["spec"].get("taints") or []
            after = [taint for taint in before if taint.get("key") != TAINT]
            if effect:
                after.append({"key": TAINT, "effect": effect})
            if _taint_set(after) == _taint_set(before):
                return
            version = document["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": after or None}}
            try:
                await self._api.merge(path, patch)
            except WrittenMeanwhile:
                continue
            return
        raise ClusterError(f"others wrote node {node} {_TRIES} times while it was being read")

    async def release_gate(self, pod: PodReference) -> None:
        """Remove our scheduling gate from the pod, if it is still the pod of that uid."""
        for _ in range(_TRIES):
            document = await self._urgent.get_pod(pod.namespace, pod.name)
            if document is None or document["metadata"].get("uid") != pod.uid:
                return
            patch = ungate_patch(document)
            if patch is None:
                return
            try:
                await self._urgent.merge(path_of(pod), patch)
            except WrittenMeanwhile:
                continue
            return

    # -- the eviction ------------------------------------------------------------------------------

    async def _evict(
        self, job: MigrationJob, step: Evict, sight: Sight, moving: frozenset[str]
    ) -> StatusChange | None:
        """Request the eviction; what its answer means for the job is the change to write."""
        pod = sight.pod
        now = self._handle.clock.now()
        if pod is None:
            return None
        if job.settings.reserves and not await self._still_has_place(job):
            return None  # it was lost a moment ago
        trigger = job.annotations.get(EVICT_TRIGGER) or BY_HAND
        reason = job.annotations.get(EVICT_REASON) or "a migration job was created"
        profile = job.annotations.get(PROFILE) or self._handle.profile
        move = Move(pod, trigger, profile, reason, job.node_name, bool(job.node_name))
        options = Options(
            initiator=trigger,
            profile=profile,
            reason=reason,
            delete_options={**self._handle.delete_options, **job.delete_options},
        )
        # The placeholder itself may take the last place that the replacement would fit in.
        requests = self._handle.requests_for(
            pod, moving - {pod.uid}, place_held=job.settings.reserves
        )
        try:
            response = await self._evictions.move(move, options, requests)
        except NotThisPod as error:
            result = MoveResult.GONE if error.has_left else MoveResult.CHANGED
            response = MoveResponse(result, str(error))
        self._handle.report_move(move, response)
        match response.result:
            case MoveResult.EVICTED | MoveResult.BACKGROUND:
                # The request may have waited long for its turn; limits over time count from here.
                return step.after and note_eviction_time(step.after, self._handle.clock.now())
            case MoveResult.GONE:
                return note_victim_replaced(job, now, response.message)
            case MoveResult.UNKNOWN:
                return None
            case _:
                return note_eviction_refused(job, now, response.message)

    # -- the hand-over -----------------------------------------------------------------------------

    async def _hand_over(self, job: MigrationJob, step: HandOver, sight: Sight) -> None:
        """Pin, nominate, delete the placeholder, and remove the gate, as the step asks for."""
        if sight.replacement is not None and step.pin:
            patch = pin_patch(sight.replacement, step.pin)
            if patch is not None:
                await self._urgent.merge(path_of(step.pod), patch)
        if step.nominate:
            await self._nominate(step.pod, step.nominate)
        await self._delete_placeholder(job, sight)
        if step.ungate:
            await self.release_gate(step.pod)

    async def _nominate(self, pod: PodReference, node: str) -> None:
        """Name the node as the nominated one; it only helps, so a refusal is no obstacle."""
        try:
            patch = {"status": {"nominatedNodeName": node}}
            await self._urgent.merge(f"{path_of(pod)}/status", patch)
        except ClusterError:
            return


def _taint_set(taints: list[Any]) -> set[tuple[str, str, str]]:
    return {
        (taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")) for taint in taints
    }
