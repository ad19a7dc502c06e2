"""Changes of a job's status, as merge patches.

A patch has only what changes. The list of conditions is written as a whole, because a merge patch
cannot change one entry; entries and fields of other versions are kept. A patch carries the
resourceVersion that it was computed from, so that the API server refuses it if another process
has written in between; the second change of a step carries the version that the first one made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from resettle.model.migration_job import (
    COMPLETE,
    ConditionType,
    JobEnding,
    JobPhase,
    JobReason,
    MigrationJob,
    PodReference,
)
from resettle.times import format_time


class StatusChange(Struct, frozen=True):
    """The fields of a status that change; None removes a field."""

    fields: Mapping[str, Any]

    def patch(self, resource_version: str) -> dict[str, Any]:
        """The body of a merge patch that is refused if the job has another version by now."""
        return {"metadata": {"resourceVersion": resource_version}, "status": dict(self.fields)}


class NewCondition(Struct, frozen=True):
    """A condition to set."""

    type: ConditionType
    status: str
    """`True`, `False` or `Unknown`."""
    reason: JobReason
    message: str = ""


def change_status(
    job: MigrationJob,
    now: datetime,
    conditions: Sequence[NewCondition] = (),
    fields: Mapping[str, Any] | None = None,
) -> StatusChange | None:
    """The change that sets these conditions and fields; None if they are set already."""
    status = job.object.status
    changes: dict[str, Any] = {}
    refused = job.conditions.get(ConditionType.SUPPORTED)
    if not job.unknown and refused is not None and refused.status == "False":
        conditions = [
            NewCondition(ConditionType.SUPPORTED, "True", JobReason.SUPPORTED),
            *conditions,
        ]
    entries = list(status.get("conditions") or ())
    for condition in conditions:
        if _set_condition(entries, condition, job, now):
            changes["status"] = condition.type.value
            changes["reason"] = condition.reason.value
            changes["message"] = condition.message
            changes["conditions"] = entries
    changes |= fields or {}
    changes = {key: value for key, value in changes.items() if status.get(key) != value}
    if not changes:
        return None
    if status.get("observedGeneration") != job.object.metadata.generation:
        changes["observedGeneration"] = job.object.metadata.generation
    return StatusChange(changes)


def _set_condition(
    entries: list[Any], condition: NewCondition, job: MigrationJob, now: datetime
) -> bool:
    """Set a condition in the list; whether that changed it."""
    entry: dict[str, Any] = {
        "type": condition.type.value,
        "status": condition.status,
        "reason": condition.reason.value,
        "message": condition.message,
    }
    types = [old.get("type") if isinstance(old, Mapping) else None for old in entries]
    if condition.type not in types:
        entries.append({})
        types.append(condition.type)
    place = types.index(condition.type)
    old = entries[place]
    if all((old.get(key) or "") == value for key, value in entry.items()):
        return False
    entry["observedGeneration"] = job.object.metadata.generation
    if old.get("status") != condition.status or not old.get("lastTransitionTime"):
        entry["lastTransitionTime"] = format_time(now)
    entries[place] = {**old, **entry}
    return True


# -- ends ------------------------------------------------------------------------------------------


def announce_end(
    job: MigrationJob,
    now: datetime,
    ending: JobEnding,
    conditions: Sequence[NewCondition] = (),
    more: Mapping[str, Any] | None = None,
) -> StatusChange | None:
    """Record how the job will end, before its placeholder and gates are released."""
    announced = {
        "phase": ending.phase.value,
        "reason": str(ending.reason),
        "message": ending.message,
    }
    return change_status(job, now, conditions, {**(more or {}), "ending": announced})


def finish(
    job: MigrationJob,
    now: datetime,
    ending: JobEnding,
    conditions: Sequence[NewCondition] = (),
    more: Mapping[str, Any] | None = None,
) -> StatusChange | None:
    """Set the final phase; None for a job that has one already, which is never written again."""
    if job.is_terminal:
        return None
    fields = {
        **(more or {}),
        "phase": ending.phase.value,
        "reason": str(ending.reason),
        "message": ending.message,
        "finishedAt": format_time(now),
        "ending": None,
    }
    if ending.phase is JobPhase.SUCCEEDED:
        fields["status"] = COMPLETE
    return change_status(job, now, conditions, fields)


def newer_version_text(job: MigrationJob) -> str:
    """Why a job is left to a newer version."""
    return f"this version does not know {', '.join(job.unknown)}"


def note_newer_version(job: MigrationJob, now: datetime) -> StatusChange | None:
    """Say that the job is left alone; None for one that has ended or is being deleted."""
    if job.is_terminal or job.is_being_deleted:
        return None
    says, reason = f"{newer_version_text(job)}; upgrade resettle", JobReason.NEWER_VERSION
    return change_status(job, now, [NewCondition(ConditionType.SUPPORTED, "False", reason, says)])


# -- answers to requests, for those who make them --------------------------------------------------


def note_created(job: MigrationJob, now: datetime, notes: Sequence[str]) -> StatusChange | None:
    """The placeholder was created; `notes` say what it cannot promise."""
    says, reason = "; ".join(notes), JobReason.CREATED
    created = NewCondition(ConditionType.RESERVATION_CREATED, "True", reason, says)
    return change_status(job, now, [created])


def note_creation_refused(job: MigrationJob, now: datetime, message: str) -> StatusChange | None:
    """The placeholder could not be created; the next pass tries again."""
    reason = JobReason.FAILED_CREATE_RESERVATION
    created = NewCondition(ConditionType.RESERVATION_CREATED, "False", reason, message)
    return change_status(job, now, [created])


def note_eviction_refused(job: MigrationJob, now: datetime, message: str) -> StatusChange | None:
    """The eviction was not granted, such as for a spent budget; it is asked for again later."""
    refused = JobReason.EVICTION_REFUSED
    eviction = NewCondition(ConditionType.EVICTION, "False", refused, message)
    return change_status(job, now, [eviction])


def note_unreadable(job: MigrationJob, now: datetime, message: str) -> StatusChange | None:
    """Something that the next step depends on cannot be read or written; it is tried again."""
    fields = {"reason": JobReason.UNREADABLE.value, "message": message}
    return change_status(job, now, fields=fields)


def note_eviction_time(granted: StatusChange, at: datetime) -> StatusChange:
    """The change that records a granted eviction, with the time at which it was granted."""
    return StatusChange({**granted.fields, "evictionRequestedAt": format_time(at)})


def note_victim_replaced(job: MigrationJob, now: datetime, message: str) -> StatusChange | None:
    """The request failed because no pod with the uid exists: nothing was evicted by this job."""
    eviction = NewCondition(ConditionType.EVICTION, "Unknown", JobReason.POD_REPLACED, message)
    return change_status(job, now, [eviction])


def claim_replacement(
    job: MigrationJob, now: datetime, replacement: PodReference
) -> StatusChange | None:
    """Record which pod takes the place, so that no other job of the workload takes that pod."""
    return change_status(job, now, fields={"podRef": replacement.to_json()})
