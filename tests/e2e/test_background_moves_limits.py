"""Pods that move in the background count towards limits, and as gone in the next plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster.policies import UPSTREAM, policy
from tests.e2e.cluster.virtual_machine_moves import (
    SHORT_INTERVAL,
    assert_webhook_agrees,
    create_machine,
    restarts_policy,
    wait_for_cycles,
)
from tests.e2e.cluster.virtual_machines import Machine
from tests.e2e.cluster.workloads import create_deployment, pods_of, report_restarts, uids
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.run import Account
from tests.e2e.servers.eviction_webhook import EvictionWebhook
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

TOTAL, NODE = "maxNoOfPodsToEvictTotal", "maxNoOfPodsToEvictPerNode"
NAMESPACE = "maxNoOfPodsToEvictPerNamespace"


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param({TOTAL: 2}, id="in all"),
        pytest.param({NODE: 1}, id="of a node"),
        pytest.param({NAMESPACE: 1}, id="of a namespace"),
    ],
)
def test_moving_machines_count_towards_limits_cycle_after_cycle(
    limit: dict[str, int],
    plane: Access,
    account: Account,
    api: Api,
    workspace: Workspace,
    second_workspace: Workspace,
    tmp_path: Path,
) -> None:
    """Five machines on two nodes in two namespaces: each of the limits allows two."""
    all_machines = [create_machine(workspace, f"m{i}") for i in range(3)]
    all_machines += [create_machine(second_workspace, f"m{i}") for i in range(2)]
    waiting = {machine.uid: machine for machine in all_machines}

    with (
        EvictionWebhook(plane, tmp_path, workspace, second_workspace) as webhook,
        account.run(
            restarts_policy(workspace, second_workspace, limits=limit), *SHORT_INTERVAL
        ) as run,
    ):

        def newly_requested() -> list[Machine]:
            wait_for_cycles(run, 4)
            return [
                waiting.pop(request.uid)
                for request in list(webhook.requests)
                if request.uid in waiting
            ]

        run.wait_for("moving in background", 2)
        moving, gone = newly_requested(), 0
        assert len(moving) == 2
        while moving:
            first = moving.pop(0)
            first.begin_migration()
            assert not newly_requested(), "an annotated machine still counts"
            first.complete_migration()
            gone += 1
            run.wait_for("moved in background", gone)
            followers = newly_requested()
            assert len(followers) <= 1, "one more was allowed"
            moving += followers
        assert run.stop() == 0, run.log_text
        assert_webhook_agrees(api, account, webhook, run)

    assert not waiting
    assert [webhook.request_count(machine.uid) for machine in all_machines] == [1] * 5


def test_machines_and_other_pods_share_a_limit(
    plane: Access, account: Account, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    create_deployment(workspace, "web", 4)
    plain = pods_of(workspace.list_pods(), "web")
    machines = [create_machine(workspace, "first"), create_machine(workspace, "second", node=1)]

    with (
        EvictionWebhook(plane, tmp_path, workspace) as webhook,
        account.run(restarts_policy(workspace, limits={TOTAL: 2}), *SHORT_INTERVAL) as run,
    ):
        run.wait_for("moving in background", 2)
        report_restarts(workspace, plain, times=40)
        machines[0].begin_migration()
        wait_for_cycles(run)
        assert account.evictions() == [], "both count towards the limit"
        machines[0].complete_migration()
        run.wait_for("evicted", 4)
        assert max(len(cycle) for cycle in cycles(run.lines)) == 1, "one more is allowed"
        machines[1].delete()
        run.wait_for("moved in background", 2)
        assert run.stop() == 0, run.log_text
        assert_webhook_agrees(api, account, webhook, run)

    assert run.evicted == uids(plain)
    assert [webhook.request_count(machine.uid) for machine in machines] == [1, 1]


def cycles(lines: list[dict[str, object]]) -> list[list[object]]:
    """The names of the pods evicted in each cycle."""
    evicted: list[list[object]] = [[]]
    for line in list(lines):
        if line["msg"] == "evicted":
            evicted[-1].append(line["pod"])
        elif line["msg"] == "cycle done":
            evicted.append([])
    return evicted


@pytest.mark.parametrize(
    ("gate", "asked"),
    [
        pytest.param("true", 3, id="three, and no more"),
        pytest.param("false", 8, id="without the gate all"),
    ],
)
def test_a_node_that_machines_are_leaving_is_not_relieved_again(
    gate: str,
    asked: int,
    plane: Access,
    account: Account,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    """80% of the node are requested and 50% is the target, so three machines are to move."""
    machines = [Machine(workspace, f"m{i}", workspace.nodes[0], cpu="800m") for i in range(8)]
    bands = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    gates = f"--feature-gates=EvictionsInBackground={gate}"

    with (
        EvictionWebhook(plane, tmp_path, workspace) as webhook,
        account.run(
            policy(UPSTREAM, "LowNodeUtilization", bands, workspace), *SHORT_INTERVAL, gates
        ) as run,
    ):
        wait_for_cycles(run)
        chosen = [machine for machine in machines if webhook.request_count(machine.uid)]
        for machine in chosen:
            machine.begin_migration()
        wait_for_cycles(run)
        assert run.stop() == 0, run.log_text
        assert_webhook_agrees(api, account, webhook, run)

    assert len({request.uid for request in webhook.requests}) == len(chosen) == asked
    assert account.evictions() == []
