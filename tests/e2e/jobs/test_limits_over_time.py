"""MigrationLimits: how often pods of one workload move, by any mover and after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster.workloads import (
    NO_BACKGROUND_EVICTIONS,
    create_deployment,
    create_stateful_set,
    report_restarts,
    uids,
)
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.fixtures import audited, controller_account, run_account, shipped
from tests.e2e.migration.harness import MODES, create_job, start_controller, wait_for_ends
from tests.e2e.migration.limits import (
    assert_apart,
    eviction_policy,
    eviction_times,
    limits_policy,
    two_per_workload_in,
)
from tests.e2e.processes.run import Account, AuditedUser, assert_audit_agrees
from tools.control_plane.api import Api

__all__ = ["audited", "controller_account", "run_account", "shipped"]
"""Fixtures."""
TWO_IN_TEN_SECONDS = two_per_workload_in(10)
APART = 5
"""Seconds between two moves by that limiter."""


@pytest.mark.parametrize(
    ("kind", "mode"), [("Deployment", "EvictDirectly"), ("StatefulSet", "ReservationFirst")]
)
@pytest.mark.parametrize("restart", [False, True], ids=["one process", "a restart in between"])
def test_jobs_of_a_workload_evict_no_more_often_than_its_limiter_allows(
    kind: str,
    mode: str,
    restart: bool,
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create = create_deployment if kind == "Deployment" else create_stateful_set
    create(workspace, "web", 6)
    names = [create_job(api, pod) for pod in workspace.list_ready_pods()[:5]]
    chosen = limits_policy(controller_account, TWO_IN_TEN_SECONDS, **MODES[mode])
    runs = []

    if restart:
        with start_controller(controller_account, tmp_path, chosen) as first:
            eventually("two evictions", lambda: len(eviction_times(audited)) == 2)
            assert first.stop() == 0, first.log_text
        runs.append(first)
    with start_controller(controller_account, tmp_path, chosen) as last:
        statuses = wait_for_ends(api, names, last)
        assert last.stop() == 0, last.log_text
    runs.append(last)

    assert {status["phase"] for status in statuses.values()} == {"Succeeded"}, statuses
    assert_apart(audited, evictions=5, seconds=APART)
    assert_audit_agrees(api, audited, *runs)


def test_cycles_evict_pods_of_a_workload_no_more_often_than_its_limiter_allows(
    run_account: Account, api: Api, workspace: Workspace
) -> None:
    create_deployment(workspace, "web", 6)
    before = workspace.list_ready_pods()[:5]
    report_restarts(workspace, before, times=40)
    chosen = eviction_policy(workspace, TWO_IN_TEN_SECONDS)

    words = ("--descheduling-interval", "300ms", *NO_BACKGROUND_EVICTIONS)
    with run_account.run(chosen, *words) as run:
        run.wait_for("evicted", 5)
        assert run.stop() == 0, run.log_text

    assert_apart(run_account, evictions=5, seconds=APART)
    assert run.evicted == uids(before)
    refusals = [line.get("refusals", {}) for line in run.lines_of("cycle done")]
    assert any("rate-workload" in refused for refused in refusals)
    assert_audit_agrees(api, run_account, run)
