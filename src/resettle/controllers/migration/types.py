"""The values that go into `next_step` and come out of it: what was observed, and steps.

A step may have a status change to be written before its action and another for afterwards. If the
write before is refused, the action must not happen. If the process stops in between, the next pass
finds the same state and computes the step again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from resettle.controllers.migration.status import StatusChange
from resettle.errors import InputError
from resettle.model.migration_job import (
    GATE,
    ControllerReference,
    JobPhase,
    JobReason,
    JobSettings,
    MoveSource,
    PodReference,
    Steering,
)
from resettle.model.pod import FINISHED
from resettle.times import parse_time

_NO_PLACE = ("no-node-fits", "no-place-to-hold")
"""Codes of refusals because no node would take the pod, so that no place can be held for it."""
_REVISION_LABELS = ("controller-revision-hash", "pod-template-hash")


class MoveRefusal(Protocol):
    """Why a pod must not move now; `framework.verdict.Refusal` fits."""

    @property
    def code(self) -> str:
        """The reason for programs."""

    @property
    def by(self) -> str:
        """The filter that refuses it; empty for the controller itself."""

    @property
    def sentence(self) -> str:
        """The reason as a sentence, which may lack its subject, the pod."""

    @property
    def clause(self) -> str:
        """The reason as it continues a sentence about the pod."""

    @property
    def temporary(self) -> bool:
        """Whether it is about the load of the moment, so that waiting may help."""


def refusal_text(pod: PodReference, refusal: MoveRefusal) -> str:
    """Why the pod must not move, with the filter that says so."""
    if refusal.by:
        return f"{refusal.by} does not let {pod.key} leave: {refusal.clause}"
    return f"{pod.key} {refusal.sentence}"


def end_of_refused(settings: JobSettings, refusal: MoveRefusal) -> JobReason:
    """The reason of a job that ends because of a refusal which waiting does not change."""
    if settings.reserves and refusal.code in _NO_PLACE:
        return JobReason.UNSCHEDULABLE
    return JobReason.FORBIDDEN_MIGRATE_POD


class LivePod(Struct, frozen=True, kw_only=True):
    """A pod as the API server has it now, with what a move depends on."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    owner: ControllerReference | None = None
    """Its controller."""
    revision: str = ""
    """Revision of the workload's template that it was made from."""
    priority: int = 0
    created: datetime | None = None
    terminating: bool = False
    phase: str = ""
    ready: bool = False
    gated: bool = False
    """Whether it has our scheduling gate."""
    preempted: bool = False
    """Whether it is to be removed for another pod."""
    scheduling_message: str = ""
    """Why the scheduler has no node for it."""

    @property
    def reference(self) -> PodReference:
        """The pod by name and uid."""
        return PodReference(self.namespace, self.name, self.uid)

    @property
    def finished(self) -> bool:
        """Whether it has succeeded or failed: it needs no place any more."""
        return self.phase in FINISHED

    @property
    def is_lost(self) -> bool:
        """Whether it holds its place no longer, or not for long."""
        return self.terminating or self.finished or self.preempted

    @property
    def works(self) -> bool:
        """Whether it is ready, or has done its work already."""
        return self.ready or self.phase == "Succeeded"

    def to_source(self, workload: str) -> MoveSource:
        """What a job records of the pod when it is accepted."""
        return MoveSource(
            node_name=self.node,
            uid=self.uid,
            priority=self.priority,
            workload=workload,
            revision=self.revision,
            owner=self.owner,
        )


def read_live_pod(document: Mapping[str, Any]) -> LivePod:
    """The pod in an answer of the API server."""
    meta, spec = document["metadata"], document.get("spec") or {}
    status = document.get("status") or {}
    labels = meta.get("labels") or {}
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    return LivePod(
        namespace=meta.get("namespace") or "",
        name=meta["name"],
        uid=meta.get("uid") or "",
        node=spec.get("nodeName") or "",
        owner=controller_of(meta),
        revision=next((labels[key] for key in _REVISION_LABELS if labels.get(key)), ""),
        priority=spec.get("priority") or 0,
        created=_time(meta.get("creationTimestamp")),
        terminating=meta.get("deletionTimestamp") is not None,
        phase=status.get("phase") or "",
        ready=(conditions.get("Ready") or {}).get("status") == "True",
        gated=any(gate.get("name") == GATE for gate in spec.get("schedulingGates") or ()),
        preempted=(conditions.get("DisruptionTarget") or {}).get("status") == "True",
        scheduling_message=""
        if scheduled.get("status") == "True"
        else scheduled.get("message") or "",
    )


def controller_of(meta: Mapping[str, Any]) -> ControllerReference | None:
    """The owner reference of the controller in some metadata."""
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return ControllerReference(
                owner.get("apiVersion", ""), owner["kind"], owner["name"], owner.get("uid", "")
            )
    return None


def _time(text: str | None) -> datetime | None:
    try:
        return parse_time(text)
    except InputError:
        return None


class Observed(Struct, frozen=True, kw_only=True):
    """What was read for one job, from the API server itself, not from a cache that may lag.

    Placeholder and gated pods are always known: a pass that cannot read them does not happen.
    """

    unreadable: str = ""
    """Why the pod to move, or its workload, could not be read; then nothing else is decided."""
    victim: LivePod | None = None
    """The pod under the name in `podRef`; it may have another uid."""
    placeholder: LivePod | None = None
    place_exists: bool = True
    """Whether the node of the placeholder exists."""
    steered: bool = True
    """Whether the taint or the gate that the job wants is in force."""
    refusal: MoveRefusal | None = None
    """What the filters say right now."""
    rolling_out: str = ""
    """Why the workload counts as being in the middle of a rollout; empty if it does not."""
    outdated: str = ""
    """Why it is not known yet whether the workload rolls out; empty if it is."""
    replacement: LivePod | None = None
    """The claimed replacement while it lives, else the pod that the job should claim."""
    siblings: tuple[str, ...] = ()
    """Uids of young pods of the workload, which are no replacements (`young_siblings`)."""
    other_gated: tuple[PodReference, ...] = ()
    """Pods of the workload with our gate that no job waits for."""


class Step(Struct, frozen=True, kw_only=True):
    """What to do next for a job."""

    because: str = ""
    before: StatusChange | None = None
    """Written before the action; the action happens only if this was accepted."""
    after: StatusChange | None = None
    """Written after the action has succeeded."""


class Wait(Step, frozen=True, kw_only=True):
    """Do nothing until something changes, or until a time."""

    until: datetime | None = None


class Record(Step, frozen=True, kw_only=True):
    """Only write the status."""


class CreatePlaceholder(Step, frozen=True, kw_only=True):
    """Create the PriorityClass, if it is missing, and the placeholder; one that exists is fine."""


class Steer(Step, frozen=True, kw_only=True):
    """Set the taint on the source node, or the label of the job that gates new pods."""

    steering: Steering
    node: str


class Evict(Step, frozen=True, kw_only=True):
    """Request the eviction, with the uid as a precondition."""

    pod: PodReference


class HandOver(Step, frozen=True, kw_only=True):
    """Give the place to the replacement, in this order; each part may be done already."""

    pod: PodReference
    pin: str = ""
    """1. Require this node in its node affinity."""
    nominate: str = ""
    """2. Name this node as the nominated one."""
    ungate: bool = False
    """4. Remove our scheduling gate, after 3., the deletion of the placeholder."""


class DeletePlaceholder(Step, frozen=True, kw_only=True):
    """Delete the placeholder with a grace period of zero; one that is gone is fine."""


class ReleaseGates(Step, frozen=True, kw_only=True):
    """Remove our scheduling gate from these pods."""

    pods: tuple[PodReference, ...]


class StopGating(Step, frozen=True, kw_only=True):
    """Remove the label of the job by which new pods are gated."""


class Finish(Step, frozen=True, kw_only=True):
    """End the job: nothing of it is left but its taint, which follows from the other jobs."""

    phase: JobPhase
    reason: str
    message: str = ""


class LeaveAlone(Step, frozen=True, kw_only=True):
    """Do not touch the job."""

    reason: JobReason | None = None
