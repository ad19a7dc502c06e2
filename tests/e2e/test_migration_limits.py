"""MigrationLimits: how many pods of a workload move at a time, and how often, by any mover."""

from __future__ import annotations

from pathlib import Path

import pytest

from resettle.model.migration_job import JOBS_PATH
from tests.e2e.cluster.workloads import (
    NO_BACKGROUND_EVICTIONS,
    cordon_all_but,
    create_deployment,
    create_stateful_set,
    pod_spec,
    pods_of,
    report_restarts,
    report_status,
    uids,
    uncordon_all,
)
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.fixtures import audited, controller_account, run_account, shipped
from tests.e2e.migration.harness import (
    DIRECTLY,
    MODES,
    create_job,
    start_controller,
    wait_for_end,
    wait_for_ends,
    wait_for_message,
)
from tests.e2e.migration.jobs import add_idle_node, start_pod
from tests.e2e.migration.limits import (
    assert_apart,
    eviction_policy,
    eviction_times,
    limits_policy,
    two_per_workload_in,
)
from tests.e2e.migration.watching import FewestServing, MostRunning
from tests.e2e.processes.run import Account, AuditedUser, assert_audit_agrees
from tools.control_plane.api import Api, Object

__all__ = ["audited", "controller_account", "run_account", "shipped"]
"""Fixtures."""
SHORT_INTERVAL = ("--descheduling-interval", "300ms", *NO_BACKGROUND_EVICTIONS)


# -- at a time -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "limit", "mode"),
    [
        (3, 1, "EvictDirectly"),
        (10, 2, "EvictDirectly"),
        (25, 2, "EvictDirectly"),
        (3, 1, "ReservationFirst"),
        (10, 2, "ReservationFirst"),
    ],
)
def test_jobs_for_all_pods_of_a_deployment_run_so_many_at_a_time(
    replicas: int,
    limit: int,
    mode: str,
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create_deployment(workspace, "web", replicas)
    before = workspace.list_ready_pods()
    names = [create_job(api, pod) for pod in before]
    chosen = limits_policy(controller_account, **MODES[mode])
    pods, jobs = FewestServing(api, workspace.name), MostRunning(api, JOBS_PATH)

    with (
        pods,
        jobs,
        start_controller(controller_account, tmp_path, chosen) as controller,
    ):
        statuses = wait_for_ends(api, names, controller)
        eventually("all pods ready", lambda: len(workspace.list_ready_pods()) == replicas)
        assert controller.stop() == 0, controller.log_text

    assert {status["phase"] for status in statuses.values()} == {"Succeeded"}, statuses
    assert jobs.most == limit, jobs.at_most
    assert pods.fewest >= replicas - limit
    assert not uids(before) & uids(workspace.list_ready_pods())
    assert sorted(eviction.uid for eviction in audited.evictions()) == sorted(uids(before))
    assert_audit_agrees(api, audited, controller)


def test_a_job_for_the_only_pod_of_a_deployment_fails_with_the_reason(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create_deployment(workspace, "web", 1)
    before = workspace.list_ready_pods()
    chosen = limits_policy(controller_account, **DIRECTLY)

    with start_controller(controller_account, tmp_path, chosen) as controller:
        status = wait_for_end(api, create_job(api, before[0]), controller)
        assert controller.stop() == 0, controller.log_text

    assert (status["phase"], status["reason"]) == ("Failed", "ForbiddenMigratePod")
    assert "is the only pod that Deployment web should have" in status["message"]
    assert audited.eviction_requests() == []
    assert uids(workspace.list_ready_pods()) == uids(before)


@pytest.mark.parametrize(("replicas", "limit"), [(1, 0), (3, 1), (10, 2), (25, 2)])
def test_cycles_evict_all_pods_of_a_deployment_so_many_at_a_time(
    replicas: int, limit: int, run_account: Account, api: Api, workspace: Workspace
) -> None:
    create_deployment(workspace, "web", replicas)
    before = workspace.list_ready_pods()
    report_restarts(workspace, before, times=40)
    pods = FewestServing(api, workspace.name)

    with pods, run_account.run(eviction_policy(workspace), *SHORT_INTERVAL) as run:
        first, *_ = run.wait_for("cycle done")
        moved = uids(before) if limit else set()
        for _ in range(4):  # so many times the time that `eventually` takes
            if run.evicted < moved:
                run.wait_for_more("evicted", min(6, len(moved - run.evicted)))
        run.wait_for_more("cycle done", 3)
        assert run.stop() == 0, run.log_text

    assert first["evicted"] == limit
    assert run.evicted == moved
    assert pods.fewest >= replicas - limit
    assert_audit_agrees(api, run_account, run)


# -- unavailable replicas, rollouts, Jobs ----------------------------------------------------------


def test_a_replica_that_is_not_ready_holds_the_others_but_not_itself(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create_deployment(workspace, "web", 3)
    ill, well, _ = workspace.list_ready_pods()
    report_not_ready(workspace, ill)
    chosen = limits_policy(controller_account, {"maxUnavailablePerWorkload": 1}, **DIRECTLY)

    with start_controller(controller_account, tmp_path, chosen) as controller:
        held = create_job(api, well)
        status = wait_for_message(api, held, "is unavailable or on the way, and the limit is 1")
        assert (status["phase"], status["reason"]) == ("Pending", "WaitingForLimit")
        assert audited.eviction_requests() == []

        allowed = create_job(api, ill)
        assert wait_for_end(api, allowed, controller)["phase"] == "Succeeded"
        assert audited.evictions()[0].uid == ill["metadata"]["uid"]
        assert wait_for_end(api, held, controller)["phase"] == "Succeeded"
        assert controller.stop() == 0, controller.log_text

    assert [eviction.uid for eviction in audited.evictions()] == [
        ill["metadata"]["uid"],
        well["metadata"]["uid"],
    ]


def report_not_ready(workspace: Workspace, pod: Object) -> None:
    """Reports that the pod does not serve, as its kubelet would; returns once that counts."""
    conditions = [
        {**condition, "status": "False"} if "Ready" in condition["type"] else condition
        for condition in pod["status"]["conditions"]
    ]
    report_status(workspace, pod, conditions=conditions)


@pytest.mark.parametrize("mode", MODES)
def test_a_job_is_held_until_the_rollout_of_its_workload_ends(
    mode: str,
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create_deployment(workspace, "web", 3)
    only, *_ = workspace.nodes
    cordon_all_but(workspace, only)
    begin_rollout_of_one_pod_for_each_node(workspace, "web")

    def new_pods() -> list[Object]:
        ready = workspace.list_ready_pods()
        return [pod for pod in ready if pod["metadata"]["labels"].get("version") == "2"]

    moved = eventually("a pod of the new version", new_pods)[0]
    chosen = limits_policy(controller_account, **MODES[mode])
    with start_controller(controller_account, tmp_path, chosen) as controller:
        name = create_job(api, moved)
        status = wait_for_message(api, name, "is in the middle of a rollout")
        assert (status["phase"], status["reason"]) == ("Pending", "WorkloadRollingOut")
        assert audited.eviction_requests() == []

        uncordon_all(workspace)
        status = wait_for_end(api, name, controller)
        assert status["phase"] == "Succeeded", f"{status}\n{controller.log_text}"
        assert controller.stop() == 0, controller.log_text

    assert [eviction.uid for eviction in audited.evictions()] == [moved["metadata"]["uid"]]
    eventually("the rollout done", lambda: len(new_pods()) == 3)


def begin_rollout_of_one_pod_for_each_node(workspace: Workspace, name: str) -> None:
    """Rolls out a version with one pod a node: it waits where there are not enough nodes."""
    alone = {
        "labelSelector": {"matchLabels": {"version": "2"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}}
    template = {
        "metadata": {"labels": {"app": name, "version": "2"}},
        "spec": pod_spec(workspace, {"affinity": affinity}),
    }
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    path = f"/apis/apps/v1/namespaces/{workspace.name}/deployments/{name}"
    change = {"spec": {"template": template, "strategy": strategy}}
    workspace.api.patch(path, change).granted()


def test_a_pod_of_a_batch_job_is_refused_unless_such_pods_are_exempted(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    idle = add_idle_node(workspace)  # elsewhere pods of Jobs complete
    cordon_all_but(workspace, idle)
    pod = create_batch_job(workspace, "count")
    uncordon_all(workspace)
    refusing = limits_policy(controller_account, **DIRECTLY)
    with start_controller(controller_account, tmp_path, refusing) as controller:
        status = wait_for_end(api, create_job(api, pod), controller)
        assert controller.stop() == 0, controller.log_text

    assert (status["phase"], status["reason"]) == ("Failed", "ForbiddenMigratePod")
    says = "belongs to Job count, and would begin its work again"
    assert says in status["message"]
    assert audited.eviction_requests() == []

    allowing = limits_policy(controller_account, {"evictJobPods": True}, **DIRECTLY)
    with start_controller(controller_account, tmp_path, allowing) as controller:
        # No kubelet ends pods there.
        at_once = create_job(api, pod, deleteOptions={"gracePeriodSeconds": 0})
        status = wait_for_end(api, at_once, controller)
        assert status["phase"] == "Succeeded", f"{status}\n{controller.log_text}"
        assert controller.stop() == 0, controller.log_text

    assert [eviction.uid for eviction in audited.evictions()] == [pod["metadata"]["uid"]]


def create_batch_job(workspace: Workspace, name: str) -> Object:
    """Creates a Job with two pods; returns one of them once both are reported as Ready."""
    spec = pod_spec(workspace, {"restartPolicy": "Never"})
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    body = {"parallelism": 2, "completions": 2, "template": template}
    path = f"/apis/batch/v1/namespaces/{workspace.name}/jobs"
    workspace.api.post(path, {"metadata": {"name": name}, "spec": body}).granted()

    def pods_on_node() -> list[Object]:
        placed = [pod for pod in workspace.list_pods() if "nodeName" in pod["spec"]]
        return placed if len(placed) == 2 else []

    for pod in eventually("two pods on the node", pods_on_node):
        start_pod(workspace, pod)
    return pods_of(workspace.list_ready_pods(), name)[0]


# -- over time; tests/e2e/jobs has more ------------------------------------------------------------


def test_jobs_of_a_workload_evict_no_more_often_than_its_limiter_allows_also_after_a_restart(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create_stateful_set(workspace, "web", 4)
    names = [create_job(api, pod) for pod in workspace.list_ready_pods()[:3]]
    chosen = limits_policy(controller_account, two_per_workload_in(4), **DIRECTLY)

    with start_controller(controller_account, tmp_path, chosen) as first:
        eventually("an eviction", lambda: eviction_times(audited))
        assert first.stop() == 0, first.log_text
    with start_controller(controller_account, tmp_path, chosen) as second:
        statuses = wait_for_ends(api, names, second)
        assert second.stop() == 0, second.log_text

    assert {status["phase"] for status in statuses.values()} == {"Succeeded"}, statuses
    assert_apart(audited, evictions=3, seconds=2)
    assert_audit_agrees(api, audited, first, second)
