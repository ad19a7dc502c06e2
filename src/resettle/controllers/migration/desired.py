"""What should exist for all jobs together: taints, placeholders, PriorityClasses.

Several jobs may share a taint or a class, so none of them removes it by itself: what is needed is
computed from the jobs, and what is not needed goes. The same functions, called at start and every
minute, remove what a stopped process has left. What belongs to a job of a newer version is kept.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from resettle.controllers.migration.reservations import placeholder_name, priority_class_name
from resettle.controllers.migration.types import LivePod
from resettle.model.migration_job import ConditionType, MigrationJob, Steering

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"


def desired_taints(jobs: Iterable[MigrationJob], working: Container[str] = ()) -> dict[str, str]:
    """The effect of our taint for each node that should have it; Hard wins over Soft.

    `working` has the uids of the jobs that are taken further at this moment.
    """
    effects: dict[str, str] = {}
    for job in jobs:
        if _needs_taint(job, job.uid in working) and job.source is not None:
            hard = job.settings.steering is Steering.HARD
            if hard or job.source.node_name not in effects:
                effects[job.source.node_name] = NO_SCHEDULE if hard else PREFER_NO_SCHEDULE
    return dict(sorted(effects.items()))


def nodes_left_alone(jobs: Iterable[MigrationJob]) -> frozenset[str]:
    """Nodes whose taint is neither added nor removed: a job of a newer version may need it."""
    return frozenset(
        job.source.node_name
        for job in jobs
        if job.unknown and not job.is_terminal and job.source is not None
    )


def _needs_taint(job: MigrationJob, is_worked_on: bool) -> bool:
    """Whether the pod is about to leave or has left, and its replacement has no node yet.

    A job that waits for its turn, or for a budget, keeps other pods off the node for nothing.
    """
    return (
        job.is_holding
        and not job.unknown
        and not job.is_abort_requested
        and job.is_accepted
        and job.settings.reserves
        and job.settings.steering in (Steering.SOFT, Steering.HARD)
        and job.is_true(ConditionType.RESERVATION_SCHEDULED)
        and (job.has_asked or is_worked_on)
    )


def unneeded_placeholders(
    jobs: Iterable[MigrationJob], placeholders: Iterable[LivePod]
) -> list[LivePod]:
    """The placeholders that no job needs."""
    needed = {placeholder_name(job.uid) for job in jobs if job.is_holding}
    return [pod for pod in placeholders if pod.name not in needed]


def unneeded_priority_classes(jobs: Iterable[MigrationJob], existing: Iterable[str]) -> list[str]:
    """Names of our PriorityClasses that no job needs."""
    needed = set()
    for job in jobs:
        if job.is_holding and job.source is not None and job.settings.reserves:
            needed.add(priority_class_name(job.settings.placeholder_priority, job.source.priority))
    return sorted(set(existing) - needed)
