"""Which new pod replaces the pod that a job has evicted.

A replacement belongs to the same controller, or to the same workload (a Deployment may create it
from another ReplicaSet), and was created since the eviction was requested. A pod of a StatefulSet
is replaced by the pod of the same name. Since clocks differ, young pods that existed before the
request are recorded with the job, and are no replacements. Two jobs never get the same pod: the
claims in `status.podRef` come first, then the jobs choose in the order of their evictions, and a
job takes another pod than its first choice if else one of the jobs would get none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from resettle.controllers.migration.types import LivePod
from resettle.model.migration_job import MigrationJob, MoveSource, PodReference

CLOCK_SLACK = timedelta(seconds=30)
"""How much the clocks of API server and controller may differ; times are whole seconds, too."""

GATE_LIMIT = timedelta(seconds=30)
"""How long a pod may have our scheduling gate, whatever the jobs say."""

WorkloadOf = Callable[[LivePod], str]
"""The uid of the workload of a pod: of the Deployment, not of its ReplicaSet; empty if unknown."""


def find_replacements(
    jobs: Iterable[MigrationJob], pods: Iterable[LivePod], workload_of: WorkloadOf
) -> dict[str, LivePod]:
    """The replacement of each job that has one, by uid of the job.

    `jobs` are all jobs, ended ones included, because their replacements are taken.
    """
    jobs = list(jobs)
    usable = {pod.uid: pod for pod in pods if not pod.terminating and pod.phase != "Failed"}
    taken = {job.replacement.uid for job in jobs if job.replacement}
    taken |= {job.source.uid for job in jobs if job.source and not job.is_terminal}
    replacements: dict[str, LivePod] = {}
    waiting = []
    for job in jobs:
        if job.is_terminal or job.unknown or not job.settings.reserves:
            continue
        claimed = usable.get(job.replacement.uid) if job.replacement else None
        if claimed is not None:
            replacements[job.uid] = claimed
        elif job.eviction_requested_at is not None and job.source is not None:
            waiting.append((job.eviction_requested_at, job.uid, job, job.source))
    by_workload = _by_workload(usable.values(), taken, workload_of)
    choices: dict[str, list[LivePod]] = {}
    for since, uid, job, source in sorted(waiting, key=lambda entry: entry[:2]):
        candidates = [
            pod
            for pod in _pods_of(source, by_workload)
            if pod.uid not in job.siblings and _may_replace(pod, job, source, since)
        ]
        choices[uid] = sorted(candidates, key=partial(_order, since=since))
    return replacements | _pair(choices)


def _pair(choices: Mapping[str, list[LivePod]]) -> dict[str, LivePod]:
    """A pod for as many jobs as possible, from the pods that each job may take.

    Of two jobs evicted one after the other, the second knows the replacement of the first as older
    than its own eviction; if the first took the replacement of the second, none would be left.
    """
    takers: dict[str, str] = {}

    def find_pod(job: str, tried: set[str]) -> bool:
        free = [pod for pod in choices[job] if pod.uid not in takers]
        for pod in free or choices[job]:
            if pod.uid in tried:
                continue
            tried.add(pod.uid)
            if pod.uid not in takers or find_pod(takers[pod.uid], tried):
                takers[pod.uid] = job
                return True
        return False

    for job in choices:
        find_pod(job, set())
    return {job: pod for job, pods in choices.items() for pod in pods if takers.get(pod.uid) == job}


def young_siblings(
    job: MigrationJob, pods: Iterable[LivePod], workload_of: WorkloadOf, now: datetime
) -> tuple[str, ...]:
    """Uids of pods of the job's workload so young that they could pass for its replacement."""
    if job.source is None:
        return ()
    since = now - 2 * CLOCK_SLACK
    groups = _by_workload(pods, {job.source.uid}, workload_of)
    young = [pod for pod in _pods_of(job.source, groups) if pod.created and pod.created >= since]
    return tuple(sorted(pod.uid for pod in young))


def _by_workload(
    pods: Iterable[LivePod], taken: set[str], workload_of: WorkloadOf
) -> Mapping[str, dict[str, LivePod]]:
    """Pods by uid, under the uid of their controller and under that of their workload."""
    groups: dict[str, dict[str, LivePod]] = defaultdict(dict)
    for pod in pods:
        if pod.owner is not None and pod.uid not in taken:
            for group in {pod.owner.uid, workload_of(pod)} - {""}:
                groups[group][pod.uid] = pod
    return groups


def _pods_of(source: MoveSource, groups: Mapping[str, dict[str, LivePod]]) -> Iterable[LivePod]:
    if source.owner is None:
        return ()
    same_controller = groups.get(source.owner.uid, {})
    return {**same_controller, **groups.get(source.workload, {})}.values()


def _may_replace(pod: LivePod, job: MigrationJob, source: MoveSource, since: datetime) -> bool:
    if pod.namespace != job.pod.namespace or pod.uid == source.uid:
        return False
    if source.owner is not None and source.owner.kind == "StatefulSet":
        return pod.name == job.pod.name
    return pod.created is not None and pod.created >= since - CLOCK_SLACK


def _order(pod: LivePod, since: datetime) -> tuple[bool, datetime, str]:
    """Pods created after the request first, then the oldest, then by uid."""
    created = pod.created or datetime.max.replace(tzinfo=UTC)
    return created < since.replace(microsecond=0), created, pod.uid


# -- gates -----------------------------------------------------------------------------------------


def gates_to_release(
    jobs: Iterable[MigrationJob],
    gated: Iterable[LivePod],
    workload_of: WorkloadOf,
    now: datetime,
    limit: timedelta = GATE_LIMIT,
) -> list[PodReference]:
    """The pods with our gate that no job waits for, or that have it for too long."""
    jobs, gated = list(jobs), list(gated)
    waiting = [job for job in jobs if job.is_holding]
    expected = find_replacements(jobs, gated, workload_of)
    awaited = {expected[job.uid].uid for job in waiting if job.uid in expected}
    # A job that may have asked, and could not record it, may wait for any of the pods.
    uncertain = {
        job.source.workload
        for job in waiting
        if job.source and (job.unknown or (job.has_asked and not job.eviction_requested_at))
    }
    released = []
    for pod in gated:
        overdue = pod.created is None or now - pod.created >= limit
        is_awaited = pod.uid in awaited or workload_of(pod) in uncertain - {""}
        if overdue or not is_awaited:
            released.append(pod.reference)
    return released
