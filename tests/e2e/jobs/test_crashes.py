"""The controller is killed in every state of a job: the next process goes on where it was.

`python -m tests.e2e.migration.chaos` is the long form of the last test here.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.workloads import cordon_all_but, create_deployment, uncordon_all
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.chaos import run_chaos
from tests.e2e.migration.freezing import Request, freeze_writes, thaw
from tests.e2e.migration.harness import (
    create_job,
    job_policy,
    job_status,
    start_controller,
    wait_for_end,
    wait_until_clean,
)
from tests.e2e.migration.jobs import (
    add_idle_node,
    assert_audit_equals_record,
    audited,
    delete_jobs,
    held,
    let_go,
    remove_pods_of_idle_nodes,
    start_pod,
    wait_for_condition,
)
from tests.e2e.processes.run import AuditedUser, Policy, Run
from tests.e2e.servers.faulty_proxy import FaultyProxy
from tools.control_plane.api import Api, Object
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access

ACCEPT = Request("PATCH", "/podmigrationjobs/", "/status")
CREATE = Request("POST", "/pods", "/pods")
TAINT = Request("PATCH", "/nodes/")
EVICT = Request("POST", "", "/eviction")
DELETE_PLACEHOLDER = Request("DELETE", "/pods/place-")
CLASS = Request("POST", "/priorityclasses")
PATCH_POD = Request("PATCH", "/pods/")


@pytest.fixture
def controller_account(plane: Access, api: Api, tmp_path: Path) -> Iterator[ControllerAccount]:
    """The shipped account of the migration controller."""
    with ControllerAccount(plane, api, tmp_path) as account:
        yield account
        delete_jobs(api)


class Move:
    """One pod on one node, room for it on one other, and a job that moves it."""

    def __init__(
        self,
        account: ControllerAccount,
        workspace: Workspace,
        folder: Path,
        *,
        steering: str = "Hard",
        target: str = "",
    ) -> None:
        self.account, self.workspace, self._folder = account, workspace, folder
        self.api: Api = workspace.api
        self.source, self.target = workspace.nodes[0], target or workspace.nodes[1]
        cordon_all_but(workspace, self.source)
        # Two such pods do not fit on one node: the replacement waits until the place is given.
        create_deployment(workspace, "web", 1, cpu="5")
        uncordon_all(workspace)
        cordon_all_but(workspace, self.source, self.target)
        (self.pod,) = workspace.list_ready_pods()
        self.audited: AuditedUser = audited(account)
        self.policy: Policy = job_policy(account, steering=steering, defaultJobTTL="5m")
        self.name = ""

    def start(self) -> Run:
        """A process of the controller."""
        return start_controller(self.account, self._folder, self.policy)

    def create_job(self) -> None:
        """Asks for the move."""
        self.name = create_job(self.api, self.pod)

    def assert_done(self, run: Run) -> Object:
        """Asserts that the job ends well, once, and that nothing is left; returns its status."""
        status = wait_for_end(self.api, self.name, run)
        assert status["phase"] == "Succeeded", f"{status}\n{run.log_text}"
        wait_until_clean(self.api, self.account)
        assert run.stop() == 0, run.log_text
        record = assert_audit_equals_record(self.audited, self.api, [self.name])
        assert list(record) == [self.pod["metadata"]["uid"]]
        (replacement,) = self.workspace.list_ready_pods()
        assert replacement["metadata"]["uid"] == status["podRef"]["uid"]
        assert replacement["spec"]["nodeName"] == self.target
        return status


@pytest.mark.parametrize(
    ("steering", "request_at", "after"),
    [
        pytest.param("Hard", ACCEPT, False, id="waiting"),
        pytest.param("Hard", ACCEPT, True, id="accepted"),
        pytest.param("Hard", CLASS, True, id="PriorityClass created"),
        pytest.param("Hard", CREATE, False, id="placeholder to be created"),
        pytest.param("Hard", CREATE, True, id="placeholder created"),
        pytest.param("Hard", TAINT, False, id="scheduled"),
        pytest.param("Hard", TAINT, True, id="steered"),
        pytest.param("Hard", EVICT, False, id="eviction intended"),
        pytest.param("Hard", EVICT, True, id="evicted"),
        pytest.param("Hard", DELETE_PLACEHOLDER, False, id="replacement pending"),
        pytest.param("Hard", DELETE_PLACEHOLDER, True, id="place handed over"),
        pytest.param("Gate", EVICT, False, id="gate in force"),
        pytest.param("Gate", EVICT, True, id="evicted with the gate in force"),
        pytest.param("Gate", PATCH_POD, False, id="replacement gated"),
        pytest.param("Gate", PATCH_POD, True, id="replacement pinned"),
        pytest.param("Gate", DELETE_PLACEHOLDER, True, id="place free, replacement gated"),
    ],
)
def test_a_controller_killed_in_any_state_leaves_a_job_that_the_next_one_ends(
    steering: str,
    request_at: Request,
    after: bool,
    controller_account: ControllerAccount,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    move = Move(controller_account, workspace, tmp_path, steering=steering)

    with FaultyProxy(controller_account.plane, controller_account) as proxy:
        freeze = freeze_writes(proxy, request_at, after=after)
        with move.start() as first:
            move.create_job()
            freeze.wait(first)
            first.signal(signal.SIGKILL)
            first.wait_for_exit()
        thaw(proxy)
        with move.start() as second:
            move.assert_done(second)


def test_a_controller_killed_while_no_node_has_room_leaves_a_job_that_the_next_one_ends(
    controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    move = Move(controller_account, workspace, tmp_path)
    move.policy = job_policy(
        controller_account,
        evictor={"nodeFit": False},
        defaultJobTTL="5m",
        reserveTimeout="4m",
    )
    cordon_all_but(workspace, move.source)

    with move.start() as first:
        move.create_job()
        wait_for_condition(move.api, move.name, "ReservationScheduled", "False")
        first.signal(signal.SIGKILL)
    with move.start() as second:
        cordon_all_but(workspace, move.source, move.target)
        move.assert_done(second)


def test_a_controller_killed_while_the_pod_terminates_leaves_a_job_that_the_next_one_ends(
    controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    move = Move(controller_account, workspace, tmp_path)

    with held(move.api, move.pod):
        with move.start() as first:
            move.create_job()
            wait_for_condition(move.api, move.name, "Eviction", "False")
            first.signal(signal.SIGKILL)
        with move.start() as second:
            second.wait_for("controller started")
            assert job_status(move.api, move.name)["phase"] == "Running"
            let_go(move.api, move.pod)
            move.assert_done(second)


def test_a_controller_killed_before_the_replacement_is_ready_or_the_end_written_loses_nothing(
    controller_account: ControllerAccount, workspace: Workspace, tmp_path: Path
) -> None:
    target = add_idle_node(workspace)
    move = Move(controller_account, workspace, tmp_path, target=target)

    with FaultyProxy(controller_account.plane, controller_account) as proxy:
        with move.start() as first:
            move.create_job()
            wait_for_condition(move.api, move.name, "BoundPodReady", "False")
            first.signal(signal.SIGKILL)
        freeze = freeze_writes(proxy, ACCEPT, after=False)
        with move.start() as second:
            second.wait_for("controller started")
            (replacement,) = workspace.list_pods()
            start_pod(workspace, replacement)
            freeze.wait(second)
            second.signal(signal.SIGKILL)
            second.wait_for_exit()
        assert job_status(move.api, move.name)["phase"] == "Running"
        thaw(proxy)
        with move.start() as third:
            move.assert_done(third)
    workspace.api.delete(f"{workspace.pods_path}/{replacement['metadata']['name']}")
    remove_pods_of_idle_nodes(workspace)


def test_jobs_end_although_their_leaders_are_killed_at_random_moments(
    plane: Access, tmp_path: Path
) -> None:
    with plane.api(QUIET) as api:
        result = run_chaos(plane, api, tmp_path, jobs=12, seed=7)

    assert result.kills >= 2
    assert result.ends == {"Succeeded/Complete": 11, "Failed/Unschedulable": 1}, result
    assert result.recorded == 11
