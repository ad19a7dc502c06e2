"""The check as a request is written: pods that change while they wait for their turn stay.

Sixty pods are planned and only ten requests a second are sent. Right after the first eviction was
granted, all other pods are changed; none of them may be evicted after that.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resettle.model.migration_job import JOBS_PATH
from tests.e2e.cluster.policies import OURS, policy
from tests.e2e.cluster.workloads import create_deployment, report_restarts, uids
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.fixtures import audited, controller_account, descheduler, shipped
from tests.e2e.migration.harness import (
    ARGS,
    STRATEGY,
    start_controller,
    strategy_policy,
    wait_for_ends,
)
from tests.e2e.processes.run import Account, AuditedUser, Run, assert_audit_agrees
from tests.e2e.servers.faulty_proxy import Fault, FaultyProxy, HasKubeconfig
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

__all__ = ["audited", "controller_account", "descheduler", "shipped"]
"""Fixtures."""
PODS = 60
CHANGES = {
    "labels": {"labels": {"changed": "yes"}},
    "a declared annotation": {
        "annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": "true"}
    },
}
THREADS = 8


class ChangesAfterFirstEviction:
    """Changes every pod that is left once the first is evicted.

    On a busy machine sixty changes take longer than a request waits for its turn. So no request
    after the first eviction gets a connection until the process has seen all changes: requests are
    checked as they are written, and that is when they have a connection.
    """

    def __init__(self, plane: Access, account: HasKubeconfig, change: Object) -> None:
        self.proxy = FaultyProxy(plane, account, in_order=True)
        self.proxy.fault = self._hold_all_after_first_eviction
        self._change = change

    def _hold_all_after_first_eviction(self, method: str, path: str) -> Fault | None:
        if path.endswith("/eviction"):
            self.proxy.accepts.clear()
            self.proxy.fault = lambda method, path: None
        return None

    def apply(self, workspace: Workspace, run: Run) -> None:
        """Waits for the first eviction of the run, changes all other pods, and lets it go on."""
        before = uids(workspace.list_pods())

        def pods_left() -> list[Object]:
            return [
                pod
                for pod in workspace.list_pods()
                if pod["metadata"]["uid"] in before and "deletionTimestamp" not in pod["metadata"]
            ]

        eventually("a first eviction", lambda: len(pods_left()) < len(before))
        with ThreadPoolExecutor(THREADS) as threads:
            changed = list(threads.map(lambda pod: self._patch(workspace, pod), pods_left()))
        newest = max(int(pod["metadata"]["resourceVersion"]) for pod in changed)
        eventually("all changes seen", lambda: int(run.cache_state()["Pod"]["version"]) >= newest)
        self.proxy.accepts.set()

    def _patch(self, workspace: Workspace, pod: Object) -> Object:
        path = f"{workspace.pods_path}/{pod['metadata']['name']}"
        return workspace.api.patch(path, {"metadata": self._change}).granted()


def create_planned_pods(workspace: Workspace) -> set[str]:
    """Creates pods that all are to move; returns their uids."""
    create_deployment(workspace, "web", PODS)
    report_restarts(workspace, workspace.list_ready_pods(), times=41)
    return uids(workspace.list_ready_pods())


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_evictions_that_wait_for_their_turn_are_not_made_once_their_pods_changed(
    change: Object, account: Account, plane: Access, api: Api, workspace: Workspace
) -> None:
    planned = create_planned_pods(workspace)
    chosen = policy(OURS, STRATEGY, ARGS, workspace, evictor={"minReplicas": 0})
    slowly = ("--client-connection-qps", "10", "--client-connection-burst", "1")

    changes = ChangesAfterFirstEviction(plane, account, change)
    with changes.proxy, account.run(chosen, *slowly) as run:
        changes.apply(workspace, run)
        assert run.wait_for_exit(120) == 0, run.log_text

    assert len(run.evicted) == len(account.evictions()) == 1, run.log_text
    skipped = run.lines_of("left alone")
    assert {line["uid"] for line in skipped} == planned - run.evicted
    assert {line["said"] for line in skipped} == {"it is not what it was when the plan was drawn"}
    assert_audit_agrees(api, account, run)


def test_jobs_whose_pods_changed_after_their_creation_fail_and_evict_nothing(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    descheduler: Account,
    plane: Access,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    planned = create_planned_pods(workspace)
    chosen = strategy_policy(
        controller_account.namespace, workspace, evictQPS=10, evictBurst=1, defaultJobTTL="5m"
    )
    with descheduler.run(chosen, "--client-connection-qps", "-1") as run:
        assert run.wait_for_exit() == 0, run.log_text
    assert len(run.lines_of("move requested")) == PODS
    jobs = {job["spec"]["podRef"]["uid"]: job["metadata"]["name"] for job in api.items(JOBS_PATH)}
    assert set(jobs) == planned

    changes = ChangesAfterFirstEviction(plane, controller_account, CHANGES["labels"])
    with changes.proxy, start_controller(controller_account, tmp_path, chosen) as controller:
        changes.apply(workspace, controller)
        statuses = wait_for_ends(api, jobs.values(), controller, 90)
        controller.wait_for("evicted")
        assert controller.stop() == 0, controller.log_text

    (evicted,) = controller.evicted
    assert [eviction.uid for eviction in audited.evictions()] == [evicted], controller.log_text
    ends = {uid: statuses[name] for uid, name in jobs.items()}
    assert ends.pop(evicted)["phase"] == "Succeeded"
    assert {(end["phase"], end["reason"]) for end in ends.values()} == {
        ("Failed", "ForbiddenMigratePod")
    }
    says = "is not what it was when the job was created"
    assert all(end["message"].endswith(says) for end in ends.values())
    assert_audit_agrees(api, audited, controller)
