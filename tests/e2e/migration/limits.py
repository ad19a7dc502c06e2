"""Policies with MigrationLimits, for jobs and for evictions, and when pods were evicted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.e2e.cluster.policies import OURS, policy
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import ARGS, STRATEGY, job_policy
from tests.e2e.processes.run import AuditedUser, Policy

LIMITED = {"filter": {"enabled": ["MigrationLimits"]}}
TTL = "10m"
"""Longer than any test, so that no job that waits for its turn runs out of time."""


def limits_policy(
    account: ControllerAccount, limits: Mapping[str, Any] | None = None, **args: Any
) -> Policy:
    """A policy for jobs with these arguments of MigrationLimits."""
    config = {"MigrationLimits": limits or {}}
    return job_policy(account, plugins=LIMITED, config=config, **{"defaultJobTTL": TTL, **args})


def eviction_policy(workspace: Workspace, limits: Mapping[str, Any] | None = None) -> Policy:
    """A policy that evicts pods with many restarts, with these arguments of MigrationLimits."""
    chosen = {"filter": {"MigrationLimits": limits or {}}}
    return policy(OURS, STRATEGY, ARGS, workspace, evictor={"minReplicas": 0}, plugins=chosen)


def two_per_workload_in(seconds: int) -> dict[str, Any]:
    """Limits that let two pods of a workload go in so many seconds, one at a time."""
    limiter = {"duration": f"{seconds}s", "maxMigrating": 2, "burst": 1}
    return {"objectLimiters": {"workload": limiter}}


def eviction_times(user: AuditedUser) -> list[datetime]:
    """When the API server received each eviction that it granted."""
    return [
        datetime.fromisoformat(request["requestReceivedTimestamp"])
        for request in user.eviction_requests()
        if request["responseStatus"]["code"] < 300
    ]


def assert_apart(user: AuditedUser, evictions: int, seconds: float) -> None:
    """Asserts that there were so many evictions, each so long after the one before."""
    times = eviction_times(user)
    assert len(times) == evictions
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= timedelta(seconds=seconds), gaps
