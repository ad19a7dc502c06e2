"""The mover of migration jobs: for each move it creates a PodMigrationJob, which others carry out.

The job names the pod by its uid, and the node for which the plan meant the move. From then on the
pod counts as moving as long as its job has not ended. People and other programs create jobs too,
and those count as well. A job that ended badly lets a later cycle try again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from hashlib import blake2b

import msgspec
from msgspec import Struct

from resettle.errors import AnswerLost, ClusterError, ClusterUnreachable, NotNow
from resettle.framework.mover import ApiRequests, MoveResponse, MoveResult, Options
from resettle.framework.plan import Move
from resettle.kube.failures import role_rule
from resettle.kube.status import Answer, status_of
from resettle.model.kinds import Kind
from resettle.model.migration_job import (
    GROUP,
    JOBS_PATH,
    KIND,
    PLURAL,
    TERMINAL,
    JobOptions,
    JobSettings,
    MigrationJob,
    PodMigrationJob,
    PodReference,
    build_job,
    read_eviction,
    read_job,
)
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import DepartedPod, Eviction

JOB_KIND = Kind(KIND, PodMigrationJob, JOBS_PATH, optional=True)
"""The kind, as plugins that read jobs declare it."""
CREATOR = "resettle"
"""What the label `created-by` of these jobs says."""
_CREATED = 201
_SERVER_ERROR = 500


class MigrationJobMover(Struct, frozen=True):
    """Creates a PodMigrationJob for each move."""

    settings: JobSettings

    async def move(self, move: Move, options: Options, requests: ApiRequests) -> MoveResponse:
        """Create a job that moves the pod."""
        try:
            body = msgspec.json.encode(self.job_for(move, options))
            reply = await requests.send("POST", JOBS_PATH, body)
        except AnswerLost as error:
            return MoveResponse(MoveResult.UNKNOWN, str(error))
        except ClusterUnreachable as error:
            # The next pod would fail as well: the rest of the plan waits for the next cycle.
            raise NotNow(str(error)) from None
        except ClusterError as error:
            return MoveResponse(MoveResult.ERROR, str(error))
        if reply.status == _CREATED:
            return MoveResponse(MoveResult.REQUESTED)
        if reply.status >= _SERVER_ERROR:
            says = f"the API server answered {reply.status}; the job may exist all the same"
            return MoveResponse(MoveResult.UNKNOWN, says)
        return MoveResponse(MoveResult.ERROR, _why_not(Answer(reply.status, reply.body)))

    def job_for(self, move: Move, options: Options) -> dict[str, object]:
        """The job that moves the pod to the node that the plan meant it for."""
        settings, pod = self.settings, move.pod
        return build_job(
            PodReference(pod.namespace, pod.name, pod.uid),
            JobOptions(
                mode=settings.mode,
                ttl=settings.ttl,
                placeholder_priority=settings.placeholder_priority if settings.reserves else None,
                steering=settings.steering if settings.reserves else None,
                reserve_timeout=settings.reserve_timeout if settings.reserves else None,
                node_name=move.lands_on if move.place_held else "",
                delete_options=options.delete_options,
                trigger=options.initiator,
                reason=options.reason,
                profile=options.profile,
                fingerprint=pod_fingerprint(pod),
                created_by=CREATOR,
            ),
        )


def pod_fingerprint(pod: Pod) -> str:
    """A digest of what a decision to move a pod reads of it; its state changes too often to count.

    Labels, owners, priority, requests, the node, and the annotations that are read.
    """
    template = pod.template
    read = (
        sorted(template.labels.items()),
        sorted(template.annotations.items()),
        [(owner.kind, owner.name, owner.uid) for owner in template.owners],
        template.spec.priority,
        sorted(template.spec.requests.items()),
        pod.node,
    )
    return blake2b(msgspec.json.encode(read), digest_size=8).hexdigest()


def _why_not(answer: Answer) -> str:
    message = status_of(answer).message
    match answer.status:
        case 404:
            return "the cluster has no PodMigrationJobs; apply what `resettle crds` prints"
        case 403 if "cannot create resource" in message:
            return f"{message}; add to its role: {role_rule('create', PLURAL, GROUP)}"
        case _:
            return message or f"the API server answered {answer.status}"


def jobs_under_way(snapshot: Snapshot, settings: JobSettings) -> Iterator[MigrationJob]:
    """The jobs that have not ended; `settings` apply where a job says nothing."""
    return (
        read_job(job, settings)
        for job in snapshot.others.get(KIND, ())
        if job.status.get("phase") not in TERMINAL
    )


def moving_by_jobs(snapshot: Snapshot, settings: JobSettings) -> frozenset[str]:
    """Uids of the pods whose jobs have not ended, those that wait included."""
    uids = set()
    for job in jobs_under_way(snapshot, settings):
        uid = job.source.uid if job.source else job.pod.uid
        if not uid and (pod := snapshot.pod(job.pod.namespace, job.pod.name)):
            uid = pod.uid  # a person named the pod only
        uids.add(uid)
    return frozenset(uids)


def departed_by_jobs(snapshot: Snapshot, settings: JobSettings) -> tuple[DepartedPod, ...]:
    """The pods that are gone while their jobs have not ended."""
    departed = []
    for job in jobs_under_way(snapshot, settings):
        source = job.source
        if source is None or not job.is_accepted:
            continue
        pod = snapshot.pod(job.pod.namespace, job.pod.name)
        if pod is None or pod.uid != source.uid:
            owner = source.owner.uid if source.owner else ""
            departed.append(DepartedPod(source.uid, source.node_name, job.pod.namespace, owner))
    return tuple(departed)


def evictions_by_jobs(snapshot: Snapshot) -> tuple[Eviction, ...]:
    """The evictions that jobs have recorded, those that ended included."""
    evictions = []
    for job in snapshot.others.get(KIND, ()):
        source, at = read_eviction(job)
        if source and at:
            owner = source.owner.uid if source.owner else ""
            namespace = job.spec.get("podRef", {}).get("namespace", "")
            # Times in a status have no fractions of a second.
            evictions.append(Eviction(source.uid, owner, namespace, at + timedelta(seconds=1)))
    return tuple(evictions)
