"""The state machine of a job that arbitration has accepted.

    accepted
       │
       │ ReservationFirst                                     EvictDirectly │
       ▼                                                                    │
    create placeholder ──► ReservationCreated                               │
       │   refused for reserveTimeout ──► Failed/FailedCreateReservation    │
       ▼   no node in reserveTimeout ──► Failed/Unschedulable               │
    placeholder has a node ──► ReservationScheduled                         │
       │   lost ──► Failed/ReservationPreempted, MissingReservation         │
       │   node gone ──► Failed/NodeGone                                    │
       │   on the source node ──► Failed/ForbiddenMigratePod                │
       ▼                                                                    │
    filters look again ◄────────────────────────────────────────────────────┘
       │   refused ──► Failed/ForbiddenMigratePod; for now ──► waits
       │   rollout ──► Failed/WorkloadRollingOut (EvictDirectly waits)
       ▼
    steer ──► Steered                                       (Soft, Hard, Gate)
       │   no gate in 30 s ──► Failed/NotInForce
       ▼
    evict: Eviction=Unknown is written, then the request, then Eviction=False
       │   not granted ──► EvictionRefused, and again, until the ttl ──► Failed/Timeout
       │
       │ up to here the pod has not been touched, and every failure leaves it as it is
       ▼
    EvictDirectly: pod is gone ──► Succeeded
    ReservationFirst:
    replacement appears ──► podRef            never ──► Failed/NoReplacement
       ▼
    hand over: placeholder deleted, replacement pinned or nominated
       ▼
    replacement has a node ──► ReservationBound    never ──► Failed/HandoverTimeout
       ▼
    replacement ready, pod gone ──► Succeeded      never ──► Failed/ReplacementNotReady

From every state: the annotation `resettle.dev/abort` ──► Aborted; the ttl ──► Failed. Before a job
ends it writes `status.ending`, then stops gating, releases gated pods and deletes its placeholder,
and only then gets its final phase; taints follow from all jobs together (`reservations`). A paused
job stops before its eviction, not after it, when a pod is already without a place; its ttl counts
again when it goes on.

`Eviction=Unknown` is what keeps a pod from being counted wrongly: if the process stops around the
request, the next one sees that the request may have been made, and that the pod leaves or stays.
The two halves are in `before_eviction` and `after_eviction`.
"""

from __future__ import annotations

from datetime import datetime

from resettle.controllers.migration.next_step.after_eviction import (
    record_request,
    step_after_eviction,
)
from resettle.controllers.migration.next_step.before_eviction import step_before_eviction
from resettle.controllers.migration.next_step.job_pass import JobPass
from resettle.controllers.migration.status import (
    newer_version_text,
    note_newer_version,
    note_unreadable,
)
from resettle.controllers.migration.types import LeaveAlone, Observed, Step, Wait
from resettle.model.migration_job import JobPhase, JobReason, MigrationJob


def next_step(job: MigrationJob, observed: Observed, now: datetime) -> Step:
    """What to do next for this job; every pass asks again, and all progress is in the status."""
    current = JobPass(job, observed, now)
    if job.unknown:
        change = note_newer_version(job, now)
        why = newer_version_text(job)
        return LeaveAlone(because=why, reason=JobReason.NEWER_VERSION, after=change)
    if job.is_terminal or job.is_being_deleted:
        return current.release() or LeaveAlone(because="it has ended")
    if job.ending is not None:
        return current.release() or current.finish(job.ending)
    if not observed.unreadable and _is_unrecorded(current):
        return record_request(current)
    if job.is_abort_requested:
        says = "the annotation `resettle.dev/abort` asks for it"
        return current.end(JobPhase.ABORTED, JobReason.ABORTED, says)
    if not job.is_accepted:
        return Wait(because="it waits for arbitration")
    if observed.unreadable:
        return _wait_until_readable(current)
    if job.eviction_requested_at is not None:
        return step_after_eviction(current)
    return step_before_eviction(current)


def _wait_until_readable(current: JobPass) -> Step:
    says = current.observed.unreadable
    if current.is_overdue:
        return current.fail(JobReason.TIMEOUT, f"{current.overdue_text}; {says}")
    change = note_unreadable(current.job, current.now, says)
    return Wait(because=says, until=current.job.deadline, after=change)


def _is_unrecorded(current: JobPass) -> bool:
    """Whether the pod leaves as asked, though the last writer stopped before it could say so."""
    job, victim = current.job, current.observed.victim
    leaves = current.is_gone or (victim is not None and victim.terminating)
    return job.is_accepted and job.has_asked and not job.eviction_requested_at and leaves
