"""What a run still sends when it is stopped, or was frozen for longer than its lease."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from resettle.eviction.executor import AT_ONCE
from tests.e2e.cluster.old_pods import create_old_pods, old_pods_policy, uids_on_nodes
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import Account, assert_audit_agrees
from tests.e2e.servers.faulty_proxy import Fault, FaultyProxy, fault_for_evictions
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

EVERY_SECOND = ("--descheduling-interval", "1s")
UNLIMITED_RATE = (*EVERY_SECOND, "--client-connection-qps", "-1")
SLOW = (*EVERY_SECOND, "--client-connection-qps", "4", "--client-connection-burst", "1")


@pytest.fixture
def second(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """Another account, so that two runs can be distinguished in the audit log."""
    with Account(plane, api, tmp_path) as made:
        yield made


def lease_flags(workspace: Workspace) -> tuple[str, ...]:
    """Flags with which runs contend for a lease of the workspace."""
    return (
        "--leader-elect",
        f"--leader-elect-resource-namespace={workspace.name}",
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=500ms",
    )


def lease(api: Api, workspace: Workspace) -> Object:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{workspace.name}/leases/descheduler"
    spec: Object = api.get(path).granted()["spec"]
    return spec


@pytest.mark.parametrize(
    "sign",
    [pytest.param(signal.SIGTERM, id="terminated"), pytest.param(signal.SIGINT, id="interrupted")],
)
def test_a_stop_mid_cycle_waits_for_answers_and_sends_no_more_requests(
    sign: signal.Signals, plane: Access, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, AT_ONCE + 16)

    with FaultyProxy(plane, account) as proxy:
        proxy.fault = fault_for_evictions(Fault.DELAYED)
        with account.run(
            old_pods_policy(workspace), *UNLIMITED_RATE, *lease_flags(workspace)
        ) as run:
            eventually("the most concurrent requests", lambda: proxy.waiting == AT_ONCE)
            run.signal(sign)
            run.wait_for("stopping")
            proxy.release.set()
            assert run.wait_for_exit() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert len(run.evicted) == len(account.eviction_requests()) == AT_ONCE
    assert uids_on_nodes(workspace) == all_uids - run.evicted
    assert lease(api, workspace)["holderIdentity"] == ""
    assert run.other_output == []


def test_a_stop_is_not_delayed_by_a_low_rate_limit(
    account: Account, api: Api, workspace: Workspace
) -> None:
    create_old_pods(workspace, 12)
    very_slow = ("--client-connection-qps", "0.01", "--client-connection-burst", "1")

    with account.run(old_pods_policy(workspace), *EVERY_SECOND, *very_slow) as run:
        run.wait_for("evicted")
        run.signal(signal.SIGTERM)
        assert run.wait_for_exit(timeout_seconds=20) == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert len(account.eviction_requests()) == 1


def test_a_second_interrupt_ends_the_run_at_once(
    plane: Access, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, AT_ONCE + 4)

    with FaultyProxy(plane, account) as proxy:
        proxy.fault = fault_for_evictions(Fault.DELAYED)
        with account.run(
            old_pods_policy(workspace), *UNLIMITED_RATE, *lease_flags(workspace)
        ) as run:
            eventually("the most concurrent requests", lambda: proxy.waiting == AT_ONCE)
            run.signal(signal.SIGINT)
            run.wait_for("stopping")
            run.signal(signal.SIGINT)
            assert run.wait_for_exit(timeout_seconds=20) == 130, run.log_text
        assert account.eviction_requests() == []

    assert uids_on_nodes(workspace) == all_uids
    assert lease(api, workspace)["holderIdentity"] == ""
    assert (len(run.lines_of("forced exit")), run.other_output) == (1, []), run.log_text


def test_a_leader_frozen_past_its_lease_never_acts_beside_its_successor(
    account: Account, second: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 40)
    flags = (*SLOW, *lease_flags(workspace))

    with account.run(old_pods_policy(workspace), *flags) as leader:
        leader.wait_for("evicted", 4)
        with second.run(old_pods_policy(workspace), *flags) as standby:
            standby.wait_for("waiting for the lease")
            leader.signal(signal.SIGSTOP)
            standby.wait_for("evicted")
            leader.signal(signal.SIGCONT)
            assert leader.wait_for_exit() == 1, leader.log_text
            eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
            assert standby.stop() == 0, standby.log_text

    assert_audit_agrees(api, account, leader)
    assert_audit_agrees(api, second, standby)
    assert leader.evicted | standby.evicted == all_uids
    assert not leader.evicted & standby.evicted
    assert max(_times(account)) < min(_times(second))
    assert leader.lines_of("lease lost"), leader.log_text
    assert leader.other_output == []


def _times(account: Account) -> list[datetime]:
    """The times at which its eviction requests reached the API server."""
    requests = account.eviction_requests()
    return [datetime.fromisoformat(request["requestReceivedTimestamp"]) for request in requests]
