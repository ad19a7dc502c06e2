"""Parts of the control plane fail in the middle of a cycle, and the run continues."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.e2e.cluster.old_pods import create_old_pods, old_pods_policy, uids_on_nodes
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.in_process_run import InProcessRun
from tests.e2e.processes.log_reader import LogReader
from tests.e2e.processes.run import Account, assert_audit_agrees
from tools.control_plane.api import Api
from tools.control_plane.build import built
from tools.control_plane.plane import ControlPlane

NEVER_SECONDS = 10**7
FAST = ("--descheduling-interval", "1s", "--client-connection-qps", "-1")
SLOW = ("--descheduling-interval", "1s", "--client-connection-qps", "10")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane for these tests alone, which they may damage."""
    with ControlPlane(built()) as started:
        yield started


def assert_logs_agree(account: Account, workspace: Workspace, run: LogReader) -> None:
    """Asserts that log and audit log agree, though the API server may have lost audit lines.

    An eviction may be missing in the audit log, but only if its answer was lost as well.
    """
    granted = [eviction.uid for eviction in account.evictions()]
    assert len(granted) == len(set(granted)), "a pod was evicted twice"
    lost = {line["uid"] for line in run.lines_of("answer lost")}
    assert set(granted) <= run.evicted | lost, run.log_text
    assert run.evicted <= set(granted) | lost, run.log_text
    assert not run.evicted & uids_on_nodes(workspace), run.log_text


def test_a_run_waits_for_an_api_server_that_is_killed_mid_cycle(
    plane: ControlPlane, account: Account, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 120)
    server = plane.part("kube-apiserver")

    with account.run(old_pods_policy(workspace), *FAST) as run:
        run.wait_for("evicted", 20)
        server.kill()
        run.wait_for("cycle done")
        server.restart()
        plane.await_api()
        eventually(
            "only pods with an unknown result left", lambda: uids_on_nodes(workspace) <= run.unknown
        )
        assert run.stop() == 0, run.log_text

    assert_logs_agree(account, workspace, run)
    assert run.evicted | run.unknown == all_uids
    assert "cannot be reached" in run.lines_of("cycle done")[0]["cut_short"]


def test_requests_delayed_by_a_paused_etcd_are_answered_when_it_continues(
    plane: ControlPlane, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 60)

    with account.run(old_pods_policy(workspace), *SLOW) as run:
        run.wait_for("evicted", 15)
        with plane.part("etcd").paused():
            eventually("an API server that is not ready", lambda: not api.get("/readyz").fine)
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        run.wait_for("cycle done")
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids


def test_requests_left_unanswered_by_a_paused_etcd_are_followed_up(
    plane: ControlPlane, account: Account, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 60)

    with account.run(old_pods_policy(workspace), *SLOW) as run:
        run.wait_for("evicted", 15)
        with plane.part("etcd").paused():
            run.wait_for("answer lost")
        plane.await_api()
        eventually(
            "only pods with an unknown result left", lambda: uids_on_nodes(workspace) <= run.unknown
        )
        assert run.stop() == 0, run.log_text

    assert_logs_agree(account, workspace, run)
    assert run.evicted | run.unknown == all_uids


def test_nothing_is_evicted_while_the_cache_is_too_old(
    plane: ControlPlane, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 6)
    server = plane.part("kube-apiserver")

    with InProcessRun(account, old_pods_policy(workspace, NEVER_SECONDS), interval=1.0) as run:
        run.wait_for("cycle done")
        server.kill()
        run.clock.steady_ahead += 200
        # By now all pods are too old, and a cycle would evict them.
        run.clock.wall_ahead += timedelta(seconds=2 * NEVER_SECONDS)
        run.wait_for("cycle skipped", 3)
        run.clock.wall_ahead = timedelta(0)
        server.restart()
        plane.await_api()
        assert run.stop() == 0, run.log_text

    assert "old; the watch is broken" in run.lines_of("cycle skipped")[0]["reason"]
    assert account.eviction_requests() == []
    assert uids_on_nodes(workspace) == all_uids
    assert run.lines_of("not evicted") == run.lines_of("answer lost") == []


def test_a_cycle_ends_early_when_the_cache_gets_too_old(
    plane: ControlPlane, account: Account, api: Api, workspace: Workspace
) -> None:
    all_uids = create_old_pods(workspace, 24)

    with InProcessRun(account, old_pods_policy(workspace), interval=60.0, qps=4.0, burst=1) as run:
        run.wait_for("evicted", 4)
        run.clock.steady_ahead += 200
        run.wait_for("cycle done")
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    done = run.lines_of("cycle done")[0]
    assert "old; the watch is broken" in done["cut_short"]
    assert uids_on_nodes(workspace) == all_uids - run.evicted != set()
