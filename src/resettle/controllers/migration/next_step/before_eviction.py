"""The first half of a move: a place is found and held, and the pod is asked to leave.

The pod is untouched until the very last step, so every failure here leaves it as it is.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs

from resettle.controllers.migration.next_step.job_pass import JobPass
from resettle.controllers.migration.status import change_status
from resettle.controllers.migration.types import (
    CreatePlaceholder,
    Evict,
    LivePod,
    Record,
    Steer,
    Step,
    Wait,
    end_of_refused,
    refusal_text,
)
from resettle.model.migration_job import (
    ConditionType,
    JobReason,
    JobSettings,
    MoveSource,
    Steering,
)
from resettle.times import format_duration, format_time

_OBSTACLES = (
    JobReason.FAILED_CREATE_RESERVATION,
    JobReason.UNSCHEDULABLE,
    JobReason.WAITING_FOR_LIMIT,
    JobReason.WORKLOAD_ROLLING_OUT,
    JobReason.NOT_IN_FORCE,
    JobReason.EVICTION_REFUSED,
    JobReason.UNREADABLE,
)
"""Reasons in a status whose message says what the job has waited for."""
_GATE_TIMEOUT = timedelta(seconds=30)
"""How long the API server may take to gate new pods of a workload."""
_FIRST_LOOK = timedelta(milliseconds=100)


def why_not_reservable(settings: JobSettings, source: MoveSource) -> str:
    """Why no place can be held for this pod; empty if one can, or none is wanted."""
    if not settings.reserves:
        return ""
    if source.owner is None:
        return "has no controller, so that no pod would replace it; use the mode EvictDirectly"
    if not source.node_name:
        return "has no node yet; there is nothing to move"
    if settings.node_name == source.node_name:
        return f"is on {source.node_name} already, the node that it should go to"
    return ""


def step_before_eviction(current: JobPass) -> Step:
    """The next step while the pod to move has not been asked to leave."""
    job, victim, source = current.job, current.observed.victim, current.source
    if job.paused:
        return Wait(because="it is paused")
    if victim is None:
        return current.fail(JobReason.MISSING_POD, f"{job.pod.key} does not exist any more")
    if victim.uid != source.uid:
        says = f"{job.pod.key} was replaced by another pod of that name"
        return current.fail(JobReason.POD_REPLACED, says)
    if victim.terminating:
        says = f"{job.pod.key} is being deleted, not by this job"
        return current.fail(JobReason.FORBIDDEN_MIGRATE_POD, says)
    for reason, says in job.problems:
        return current.fail(reason, says)
    if current.is_overdue:
        says = current.overdue_text
        if job.object.status.get("reason") in _OBSTACLES:
            says += f"; {job.object.status.get('message')}"
        return current.fail(JobReason.TIMEOUT, says)
    if others := current.release_others():
        return others
    return _reserve(current) or _look_again(current) or _steer(current) or _evict(current)


# -- the place -------------------------------------------------------------------------------------


def _reserve(current: JobPass) -> Step | None:
    """The next step on the way to a held place; None once it is held, or if none is wanted."""
    job, placeholder = current.job, current.observed.placeholder
    if not job.settings.reserves:
        return None
    if says := why_not_reservable(job.settings, current.source):
        return current.fail(JobReason.FORBIDDEN_MIGRATE_POD, f"{job.pod.key} {says}")
    if not job.is_true(ConditionType.RESERVATION_CREATED):
        return _create(current)
    node = job.node_name or (placeholder.node if placeholder else "")
    if node and not current.observed.place_exists:
        return current.fail(JobReason.NODE_GONE, f"{node}, which had the place, was deleted")
    if placeholder is None or placeholder.is_lost:
        return _lose_place(current, placeholder)
    if not placeholder.node:
        return _wait_for_place(current, placeholder)
    if placeholder.node == current.source.node_name:
        says = f"the placeholder went to {placeholder.node}, where the pod is"
        return current.fail(JobReason.FORBIDDEN_MIGRATE_POD, says)
    if job.is_true(ConditionType.RESERVATION_SCHEDULED) and job.node_name == placeholder.node:
        return None
    change = current.set(
        ConditionType.RESERVATION_SCHEDULED,
        "True",
        JobReason.SCHEDULED,
        f"a place is held on {placeholder.node}",
        {"nodeName": placeholder.node},
    )
    return Record(after=change)


def _create(current: JobPass) -> Step:
    """Create the placeholder; one that the API server refuses for `reserveTimeout` ends the job."""
    change = current.set(ConditionType.RESERVATION_CREATED, "True", JobReason.CREATED)
    if current.observed.placeholder:
        return Record(after=change)
    refused = current.job.condition(ConditionType.RESERVATION_CREATED)
    since = refused.last_transition_time if refused else None
    if refused and since and current.now - since >= current.job.settings.reserve_timeout:
        return current.fail(JobReason.FAILED_CREATE_RESERVATION, refused.message)
    return CreatePlaceholder(after=change)


def _lose_place(current: JobPass, placeholder: LivePod | None) -> Step:
    """End the job: its placeholder is gone, or going."""
    preempted = placeholder is not None and placeholder.preempted
    if preempted or current.job.is_true(ConditionType.RESERVATION_SCHEDULED):
        where = f" on {current.job.node_name}" if current.job.node_name else ""
        says = f"the place{where} was lost, most likely to a pod of higher priority"
        return current.fail(JobReason.RESERVATION_PREEMPTED, says)
    says = "the placeholder was deleted before it had a node"
    return current.fail(JobReason.MISSING_RESERVATION, says)


def _wait_for_place(current: JobPass, placeholder: LivePod) -> Step:
    """Wait until the scheduler has a node for the placeholder, up to `reserveTimeout`."""
    says = placeholder.scheduling_message or "the placeholder has no node yet"
    created = current.job.condition(ConditionType.RESERVATION_CREATED)
    since = (created and created.last_transition_time) or current.now
    until = since + current.job.settings.reserve_timeout
    if current.now >= until:
        length = format_duration(current.job.settings.reserve_timeout)
        return current.fail(JobReason.UNSCHEDULABLE, f"no place in {length}: {says}")
    change = current.set(
        ConditionType.RESERVATION_SCHEDULED, "False", JobReason.UNSCHEDULABLE, says
    )
    deadline = current.job.deadline
    return Wait(because=says, until=min(until, deadline) if deadline else until, after=change)


# -- the eviction ----------------------------------------------------------------------------------


def _look_again(current: JobPass) -> Step | None:
    """What the filters say, right before the pod is asked to leave; None if nothing."""
    refusal, rolling_out = current.observed.refusal, current.observed.rolling_out
    if refusal is not None and not refusal.temporary:
        says = refusal_text(current.job.pod, refusal)
        return current.fail(end_of_refused(current.job.settings, refusal), says)
    if current.observed.outdated:
        return _hold(current, JobReason.WORKLOAD_ROLLING_OUT, current.observed.outdated)
    if rolling_out and current.job.settings.reserves:
        return current.fail(JobReason.WORKLOAD_ROLLING_OUT, rolling_out)
    if rolling_out:
        return _hold(current, JobReason.WORKLOAD_ROLLING_OUT, rolling_out)
    if refusal is not None:
        return _hold(current, JobReason.WAITING_FOR_LIMIT, refusal.sentence)
    return None


def _hold(current: JobPass, reason: JobReason, says: str) -> Step:
    """Wait with the place held; conditions stay, they may record a request that is under way."""
    fields = {"reason": reason.value, "message": says}
    change = change_status(current.job, current.now, fields=fields)
    return Wait(because=says, until=current.job.deadline, after=change)


def _steer(current: JobPass) -> Step | None:
    """Taint or gate, if the job wants one that is not in force."""
    settings = current.job.settings
    if not settings.reserves or settings.steering is Steering.NONE:
        return None
    change = current.set(ConditionType.STEERED, "True", JobReason.IN_FORCE, settings.steering.value)
    if not current.observed.steered:
        if settings.steering is Steering.GATE and current.job.is_gating:
            return _wait_for_gate(current)
        return Steer(steering=settings.steering, node=current.source.node_name, after=change)
    return None if current.job.is_true(ConditionType.STEERED) else Record(after=change)


def _wait_for_gate(current: JobPass) -> Step:
    """Wait until the API server gates new pods: a moment after the job is labelled."""
    says = "new pods of the workload get no scheduling gate; is its admission policy installed?"
    steered = current.job.condition(ConditionType.STEERED)
    since = (steered and steered.last_transition_time) or current.now
    age = current.now - since
    if age >= _GATE_TIMEOUT:
        return current.fail(JobReason.NOT_IN_FORCE, says)
    change = current.set(ConditionType.STEERED, "False", JobReason.NOT_IN_FORCE, says)
    # The pause grows with the time that has passed.
    return Wait(because=says, until=current.now + max(age, _FIRST_LOOK), after=change)


def _evict(current: JobPass) -> Step:
    """Ask the pod to leave; that it is about to be asked is written first."""
    job, evicting = current.job, JobReason.EVICTING
    message = f"{job.pod.key} is asked to leave {current.source.node_name}".rstrip()
    # A request that may have been granted keeps what it knew: none of these pods replaces its pod.
    earlier = job.siblings if job.has_asked else ()
    siblings = sorted({*current.observed.siblings, *earlier})
    young = {"siblings": siblings} if siblings or job.siblings else {}
    if job.has_asked:
        intended = change_status(job, current.now, fields=young)
    else:
        intended = current.set(ConditionType.EVICTION, "Unknown", evicting, message, young)
    fields = {"evictionRequestedAt": format_time(current.now)}
    granted = current.set(ConditionType.EVICTION, "False", evicting, message, fields)
    pod = structs.replace(job.pod, uid=current.source.uid)
    return Evict(pod=pod, before=intended, after=granted)
