"""Which waiting jobs may start now.

Jobs are judged one after another in a total order, and each acceptance counts for the next
judgement, so limits hold within one pass. The order, strongest key first:

    priority, lowest first                    QoS class, BestEffort first
    deletion cost, lowest first               eviction cost, lowest first
    running moves of the workload, fewest     creation of the job, oldest first
    uid of the job

Only running and accepted jobs count, never waiting ones: otherwise more waiting jobs than a limit
allows would hold each other up for ever. What cannot be read is never accepted.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum

import msgspec
from msgspec import Struct

from resettle.controllers.migration.next_step import why_not_reservable
from resettle.controllers.migration.status import (
    NewCondition,
    StatusChange,
    change_status,
    finish,
    newer_version_text,
    note_newer_version,
)
from resettle.controllers.migration.types import (
    LivePod,
    MoveRefusal,
    end_of_refused,
    refusal_text,
)
from resettle.model.migration_job import (
    ConditionType,
    JobEnding,
    JobPhase,
    JobReason,
    MigrationJob,
)
from resettle.model.pod import DELETION_COST, QOS_ORDER, Pod
from resettle.times import format_duration, format_time

JobOrder = tuple[int, int, int, int, int, datetime, str]
_NUMBERS = re.compile(r"\d+")
_NEVER = datetime.max.replace(tzinfo=UTC)


class WaitingJob(Struct, frozen=True, kw_only=True):
    """A job that is not accepted yet, with what was read for it."""

    job: MigrationJob
    unreadable: str = ""
    """Why the pod, its workload or its budgets could not be read; then the job waits."""
    live: LivePod | None = None
    """The pod under the name in `podRef`, from the API server; None if there is none."""
    pod: Pod | None = None
    """The pod as filters read it; None while the snapshot does not have it."""
    workload: str = ""
    """Uid of its workload."""
    eviction_cost: int = 0
    hold: str = ""
    """Why it should wait though no filter refuses it: a spent budget, a rollout."""
    hold_reason: JobReason = JobReason.WAITING_FOR_LIMIT


RefuseMove = Callable[[Pod, frozenset[str]], MoveRefusal | None]
"""What the filters say about a pod while the pods of these uids count as moving, too."""


class Judgement(StrEnum):
    """What arbitration says about a job."""

    ACCEPTED = "accepted"
    WAITS = "waits"
    ENDED = "ended"
    LEFT_ALONE = "left alone"


class Arbitrated(Struct, frozen=True, kw_only=True):
    """The judgement on one job."""

    job: MigrationJob
    judgement: Judgement
    reason: JobReason | None = None
    message: str = ""
    change: StatusChange | None = None
    """What to write; None if the status says so already."""


def arbitrate(
    waiting: Iterable[WaitingJob],
    refuse: RefuseMove,
    now: datetime,
    moving: Mapping[str, str] | None = None,
) -> list[Arbitrated]:
    """A judgement on every job, in the order in which they were judged.

    `moving` has the uid of each pod that is on its way, and the uid of its workload.
    """
    counted = dict(moving or {})
    running = Counter(workload for workload in counted.values() if workload)
    accepted: set[str] = set()
    queue = [(_order(entry, running), entry) for entry in waiting]
    heap = [(order, place) for place, (order, _) in enumerate(queue)]
    heapq.heapify(heap)
    judgements = []
    while heap:
        order, place = heapq.heappop(heap)
        entry = queue[place][1]
        # An acceptance may have moved its workload behind others; keys only ever grow.
        if (current := _order(entry, running)) != order:
            heapq.heappush(heap, (current, place))
            continue
        result = _judge(entry, refuse, now, frozenset(accepted), counted)
        judgements.append(result)
        if result.judgement is Judgement.ACCEPTED and entry.live is not None:
            accepted.add(entry.live.uid)
            counted[entry.live.uid] = entry.workload
            running[entry.workload] += bool(entry.workload)
    return judgements


def pods_accepted_later(jobs: Iterable[MigrationJob]) -> dict[str, frozenset[str]]:
    """By uid of each job whose pod is still to be asked: the pods of such jobs accepted after it.

    They do not count against its limits: else more accepted jobs than a limit allows, such as after
    a limit was lowered, would hold each other up until their ttl.
    """
    accepted = [
        (job.started_at or _NEVER, job.uid, job.source.uid)
        for job in jobs
        if job.is_accepted and job.source and not job.is_terminal and not job.has_asked
    ]
    later: dict[str, frozenset[str]] = {}
    after: frozenset[str] = frozenset()
    for _, uid, pod in sorted(accepted, reverse=True):
        later[uid] = after
        after |= {pod}
    return later


def _order(entry: WaitingJob, running: Mapping[str, int]) -> JobOrder:
    """The documented order; jobs without a pod first, they only end or wait."""
    pod, job = entry.pod, entry.job
    return (
        (pod.spec.priority or 0) if pod else -(2**31),
        QOS_ORDER.get(pod.qos, 1) if pod else 0,
        _cost(pod.template.annotations.get(DELETION_COST)) if pod else 0,
        entry.eviction_cost,
        running.get(entry.workload, 0) if entry.workload else 0,
        job.object.metadata.creation_timestamp or _NEVER,
        job.uid,
    )


def _cost(text: str | None) -> int:
    """The deletion cost; what is no number counts as zero, as in the ReplicaSet controller."""
    try:
        return int(text or 0)
    except ValueError:
        return 0


def _judge(
    entry: WaitingJob,
    refuse: RefuseMove,
    now: datetime,
    accepted: frozenset[str],
    counted: Mapping[str, str],
) -> Arbitrated:
    job, live = entry.job, entry.live
    if untouched := _leave_alone(job, now):
        return untouched
    if ended := _end_early(entry, now):
        return ended
    if job.paused:
        return Arbitrated(job=job, judgement=Judgement.LEFT_ALONE, message="it is paused")
    if entry.unreadable:
        return _wait(job, now, JobReason.UNREADABLE, entry.unreadable)
    if live is None or (not live.terminating and entry.pod is None):
        return _wait(job, now, JobReason.UNREADABLE, f"{job.pod.key} is not in the snapshot yet")
    if live.uid in counted:
        says = f"{job.pod.key} is being moved already"
        return _wait(job, now, JobReason.WAITING_FOR_LIMIT, says)
    refusal = refuse(entry.pod, accepted) if entry.pod is not None else None
    if refusal is not None and not refusal.temporary:
        says = refusal_text(job.pod, refusal)
        return _fail(job, now, end_of_refused(job.settings, refusal), says)
    if entry.hold:
        return _wait(job, now, entry.hold_reason, entry.hold)
    if refusal is not None:
        return _wait(job, now, JobReason.WAITING_FOR_LIMIT, refusal.sentence)
    return _accept(job, live, entry.workload, now)


def _leave_alone(job: MigrationJob, now: datetime) -> Arbitrated | None:
    """Jobs that arbitration never judges: ended, deleted, accepted or of a newer version."""
    why, change = "", None
    if job.is_terminal or job.ending is not None:
        why = "it has ended"
    elif job.is_being_deleted:
        why = "it is being deleted"
    elif job.unknown:
        why, change = newer_version_text(job), note_newer_version(job, now)
    elif job.is_accepted:
        why = "it is accepted"
    if not why:
        return None
    return Arbitrated(job=job, judgement=Judgement.LEFT_ALONE, message=why, change=change)


def _end_early(entry: WaitingJob, now: datetime) -> Arbitrated | None:
    """The end of a job that can never start; None if it may."""
    job, live = entry.job, entry.live
    if job.is_abort_requested:
        says = "the annotation `resettle.dev/abort` asks for it"
        return _end(job, now, JobEnding(JobPhase.ABORTED, JobReason.ABORTED, says))
    for reason, says in job.problems:
        return _fail(job, now, reason, says)
    if job.paused:
        return None
    if job.is_overdue(now):
        waited = job.condition(ConditionType.ARBITRATED)
        why = f": {waited.message}" if waited and waited.message else ""
        length = format_duration(job.settings.ttl)
        return _fail(job, now, JobReason.TIMEOUT, f"the job did not start in {length}{why}")
    if entry.unreadable:
        return None
    if live is None:
        return _fail(job, now, JobReason.MISSING_POD, f"{job.pod.key} does not exist")
    if job.pod.uid and job.pod.uid != live.uid:
        says = f"{job.pod.key} was replaced by another pod of that name"
        return _fail(job, now, JobReason.POD_REPLACED, says)
    if live.terminating:
        says = f"{job.pod.key} is being deleted already"
        return _fail(job, now, JobReason.FORBIDDEN_MIGRATE_POD, says)
    if says := why_not_reservable(job.settings, live.to_source(entry.workload)):
        return _fail(job, now, JobReason.FORBIDDEN_MIGRATE_POD, f"{job.pod.key} {says}")
    return None


# -- judgements ------------------------------------------------------------------------------------


def _wait(job: MigrationJob, now: datetime, reason: JobReason, says: str) -> Arbitrated:
    written = job.condition(ConditionType.ARBITRATED)
    if written and (written.status, written.reason) == ("False", reason):
        # A number that changes is no news: jobs that wait would be written all the time.
        says = written.message if _differs_in_numbers_only(written.message, says) else says
    condition = NewCondition(ConditionType.ARBITRATED, "False", reason, says)
    change = change_status(job, now, [condition], {"phase": JobPhase.PENDING.value})
    return Arbitrated(
        job=job, judgement=Judgement.WAITS, reason=reason, message=says, change=change
    )


def _differs_in_numbers_only(before: str, after: str) -> bool:
    """Whether two messages are the same but for their numbers."""
    return _NUMBERS.sub("", before) == _NUMBERS.sub("", after)


def _fail(job: MigrationJob, now: datetime, reason: JobReason, says: str) -> Arbitrated:
    return _end(job, now, JobEnding(JobPhase.FAILED, reason, says))


def _end(job: MigrationJob, now: datetime, ending: JobEnding) -> Arbitrated:
    return Arbitrated(
        job=job,
        judgement=Judgement.ENDED,
        reason=JobReason(ending.reason),
        message=ending.message,
        change=finish(job, now, ending),
    )


def _accept(job: MigrationJob, live: LivePod, workload: str, now: datetime) -> Arbitrated:
    """Start the job: phase, source and settings are written at once, so that either all count."""
    condition = NewCondition(ConditionType.ARBITRATED, "True", JobReason.ACCEPTED)
    fields = {
        "phase": JobPhase.RUNNING.value,
        "startedAt": format_time(now),
        "source": msgspec.to_builtins(live.to_source(workload)),
        "effective": job.settings.to_json(),
    }
    change = change_status(job, now, [condition], fields)
    return Arbitrated(
        job=job, judgement=Judgement.ACCEPTED, reason=JobReason.ACCEPTED, change=change
    )
