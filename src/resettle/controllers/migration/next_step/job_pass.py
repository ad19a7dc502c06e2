"""One pass over one job: what both halves of the state machine use, above all how a job ends.

An end is written as `status.ending` first if something must be released, so that the reason is not
computed again from a state in which the placeholder is already gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import structs

from resettle.controllers.migration.status import (
    NewCondition,
    StatusChange,
    announce_end,
    change_status,
    finish,
)
from resettle.controllers.migration.types import (
    DeletePlaceholder,
    Finish,
    Observed,
    ReleaseGates,
    Step,
    StopGating,
)
from resettle.model.migration_job import (
    ConditionType,
    JobEnding,
    JobPhase,
    JobReason,
    MigrationJob,
    MoveSource,
)
from resettle.times import format_duration, format_time


class JobPass:
    """A job, what was observed, the time; and the steps that end a job."""

    def __init__(self, job: MigrationJob, observed: Observed, now: datetime) -> None:
        self.job = job
        self.observed = observed
        self.now = now
        self.source = job.source or MoveSource()

    @property
    def is_overdue(self) -> bool:
        return self.job.is_overdue(self.now)

    @property
    def overdue_text(self) -> str:
        """The beginning of the message of a job that ends because its ttl is over."""
        return f"the job has not ended in {format_duration(self.job.settings.ttl)}"

    @property
    def is_gone(self) -> bool:
        """Whether the pod to move does not exist any more."""
        victim = self.observed.victim
        return victim is None or victim.uid != self.source.uid

    @property
    def departure(self) -> tuple[list[NewCondition], dict[str, Any]]:
        """Conditions and fields that record that the pod is gone, if it is gone after a request."""
        if self.observed.unreadable or not self.is_gone or not self.job.eviction_requested_at:
            return [], {}
        message = f"{self.job.pod.key} has left {self.source.node_name}".rstrip()
        reason = JobReason.EVICT_COMPLETE
        conditions = [NewCondition(ConditionType.EVICTION, "True", reason, message)]
        fields = {} if self.job.evicted_at else {"evictedAt": format_time(self.now)}
        return conditions, fields

    def set(
        self,
        kind: ConditionType,
        status: str,
        reason: JobReason,
        message: str = "",
        fields: Mapping[str, Any] | None = None,
    ) -> StatusChange | None:
        """The change that sets one condition; None if it is set already."""
        condition = NewCondition(kind, status, reason, message)
        return change_status(self.job, self.now, [condition], fields)

    def release_others(self) -> Step | None:
        """Release pods that were gated for this workload and that no job waits for."""
        others = self.observed.other_gated
        return ReleaseGates(pods=others, because="no job waits for them") if others else None

    def release(self) -> Step | None:
        """The next part of the job to be released: gate, gated pods, placeholder."""
        if self.job.is_gating and not self.job.is_being_deleted:
            return StopGating()
        replacement, gated = self.observed.replacement, self.observed.other_gated
        if replacement is not None and replacement.gated:
            gated = (*gated, replacement.reference)
        if gated:
            return ReleaseGates(pods=gated)
        return DeletePlaceholder() if self.observed.placeholder is not None else None

    def fail(self, reason: JobReason, says: str) -> Step:
        """End the job as failed."""
        return self.end(JobPhase.FAILED, reason, says)

    def end(
        self,
        phase: JobPhase,
        reason: JobReason,
        says: str,
        conditions: Sequence[NewCondition] = (),
    ) -> Step:
        """End the job; if something of it must be released first, the end is written before."""
        ending = JobEnding(phase, reason, says)
        release = self.release()
        if release is None:
            return self.finish(ending, conditions)
        gone, fields = self.departure
        change = announce_end(self.job, self.now, ending, [*gone, *conditions], fields)
        return structs.replace(release, before=change)

    def finish(self, ending: JobEnding, conditions: Sequence[NewCondition] = ()) -> Step:
        """Give the job its final phase: nothing of it is left to release."""
        gone, fields = self.departure
        change = finish(self.job, self.now, ending, [*gone, *conditions], fields)
        return Finish(
            phase=ending.phase, reason=str(ending.reason), message=ending.message, after=change
        )
