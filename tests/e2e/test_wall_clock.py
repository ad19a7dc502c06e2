"""The wall clock is stepped by hours during a run; only the ages of pods depend on it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resettle.kube.leader_election.lease import LeaseSettings
from tests.e2e.cluster.old_pods import create_old_pods, old_pods_policy, uids_on_nodes
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.in_process_run import InProcessRun
from tests.e2e.processes.run import Account, assert_audit_agrees
from tools.control_plane.api import Api

HOURS = timedelta(hours=5)
FORWARDS, BACKWARDS = pytest.param(HOURS, id="forwards"), pytest.param(-HOURS, id="backwards")
HALF_A_DAY = 12 * 3600


def short_lease(workspace: Workspace) -> LeaseSettings:
    return LeaseSettings(
        namespace=workspace.name,
        duration_seconds=4,
        renew_deadline_seconds=3,
        retry_period_seconds=0.5,
    )


@pytest.mark.parametrize("step", [FORWARDS, BACKWARDS])
def test_a_step_between_cycles_changes_neither_the_interval_nor_the_leader(
    step: timedelta, account: Account, api: Api, workspace: Workspace
) -> None:
    lease = short_lease(workspace)
    with InProcessRun(
        account, old_pods_policy(workspace, HALF_A_DAY), interval=1.0, lease=lease
    ) as run:
        run.wait_for("cycle done")
        run.clock.wall_ahead += step
        run.wait_for_more("lease renewed", 8)
        run.clock.wall_ahead -= step
        run.wait_for_more("cycle done", 3)
        assert run.stop() == 0, run.log_text

    assert (
        run.lines_of("lease lost")
        == run.lines_of("cycle skipped")
        == run.lines_of("cycle failed")
        == []
    )
    assert_audit_agrees(api, account, run)


@pytest.mark.parametrize("step", [FORWARDS, BACKWARDS])
def test_a_step_in_the_middle_of_a_cycle_neither_loses_nor_repeats_an_eviction(
    step: timedelta, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 24)
    pace = {"qps": 8.0, "burst": 1}
    lease = short_lease(workspace)

    with InProcessRun(
        account, old_pods_policy(workspace), interval=1.0, lease=lease, **pace
    ) as run:
        run.wait_for("evicted", 4)
        run.clock.wall_ahead += step
        run.wait_for("evicted", 12)
        run.clock.wall_ahead -= step
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        run.wait_for_more("cycle done", 2)
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids
    assert run.lines_of("lease lost") == []


def test_pods_are_as_old_as_the_wall_clock_says(
    account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 6)

    with InProcessRun(account, old_pods_policy(workspace, 3600), interval=1.0) as run:
        run.wait_for("cycle done", 2)
        run.clock.wall_ahead = -HOURS
        run.wait_for_more("cycle done", 2)
        assert uids_on_nodes(workspace) == all_uids
        run.clock.wall_ahead = HOURS
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids
