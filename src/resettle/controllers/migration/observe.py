"""Reads what the next step of a job depends on.

What decides about an act is read from the API server itself: the pod, its placeholder, its
replacement. What only says where to look comes from the watch cache: which pods belong to the
workload, which nodes exist, what the filters say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, structs

from resettle.controllers.migration.api import MigrationApi, Object
from resettle.controllers.migration.plugin import Args
from resettle.controllers.migration.replacement import (
    find_replacements,
    gates_to_release,
    young_siblings,
)
from resettle.controllers.migration.reservations import build_trial_pod, placeholder_name
from resettle.controllers.migration.types import LivePod, Observed, read_live_pod
from resettle.errors import ClusterError
from resettle.eviction.migration_job import pod_fingerprint
from resettle.framework.controller import ControllerHandle
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.migration_job import (
    FINGERPRINT,
    GATE,
    TAINT,
    ConditionType,
    ControllerReference,
    MigrationJob,
    PodReference,
    Steering,
)
from resettle.model.pod import Pod
from resettle.model.workloads import UnknownWorkload, Workload

CHANGED = Refusal("pod-changed", "is not what it was when the job was created")


class Sight(Struct, frozen=True, kw_only=True):
    """What was read for one job, and the answers that actions need as they are."""

    observed: Observed
    victim: Mapping[str, Any] | None = None
    """The pod to move, as the API server has it."""
    pod: Pod | None = None
    """The pod to move, as filters read it."""
    replacement: Mapping[str, Any] | None = None


class JobObserver:
    """Reads for one step of one job; `jobs` are all jobs."""

    def __init__(
        self,
        api: MigrationApi,
        handle: ControllerHandle,
        args: Args,
        view: View,
        jobs: Iterable[MigrationJob],
    ) -> None:
        self._api = api
        self._handle = handle
        self._namespace = args.namespace
        self._image = args.placeholder_image
        self._view = view
        self._jobs = tuple(jobs)

    async def observe(self, job: MigrationJob, moving: frozenset[str]) -> Sight:
        """What the next step depends on; `moving` are the uids of all pods that are on their way.

        Raises `ClusterError` if the placeholder or the gated pods cannot be read.
        """
        placeholder = await self._placeholder(job)
        try:
            victim = await self._api.get_pod(job.pod.namespace, job.pod.name)
        except ClusterError as error:
            says = f"{job.pod.key}: {error}"
            return Sight(observed=Observed(placeholder=placeholder, unreadable=says))
        live = read_live_pod(victim) if victim else None
        pod = self._view.pod(job.pod.namespace, job.pod.name)
        if live is None or pod is None or pod.uid != live.uid:
            pod = None
        replacement, others = await self._replacement(job)
        place = placeholder.node if placeholder else job.node_name
        observed = Observed(
            victim=live,
            placeholder=placeholder,
            place_exists=not place or place in self._view.node_index.position,
            steered=await self._is_steered(job),
            replacement=read_live_pod(replacement) if replacement else None,
            other_gated=others,
        )
        # Also where the request was about to be sent, or was refused: each time is decided again.
        before_eviction = live is not None and not job.eviction_requested_at
        if before_eviction and job.is_accepted and not job.is_terminal:
            observed = self._with_filters(job, observed, pod, moving)
        return Sight(observed=observed, victim=victim, pod=pod, replacement=replacement)

    def _with_filters(
        self, job: MigrationJob, observed: Observed, pod: Pod | None, moving: frozenset[str]
    ) -> Observed:
        """The observation with what the filters say now, and whether the workload rolls out."""
        if pod is None:
            says = f"{job.pod.key} is not in the watch cache yet"
            return structs.replace(observed, unreadable=says)
        if says := unreadable_workload(pod, self._view):
            return structs.replace(observed, unreadable=says)
        refusal: Refusal | None = None
        expected = job.annotations.get(FINGERPRINT)
        if expected and expected != pod_fingerprint(pod):
            refusal = CHANGED
        # The placeholder itself may take the last place that the replacement would fit in.
        held = observed.placeholder is not None and bool(observed.placeholder.node)
        refusal = refusal or self._handle.evictor.refusal(pod, moving - {pod.uid}, place_held=held)
        beside = [live_pod_of(other) for other in pods_beside(job, self._view)]
        now = self._handle.clock.now()
        return structs.replace(
            observed,
            refusal=refusal,
            rolling_out=rollout_of(pod, self._view),
            outdated=outdated_status(pod, self._view),
            siblings=young_siblings(job, beside, self.workload_of, now),
        )

    async def _placeholder(self, job: MigrationJob) -> LivePod | None:
        if not job.settings.reserves:
            return None
        found_pod = await self._api.get_pod(self._namespace, placeholder_name(job.uid))
        return read_live_pod(found_pod) if found_pod else None

    async def _is_steered(self, job: MigrationJob) -> bool:
        """Whether the taint or the gate that the job wants is in force."""
        settings, source = job.settings, job.source
        if not settings.reserves or source is None or job.eviction_requested_at is not None:
            return True
        match settings.steering:
            case Steering.NONE:
                return True
            case Steering.GATE:
                return job.is_gating and await self._is_gating(job)
            case steering:
                if not job.is_true(ConditionType.RESERVATION_SCHEDULED):
                    return False  # it is set right before the eviction
                return await self._is_tainted(source.node_name, steering)

    async def _is_tainted(self, name: str, steering: Steering) -> bool:
        """Whether the node has our taint; the cache may show one that was just removed."""
        node = await self._api.get(f"/api/v1/nodes/{name}")
        effects = {"NoSchedule"} | ({"PreferNoSchedule"} if steering is Steering.SOFT else set())
        return node is None or any(
            taint.get("key") == TAINT and taint.get("effect") in effects
            for taint in node["spec"].get("taints") or ()
        )

    async def _is_gating(self, job: MigrationJob) -> bool:
        """Whether the API server gates new pods of the workload by now.

        It learns of the job a moment after the job was labelled. So it is asked what it would do
        with such a pod, in the namespace where this process may create some; none is created.
        """
        if job.has_asked or job.source is None or job.source.owner is None:
            return True
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        trial = build_trial_pod(self._namespace, job, job.source, self._image)
        try:
            answer = await self._api.create(path, trial, dry_run=True)
        except ClusterError as error:
            self._handle.log.warning("gate not in force", job=job.name, reason=str(error))
            return False
        gates = (answer or {}).get("spec", {}).get("schedulingGates") or ()
        return any(gate.get("name") == GATE for gate in gates)

    async def _replacement(
        self, job: MigrationJob
    ) -> tuple[Object | None, tuple[PodReference, ...]]:
        """The pod that takes the place, and pods of the workload that are gated for no job."""
        if not job.settings.reserves or job.source is None or not job.has_asked:
            return None, ()
        candidates = [live_pod_of(pod) for pod in self._pods_of_workloads()]
        replacements = find_replacements(self._jobs, candidates, self.workload_of)
        chosen = replacements.get(job.uid)
        raw = await self._api.get_pod(chosen.namespace, chosen.name) if chosen else None
        if raw and chosen and raw["metadata"].get("uid") != chosen.uid:
            raw = None
        if job.settings.steering is not Steering.GATE:
            return raw, ()
        gated = await self.gated_pods(job)
        release = gates_to_release(self._jobs, gated, self.workload_of, self._handle.clock.now())
        waiting = chosen.uid if chosen else ""
        return raw, tuple(pod for pod in release if pod.uid != waiting)

    def _pods_of_workloads(self) -> Iterable[Pod]:
        """The pods of all workloads that jobs in progress are about."""
        seen: set[str] = set()
        for job in self._jobs:
            if job.is_terminal or job.source is None or job.source.owner is None:
                continue
            for pod in pods_beside(job, self._view):
                if pod.uid not in seen:
                    seen.add(pod.uid)
                    yield pod

    async def gated_pods(self, job: MigrationJob) -> list[LivePod]:
        """The pods of the job's workload that have our gate, as the API server has them."""
        gated = []
        for pod in pods_beside(job, self._view):
            if GATE in pod.spec.gates and (raw := await self._api.get_pod(pod.namespace, pod.name)):
                live = read_live_pod(raw)
                if live.gated and live.uid == pod.uid:
                    gated.append(live)
        return gated

    def workload_of(self, pod: LivePod) -> str:
        """The uid of the workload of a pod; empty if it is not known."""
        cached = self._view.pod(pod.namespace, pod.name)
        return workload_uid(cached, self._view) if cached and cached.uid == pod.uid else ""


def pods_beside(job: MigrationJob, view: View) -> Iterable[Pod]:
    """The pods of the workload that a job moves a pod of, in the watch cache."""
    if job.source is None or job.source.owner is None:
        return ()
    workloads = view.snapshot.workloads
    owner = job.source.owner.uid
    of_owner = [pod for pod in view.pod_index.of_owner(owner) if pod.namespace == job.pod.namespace]
    if not job.source.workload or job.source.workload == owner:
        return of_owner
    beside = {pod.uid: pod for pod in of_owner}
    for uid in workloads.controllers_of_uid(job.source.workload):
        for pod in view.pod_index.of_owner(uid):
            beside[pod.uid] = pod
    return beside.values()


def workload_uid(pod: Pod, view: View) -> str:
    """The uid of the workload of a pod; of its controller where more is not known."""
    workload = view.workload_of(pod)
    if isinstance(workload, Workload):
        return workload.uid
    return pod.controller.uid if pod.controller else ""


def rollout_of(pod: Pod, view: View) -> str:
    """Why the workload of the pod counts as being in the middle of a rollout; empty if not."""
    workload = view.workload_of(pod)
    if isinstance(workload, Workload) and view.snapshot.workloads.is_rolling_out(workload):
        return f"{workload.title} is in the middle of a rollout"
    return ""


def outdated_status(pod: Pod, view: View) -> str:
    """Why it is not known yet whether the workload of the pod rolls out; empty if it is."""
    workload = view.workload_of(pod)
    if isinstance(workload, Workload) and view.snapshot.workloads.is_outdated(workload):
        return f"the controller of {workload.title} has not seen its last change yet"
    return ""


def unreadable_workload(pod: Pod, view: View) -> str:
    """Why the workload of a pod cannot be read although it should be; empty if it can."""
    workload = view.workload_of(pod)
    if isinstance(workload, UnknownWorkload) and workload.replaced:
        return f"{workload.title} was replaced by another of that name"
    if isinstance(workload, UnknownWorkload) and workload.is_built_in:
        return f"{workload.title} is not in the watch cache yet"
    return ""


def live_pod_of(pod: Pod) -> LivePod:
    """A pod of the watch cache, as far as it is known there."""
    owner = pod.controller
    return LivePod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        node=pod.node,
        owner=ControllerReference(owner.api_version, owner.kind, owner.name, owner.uid)
        if owner
        else None,
        revision=pod.labels.get("controller-revision-hash")
        or pod.labels.get("pod-template-hash", ""),
        priority=pod.spec.priority or 0,
        created=pod.created,
        terminating=pod.terminating,
        phase=pod.state.phase,
        ready=pod.state.ready,
        gated=GATE in pod.spec.gates,
    )
