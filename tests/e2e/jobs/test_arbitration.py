"""Which jobs may start: limits, order, jobs that change while they wait, and what is unreadable."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from resettle.model.migration_job import JOBS_PATH
from tests.e2e.cluster.workloads import cordon_all_but, create_deployment, pods_of, uncordon_all
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.harness import (
    conditions_of,
    create_job,
    job_policy,
    job_status,
    read_job,
    start_controller,
    wait_for_end,
    wait_until_clean,
)
from tests.e2e.migration.jobs import (
    DIRECT,
    JobWatch,
    assert_audit_equals_record,
    audited,
    delete_jobs,
    edit_job,
    held,
    let_go,
    most_on_their_way,
    wait_for_condition,
    writes_to_job,
)
from tests.e2e.migration.watching import ObjectWatch
from tests.e2e.processes.run import Policy
from tests.e2e.servers.faulty_proxy import Fault, FaultyProxy
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
QOS = ("BestEffort", "Burstable", "Guaranteed")
LEASE_SECONDS, RETRY_SECONDS = 4, 1
SLACK_SECONDS = 8
"""How long a busy machine may take to list the cluster and to write a line of the log."""


@pytest.fixture
def controller_account(plane: Access, api: Api, tmp_path: Path) -> Iterator[ControllerAccount]:
    """The shipped account of the migration controller."""
    with ControllerAccount(plane, api, tmp_path) as account:
        yield account
        delete_jobs(api)


def limited_policy(account: ControllerAccount, *skip: str, **limits: Any) -> Policy:
    """A policy for jobs with MigrationLimits; the checks in `skip` are left out."""
    workload = ("MaxMigratingPerWorkload", "MaxUnavailablePerWorkload", "ExpectedReplicas")
    args = {"maxMigratingPerNode": 0, "skipEvictionGates": [*workload, *skip], **limits}
    return job_policy(
        account,
        plugins={"filter": {"enabled": ["MigrationLimits"]}},
        config={"MigrationLimits": args},
        defaultJobTTL="5m",
    )


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["EvictDirectly", "ReservationFirst"])
def test_never_more_jobs_of_a_node_run_than_the_limit_and_all_finish(
    mode: str,
    controller_account: ControllerAccount,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    source = workspace.nodes[0]
    cordon_all_but(workspace, source)
    create_deployment(workspace, "web", 10, labels={"example.com/lingers": "yes"})
    uncordon_all(workspace)
    account = audited(controller_account)
    policy = limited_policy(controller_account, maxMigratingPerNode=2)

    with (
        JobWatch(api) as watch,
        ObjectWatch(api, workspace.pods_path) as pods,
        start_controller(controller_account, tmp_path, policy) as run,
    ):
        names = [create_job(api, pod, mode=mode) for pod in workspace.list_ready_pods()]
        ends = [wait_for_end(api, name, run) for name in names]
        watch.wait_for_all(names)
        wait_until_clean(api, controller_account)
        assert run.stop() == 0, run.log_text

    assert [end["phase"] for end in ends] == ["Succeeded"] * 10
    assert most_on_their_way(watch, pods, names) == 2
    assert len(assert_audit_equals_record(account, api, names)) == 10


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_with_one_slot_jobs_run_in_the_documented_order(
    seed: int,
    controller_account: ControllerAccount,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    high = workspace.name
    api.post(PRIORITY_CLASSES, {"metadata": {"name": high}, "value": 1000}).granted()
    try:
        kinds = [
            ("best-effort", {}, None, ""),
            ("burstable", {"requests": {"cpu": "50m"}}, None, ""),
            ("guaranteed", {"limits": {"cpu": "50m", "memory": "16Mi"}}, None, ""),
            ("cheap", {"requests": {"cpu": "50m"}}, None, "-5"),
            ("dear", {"requests": {"cpu": "50m"}}, None, "7"),
            ("twin-a", {"requests": {"cpu": "50m"}}, None, "9"),
            ("twin-b", {"requests": {"cpu": "50m"}}, None, "9"),
            ("high-best-effort", {}, high, ""),
            ("high-burstable", {"requests": {"cpu": "50m"}}, high, "-100"),
            ("high-guaranteed", {"limits": {"cpu": "50m", "memory": "16Mi"}}, high, ""),
        ]
        for name, resources, priority, cost in kinds:
            container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
            more: Any = {"priorityClassName": priority} if priority else {}
            costs = {DELETION_COST: cost} if cost else {}
            create_deployment(workspace, name, 1, annotations=costs, containers=[container], **more)
        pods = workspace.list_ready_pods()
        Random(seed).shuffle(pods)
        jobs = {create_job(api, pod, **DIRECT): pod for pod in pods}
        expected = sorted(jobs, key=lambda name: documented_order(jobs[name], read_job(api, name)))
        policy = limited_policy(controller_account, maxMigratingGlobally=1)

        with (
            JobWatch(api) as watch,
            ObjectWatch(api, workspace.pods_path) as pod_watch,
            start_controller(controller_account, tmp_path, policy) as run,
        ):
            ends = [wait_for_end(api, name, run) for name in jobs]
            watch.wait_for_all(jobs)
    finally:
        api.delete(f"{PRIORITY_CLASSES}/{high}")

    assert {end["phase"] for end in ends} == {"Succeeded"}
    assert most_on_their_way(watch, pod_watch, jobs) == 1
    assert _apps(jobs, watch.order_of("Arbitrated", jobs)) == _apps(jobs, expected)
    executed = [line["pod"] for line in run.lines_of("evicted")]
    assert executed == [_key(jobs[name]) for name in expected]


def documented_order(pod: Object, job: Object) -> tuple[object, ...]:
    """The order of jobs as the documentation has it, for jobs of workloads that do not move."""
    cost = pod["metadata"].get("annotations", {}).get(DELETION_COST, "0")
    return (
        pod["spec"].get("priority", 0),
        QOS.index(pod["status"]["qosClass"]),
        int(cost),
        job["metadata"]["creationTimestamp"],
        job["metadata"]["uid"],
    )


def _apps(jobs: dict[str, Object], names: list[str]) -> list[str]:
    return [jobs[name]["metadata"]["labels"]["app"] for name in names]


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def test_among_equals_the_workload_with_fewer_moves_goes_first(
    controller_account: ControllerAccount, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    create_deployment(workspace, "many", 3)
    create_deployment(workspace, "few", 1)
    pods = workspace.list_ready_pods()
    many, few = pods_of(pods, "many"), pods_of(pods, "few")
    older = [create_job(api, pod, **DIRECT) for pod in many]
    # Times are whole seconds: the job of the other workload has to be the youngest for certain.
    eventually(
        "the next second",
        lambda: _now() > max(_created(read_job(api, name)) for name in older),
    )
    youngest = create_job(api, few[0], **DIRECT)
    policy = limited_policy(controller_account, maxMigratingGlobally=2)

    with (
        held(api, *pods),
        JobWatch(api) as watch,
        start_controller(controller_account, tmp_path, policy) as run,
    ):
        eventually("two jobs", lambda: len(watch.order_of("Arbitrated", [*older, youngest])) == 2)
        let_go(api, *pods)
        ends = [wait_for_end(api, name, run) for name in (*older, youngest)]
        watch.wait_for_all([*older, youngest])

    assert {end["phase"] for end in ends} == {"Succeeded"}
    assert watch.order_of("Arbitrated", [*older, youngest])[1] == youngest


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _created(job: Object) -> datetime:
    return datetime.fromisoformat(job["metadata"]["creationTimestamp"])


# -- while a job waits -----------------------------------------------------------------------------


def test_a_waiting_job_can_be_edited_paused_deleted_and_time_out(
    controller_account: ControllerAccount, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    for app in ("first", "edited", "paused", "deleted", "late", "last"):
        create_deployment(workspace, app, 1)
    pods = {pod["metadata"]["labels"]["app"]: pod for pod in workspace.list_ready_pods()}
    account = audited(controller_account)
    policy = limited_policy(controller_account, maxMigratingGlobally=1)

    with (
        held(api, pods["first"]),
        JobWatch(api) as watch,
        start_controller(controller_account, tmp_path, policy) as run,
    ):
        first = create_job(api, pods["first"], **DIRECT)
        wait_for_condition(api, first, "Eviction", "False")
        jobs = {app: create_job(api, pods[app], **DIRECT) for app in ("edited", "paused")}
        jobs["deleted"] = create_job(api, pods["deleted"], **DIRECT)
        jobs["late"] = create_job(api, pods["late"], ttl="3s", **DIRECT)
        for app in ("edited", "paused", "deleted"):
            wait_for_condition(api, jobs[app], "Arbitrated", "False", "WaitingForLimit")

        edit_job(api, jobs["edited"], {"metadata": {"labels": {"by": "hand"}}})
        edit_job(api, jobs["edited"], {"spec": {"ttl": "4m"}})
        edit_job(api, jobs["edited"], {"spec": {"paused": True}})
        edit_job(api, jobs["edited"], {"spec": {"paused": False}})
        edit_job(api, jobs["paused"], {"spec": {"paused": True}})
        api.delete(f"{JOBS_PATH}/{jobs['deleted']}").granted()
        deleted_at = datetime.now(UTC)
        end = wait_for_end(api, jobs["late"], run)
        assert (end["phase"], end["reason"]) == ("Failed", "Timeout")
        assert "did not start in 3s" in end["message"]
        # All but the first still wait, however they were changed.
        assert conditions_of(job_status(api, jobs["edited"]))["Arbitrated"][0] == "False"
        assert [eviction.pod for eviction in account.evictions()] == [_key(pods["first"])]

        let_go(api, pods["first"])
        assert wait_for_end(api, first, run)["phase"] == "Succeeded"
        assert wait_for_end(api, jobs["edited"], run)["phase"] == "Succeeded"
        # Younger than the paused one, which would have come first.
        last = create_job(api, pods["last"], **DIRECT)
        assert wait_for_end(api, last, run)["phase"] == "Succeeded"
        paused = job_status(api, jobs["paused"])
        assert paused["phase"] == "Pending"
        assert conditions_of(paused)["Arbitrated"][0] == "False"

        edit_job(api, jobs["paused"], {"spec": {"paused": False}})
        assert wait_for_end(api, jobs["paused"], run)["phase"] == "Succeeded"
        watch.wait_for_all([first, jobs["edited"], jobs["paused"], last])
        assert run.stop() == 0, run.log_text

    assert_audit_equals_record(account, api, [first, jobs["edited"], jobs["paused"], last])
    assert {eviction.uid for eviction in account.evictions()}.isdisjoint(
        {pods["deleted"]["metadata"]["uid"], pods["late"]["metadata"]["uid"]}
    )
    for version in watch.versions:
        conditions = conditions_of(version.get("status") or {})
        if "Eviction" in conditions:
            assert conditions["Arbitrated"][0] == "True", version
    assert_not_written_after(account_writes(account, jobs["deleted"]), deleted_at)


def account_writes(account: Any, name: str) -> list[datetime]:
    """The times of writes to a job."""
    return [datetime.fromisoformat(at) for _, _, at in writes_to_job(account, name)]


def assert_not_written_after(times: list[datetime], deleted_at: datetime) -> None:
    """Asserts that a job was not written once it was deleted, not even in vain."""
    late = [str(at) for at in times if at > deleted_at]
    assert not late, f"deleted at {deleted_at}, and written at {late}"


def test_a_job_that_ended_is_never_written_again_even_by_a_new_process(
    controller_account: ControllerAccount, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    create_deployment(workspace, "web", 2)
    pods = workspace.list_ready_pods()
    account = audited(controller_account)
    policy = limited_policy(controller_account)

    with start_controller(controller_account, tmp_path, policy) as run:
        ended = create_job(api, pods[0], **DIRECT)
        assert wait_for_end(api, ended, run)["phase"] == "Succeeded"
        version = read_job(api, ended)["metadata"]["resourceVersion"]
        assert run.stop() == 0
    # Its pod lives on under its name, as one of a StatefulSet would.
    with start_controller(controller_account, tmp_path, policy) as run:
        other = create_job(api, pods[1], **DIRECT)
        assert wait_for_end(api, other, run)["phase"] == "Succeeded"
        assert run.stop() == 0

    assert read_job(api, ended)["metadata"]["resourceVersion"] == version
    assert len(account.evictions()) == 2


# -- what cannot be read ---------------------------------------------------------------------------


def test_a_job_whose_pod_cannot_be_read_is_not_accepted(
    controller_account: ControllerAccount, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    create_deployment(workspace, "web", 2)
    known, other = workspace.list_ready_pods()
    missing: Object = {"metadata": {"namespace": workspace.name, "name": "not-in-the-cache"}}
    account = audited(controller_account)
    policy = limited_policy(controller_account)

    with (
        FaultyProxy(controller_account.plane, controller_account) as proxy,
        JobWatch(api) as watch,
    ):
        unreadable = (f"/pods/{missing['metadata']['name']}", f"/pods/{known['metadata']['name']}")
        proxy.fault = lambda method, path: (
            Fault.DROPPED if method == "GET" and path.endswith(unreadable) else None
        )
        with start_controller(controller_account, tmp_path, policy) as run:
            unknown = create_job(api, missing, **DIRECT)
            # Another pod has the name, as far as the cache knows; only the API server can tell.
            reference = {"namespace": workspace.name, "name": known["metadata"]["name"]}
            replaced = create_job(api, known, podRef={**reference, "uid": "of-another"}, **DIRECT)
            readable = create_job(api, other, **DIRECT)
            wait_for_condition(api, unknown, "Arbitrated", "False", "Unreadable")
            wait_for_condition(api, replaced, "Arbitrated", "False", "Unreadable")
            assert wait_for_end(api, readable, run)["phase"] == "Succeeded"
            proxy.fault = lambda method, path: None
            ends = [wait_for_end(api, name, run) for name in (unknown, replaced)]
            watch.wait_for_all([unknown, replaced])

    assert [(end["phase"], end["reason"]) for end in ends] == [
        ("Failed", "MissingPod"),
        ("Failed", "PodReplaced"),
    ]
    assert watch.order_of("Arbitrated", [unknown, replaced]) == []
    assert [eviction.pod for eviction in account.evictions()] == [_key(other)]


def test_a_pod_that_may_not_be_read_any_more_is_not_evicted(
    controller_account: ControllerAccount, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    create_deployment(workspace, "web", 2)
    pods = workspace.list_ready_pods()
    account = audited(controller_account)
    policy = limited_policy(controller_account)

    with start_controller(controller_account, tmp_path, policy) as run:
        assert wait_for_end(api, create_job(api, pods[0], **DIRECT), run)["phase"] == "Succeeded"
        forbid_reading_pods(api, controller_account)
        name = create_job(api, pods[1], ttl="4s", **DIRECT)
        end = wait_for_end(api, name, run)

    assert (end["phase"], end["reason"]) == ("Failed", "Timeout")
    assert "cannot get resource" in end["message"]
    assert len(account.evictions()) == 1


def forbid_reading_pods(api: Api, account: ControllerAccount) -> None:
    """Takes `get pods` out of every role of the account; its watches go on."""
    roles = "/apis/rbac.authorization.k8s.io/v1"
    for path in (f"{roles}/clusterroles", f"{roles}/namespaces/{account.namespace}/roles"):
        for role in api.items(path):
            if role["metadata"]["name"].startswith(account.name):
                rules = [_without_get_pods(rule) for rule in role["rules"]]
                place = f"{path}/{role['metadata']['name']}"
                api.patch(place, {"rules": [rule for rule in rules if rule["verbs"]]}).granted()
    home = f"/api/v1/namespaces/{account.namespace}/pods/any"
    with account.api() as mine:
        eventually("pods that cannot be read", lambda: mine.get(home).status == 403)


def _without_get_pods(rule: Object) -> Object:
    verbs = [verb for verb in rule["verbs"] if verb not in ("get", "*")]
    return {**rule, "verbs": verbs} if "pods" in rule["resources"] else rule


def test_a_job_whose_workload_cannot_be_read_is_not_accepted(
    controller_account: ControllerAccount, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    create_deployment(workspace, "web", 1)
    account = audited(controller_account)
    policy = job_policy(controller_account, defaultJobTTL="5m")

    with (
        FaultyProxy(controller_account.plane, controller_account) as proxy,
        JobWatch(api) as watch,
        start_controller(controller_account, tmp_path, policy) as run,
    ):
        run.wait_for("controller started")
        proxy.fault = lambda method, path: (
            Fault.DROPPED if "/replicasets" in path or "/deployments" in path else None
        )
        proxy.cut_connections()
        # Its ReplicaSet and Deployment are newer than what the controller has read of those.
        create_deployment(workspace, "new", 1)
        (pod,) = pods_of(workspace.list_ready_pods(), "new")
        name = create_job(api, pod, **DIRECT)
        eventually(
            "the job to wait", lambda: _is_refused(api, name) or run.lines_of("watch failing")
        )
        assert account.evictions() == []
        proxy.fault = lambda method, path: None
        end = wait_for_end(api, name, run)
        watch.wait_for_all([name])

    assert end["phase"] == "Succeeded"
    conditions = [
        conditions_of(version["status"])["Arbitrated"]
        for version in watch.versions
        if version["metadata"]["name"] == name and version.get("status")
    ]
    assert conditions[0] in (("False", "Unreadable"), ("True", "Accepted"))
    if not run.lines_of("watch failing"):
        assert conditions[0] == ("False", "Unreadable")


def _is_refused(api: Api, name: str) -> bool:
    return conditions_of(job_status(api, name)).get("Arbitrated") == ("False", "Unreadable")


# -- two processes ---------------------------------------------------------------------------------


def test_a_standby_continues_the_jobs_of_a_killed_leader_within_the_lease_time(
    controller_account: ControllerAccount, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    create_deployment(workspace, "web", 3)
    pods = workspace.list_ready_pods()
    account = audited(controller_account)
    policy = limited_policy(controller_account, maxMigratingGlobally=2)
    words = lease_flags(controller_account)

    with (
        held(api, *pods),
        start_controller(controller_account, tmp_path, policy, *words) as leader,
    ):
        leader.wait_for("lease acquired")
        with start_controller(controller_account, tmp_path, policy, *words) as standby:
            standby.wait_for("waiting for the lease")
            names = [create_job(api, pod) for pod in pods]
            eventually("two evictions", lambda: len(account.evictions()) == 2)
            running = [name for name in names if job_status(api, name)["phase"] == "Running"]
            for name in running:
                wait_for_condition(api, name, "Eviction", "False")
            before = {name: job_status(api, name) for name in running}
            leader.signal(signal.SIGKILL)
            killed_at = datetime.now(UTC)
            let_go(api, *pods)
            ends = [wait_for_end(api, name, standby) for name in names]
            took_over_at = _time_of(standby.wait_for("lease acquired")[0])
            wait_until_clean(api, controller_account)
            assert standby.stop() == 0, standby.log_text

    assert {end["phase"] for end in ends} == {"Succeeded"}
    assert len(running) == 2
    for name, status in before.items():
        after = job_status(api, name)
        for key in ("source", "startedAt", "evictionRequestedAt", "effective"):
            assert after[key] == status[key], f"{key} of {name} changed"
    waited = (took_over_at - killed_at).total_seconds()
    assert 0 < waited <= LEASE_SECONDS + RETRY_SECONDS + SLACK_SECONDS
    assert len(assert_audit_equals_record(account, api, names)) == 3


def lease_flags(account: ControllerAccount) -> tuple[str, ...]:
    """Flags for a lease of a few seconds, under the name that the account may write."""
    return (
        "--leader-elect",
        "--leader-elect-lease-duration",
        f"{LEASE_SECONDS}s",
        "--leader-elect-renew-deadline",
        f"{LEASE_SECONDS - 1}s",
        "--leader-elect-retry-period",
        f"{RETRY_SECONDS}s",
        "--leader-elect-resource-name",
        account.name,
        "--leader-elect-resource-namespace",
        account.namespace,
    )


def _time_of(line: Object) -> datetime:
    stamp = line.get("ts") or line.get("time") or line.get("at")
    assert stamp is not None, json.dumps(line)
    if isinstance(stamp, (int, float)):
        return datetime.fromtimestamp(stamp, UTC)
    return datetime.fromisoformat(stamp)
