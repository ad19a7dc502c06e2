"""The second half of a move: the place goes to the replacement, and the replacement gets ready.

There is no way back from here: what fails is reported, and what was held is released.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs

from resettle.controllers.migration.next_step.job_pass import JobPass
from resettle.controllers.migration.status import (
    NewCondition,
    change_status,
    claim_replacement,
)
from resettle.controllers.migration.types import (
    DeletePlaceholder,
    HandOver,
    LivePod,
    Record,
    Step,
    StopGating,
    Wait,
)
from resettle.model.migration_job import (
    ConditionType,
    JobPhase,
    JobReason,
    PlaceholderPriority,
)
from resettle.times import format_time

_ATTEMPT = timedelta(milliseconds=50)
_LATE_ATTEMPT = timedelta(seconds=1)
"""How soon it is looked again whether the scheduler has tried to place the replacement.

It tries at once, unless it is busy or stopped: then so many looks would only be a burden.
"""
_PROMPT = timedelta(seconds=5)


def step_after_eviction(current: JobPass) -> Step:
    """The next step once the eviction was granted."""
    if not current.job.settings.reserves:
        return _wait_until_gone(current)
    return current.release_others() or _hand_over(current)


def record_request(current: JobPass) -> Step:
    """Record a request that was granted although the writer stopped before it could say so."""
    intended = current.job.condition(ConditionType.EVICTION)
    since = (intended and intended.last_transition_time) or current.now
    fields = {"evictionRequestedAt": format_time(since)}
    change = current.set(ConditionType.EVICTION, "False", JobReason.EVICTING, "", fields)
    return Record(after=change, because="the pod leaves, as it was asked to")


def _wait_until_gone(current: JobPass) -> Step:
    """EvictDirectly: the job is done when the pod is gone."""
    key = current.job.pod.key
    if current.is_gone:
        says = f"{key} has left {current.source.node_name}".rstrip()
        return current.end(JobPhase.SUCCEEDED, JobReason.COMPLETE, says)
    return _wait_for(current, f"{key} is still terminating", JobReason.TIMEOUT)


def _hand_over(current: JobPass) -> Step:
    """ReservationFirst: claim the replacement, give it the place, wait until it is ready."""
    job, replacement = current.job, current.observed.replacement
    if replacement is None:
        return _wait_for_replacement(current)
    key = replacement.reference.key
    if replacement.reference != job.replacement:
        claim = claim_replacement(job, current.now, replacement.reference)
        return Record(after=claim, because=f"{key} takes the place")
    if job.is_gating:
        return StopGating(because="the replacement is known")
    if not replacement.node:
        return _give_place(current, replacement)
    if current.observed.placeholder is not None:
        return DeletePlaceholder(because=f"{key} has a node")
    return _wait_until_ready(current, replacement)


def _wait_for_replacement(current: JobPass) -> Step:
    condition = NewCondition(
        ConditionType.POD_BOUND_RESERVATION, "False", JobReason.WAIT_FOR_POD_BIND_RESERVATION
    )
    if not current.is_gone:
        says = f"{current.job.pod.key} is still terminating"
        return _wait_for(current, says, JobReason.TIMEOUT, condition)
    lost = current.job.replacement
    says = f"{lost.key} is gone, and no other pod" if lost else "no pod"
    return _wait_for(
        current, f"{says} has replaced {current.job.pod.key}", JobReason.NO_REPLACEMENT, condition
    )


def _give_place(current: JobPass, replacement: LivePod) -> Step:
    """The replacement has no node: make it take the held place."""
    pod, placeholder = replacement.reference, current.observed.placeholder
    place = ""
    if placeholder and not placeholder.is_lost and current.observed.place_exists:
        place = placeholder.node
    if replacement.gated:
        # A pod of another revision may not fit there, and it would keep the pin for life.
        source = current.source
        same = (replacement.owner, replacement.revision) == (source.owner, source.revision)
        pin = place if same else ""
        return HandOver(pod=pod, pin=pin, nominate=pin, ungate=True)
    # A placeholder that yields is preempted by the scheduler itself.
    yields = current.job.settings.placeholder_priority is PlaceholderPriority.YIELD
    if placeholder and not (yields and place):
        if place and not replacement.scheduling_message:
            return _wait_for_first_attempt(current, replacement)
        return HandOver(pod=pod, nominate=place)
    return _wait_for(current, f"{pod.key} has no node yet", JobReason.HANDOVER_TIMEOUT)


def _wait_for_first_attempt(current: JobPass, replacement: LivePod) -> Step:
    """Wait until the scheduler has tried once to place the replacement.

    A nomination before that is cleared by the failing attempt, and the place is lost; right after
    it, nomination and deletion together nearly always win (measured: docs, designs/hand-over.md).
    """
    says = f"{replacement.reference.key} has no node yet"
    step = _wait_for(current, says, JobReason.HANDOVER_TIMEOUT)
    is_young = replacement.created and current.now - replacement.created < _PROMPT
    until = current.now + (_ATTEMPT if is_young else _LATE_ATTEMPT)
    return structs.replace(step, until=until) if isinstance(step, Wait) else step


def _wait_until_ready(current: JobPass, replacement: LivePod) -> Step:
    """The replacement has a node; the job ends well once it is ready and the pod is gone."""
    reserved, is_there = current.job.node_name, replacement.node == current.job.node_name
    place = "the reserved node" if is_there else f"not on {reserved}, which was reserved"
    where = f"{replacement.reference.key} is on {replacement.node}, {place}"
    reason = JobReason.ON_RESERVED_NODE if is_there else JobReason.ON_OTHER_NODE
    bound = NewCondition(ConditionType.RESERVATION_BOUND, "True", reason, where)
    if not replacement.works:
        waits = NewCondition(
            ConditionType.BOUND_POD_READY, "False", JobReason.WAIT_FOR_BOUND_POD_READY
        )
        says = f"{where}, and not ready yet"
        return _wait_for(current, says, JobReason.REPLACEMENT_NOT_READY, bound, waits)
    ready = NewCondition(ConditionType.BOUND_POD_READY, "True", JobReason.READY)
    if not current.is_gone:
        says = f"{where}, and ready, but {current.job.pod.key} is still terminating"
        return _wait_for(current, says, JobReason.TIMEOUT, bound, ready)
    says = f"{where}, and ready"
    done = NewCondition(ConditionType.POD_BOUND_RESERVATION, "True", JobReason.COMPLETE, says)
    return current.end(JobPhase.SUCCEEDED, JobReason.COMPLETE, says, [bound, ready, done])


def _wait_for(current: JobPass, says: str, late: JobReason, *conditions: NewCondition) -> Step:
    """Wait until the ttl is over, and fail with that reason then."""
    if current.is_overdue:
        text = f"{current.overdue_text}; {says}"
        return current.end(JobPhase.FAILED, late, text, conditions)
    gone, fields = current.departure
    change = change_status(current.job, current.now, [*gone, *conditions], fields)
    return Wait(because=says, until=current.job.deadline, after=change)
