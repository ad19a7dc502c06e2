"""Jobs that cannot work, or that another version has written: a clear reason, and nothing lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from resettle.model.migration_job import GROUP, JOBS_PATH, PLURAL
from tests.e2e.cluster.workloads import (
    cordon_all_but,
    create_deployment,
    create_stateful_set,
    pod_spec,
    pods_of,
    replace_pod,
    uncordon_all,
)
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import CRDS, ControllerAccount, define_jobs
from tests.e2e.migration.freezing import Request, freeze_writes, thaw
from tests.e2e.migration.harness import (
    conditions_of,
    create_job,
    job_policy,
    job_status,
    leftovers,
    list_placeholders,
    read_job,
    start_controller,
    wait_for_end,
    wait_until_clean,
)
from tests.e2e.migration.jobs import (
    DIRECT,
    assert_audit_equals_record,
    audited,
    delete_jobs,
    edit_job,
    held,
    let_go,
    wait_for_condition,
)
from tests.e2e.processes.run import AuditedUser, Run
from tests.e2e.servers.faulty_proxy import FaultyProxy
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access


@pytest.fixture
def controller_account(plane: Access, api: Api, tmp_path: Path) -> Iterator[ControllerAccount]:
    """The shipped account of the migration controller."""
    with ControllerAccount(plane, api, tmp_path) as account:
        yield account
        delete_jobs(api)


@pytest.fixture
def account(controller_account: ControllerAccount) -> AuditedUser:
    """The requests of the controller."""
    return audited(controller_account)


@pytest.fixture
def controller(controller_account: ControllerAccount, tmp_path: Path) -> Iterator[Run]:
    """The controller, with a ttl that no test here reaches; the scheduler says what fits."""
    policy = job_policy(
        controller_account, evictor={"nodeFit": False}, defaultJobTTL="5m", reserveTimeout="4m"
    )
    with start_controller(controller_account, tmp_path, policy) as run:
        yield run


@pytest.fixture
def source(workspace: Workspace) -> str:
    """The first node, the only one that new pods may go to."""
    cordon_all_but(workspace, workspace.nodes[0])
    return workspace.nodes[0]


def assert_failed(
    status: Object, reason: str, *says: str, api: Api, account: ControllerAccount
) -> None:
    """Asserts that a job failed with this reason, says why, and has left nothing behind."""
    assert (status["phase"], status["reason"]) == ("Failed", reason), status["message"]
    for text in says:
        assert text in status["message"]
    wait_until_clean(api, account)


# -- refused by the API server ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param({"mode": "Teleport"}, 'Unsupported value: "Teleport"', id="unknown mode"),
        pytest.param({"ttl": "0s"}, "must be longer than 0s", id="ttl of zero"),
        pytest.param({"ttl": "soon"}, "write a duration such as 5m", id="ttl that is no time"),
        pytest.param(
            {"reservationOptions": {"steering": "Magnet"}}, "Unsupported value", id="steering"
        ),
        pytest.param(
            {"mode": "EvictDirectly", "reservationOptions": {"nodeName": "n1"}},
            "mode EvictDirectly holds no place",
            id="a place for a job that holds none",
        ),
        pytest.param({"deleteOptions": {"dryRun": ["All"]}}, "a job is no dry run", id="a dry run"),
    ],
)
def test_the_api_server_refuses_what_no_version_accepts(
    spec: Object, says: str, controller_account: ControllerAccount, api: Api
) -> None:
    reference = {"namespace": "default", "name": "web"}
    job = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"generateName": "refused-"},
        "spec": {"podRef": reference, **spec},
    }

    answer = api.post(JOBS_PATH, job)

    assert answer.status == 422
    assert says in answer.body["message"]


# -- pods ------------------------------------------------------------------------------------------


def test_a_job_for_a_missing_pod_fails(
    controller: Run, controller_account: ControllerAccount, api: Api, workspace: Workspace
) -> None:
    missing: Object = {"metadata": {"namespace": workspace.name, "name": "nothing"}}

    status = wait_for_end(api, create_job(api, missing), controller)

    says = f"{workspace.name}/nothing does not exist"
    assert_failed(status, "MissingPod", says, api=api, account=controller_account)


def test_a_pod_that_is_replaced_while_its_place_is_searched_stays_as_it_is(
    controller: Run,
    controller_account: ControllerAccount,
    account: AuditedUser,
    api: Api,
    workspace: Workspace,
    source: str,
) -> None:
    create_stateful_set(workspace, "db", 1)
    (old,) = workspace.list_ready_pods()
    name = create_job(api, old)
    wait_for_condition(api, name, "ReservationScheduled", "False")
    new = replace_pod(workspace, old)

    status = wait_for_end(api, name, controller)

    # Between the two pods there is a moment without any.
    assert (status["phase"], status["reason"]) in [
        ("Failed", "PodReplaced"),
        ("Failed", "MissingPod"),
    ], status
    wait_until_clean(api, controller_account)
    assert account.evictions() == []
    assert [pod["metadata"]["uid"] for pod in workspace.list_pods()] == [new["metadata"]["uid"]]


def test_no_place_is_held_for_a_bare_pod(
    controller: Run,
    controller_account: ControllerAccount,
    account: AuditedUser,
    api: Api,
    workspace: Workspace,
) -> None:
    pod = {"metadata": {"name": "alone"}, "spec": pod_spec(workspace, {})}
    workspace.api.post(workspace.pods_path, pod).granted()
    (alone,) = eventually("a ready pod", workspace.list_ready_pods)

    status = wait_for_end(api, create_job(api, alone), controller)

    says = ("has no controller", "EvictDirectly")
    assert_failed(status, "ForbiddenMigratePod", *says, api=api, account=controller_account)
    assert account.evictions() == []
    assert len(workspace.list_ready_pods()) == 1


@pytest.mark.parametrize("mode", ["ReservationFirst", "EvictDirectly"])
def test_a_pod_of_a_daemon_set_is_not_moved(
    mode: str,
    controller: Run,
    controller_account: ControllerAccount,
    account: AuditedUser,
    api: Api,
    workspace: Workspace,
) -> None:
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(workspace, {})}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    path = f"/apis/apps/v1/namespaces/{workspace.name}/daemonsets"
    workspace.api.post(path, {"metadata": {"name": "agent"}, "spec": spec}).granted()
    pods = eventually("a pod on each node", lambda: _as_many(workspace, len(workspace.nodes)))

    status = wait_for_end(api, create_job(api, pods[0], mode=mode), controller)
    workspace.api.delete(f"{path}/agent").granted()

    says = "DaemonSet"
    assert_failed(status, "ForbiddenMigratePod", says, api=api, account=controller_account)
    assert account.evictions() == []


def _as_many(workspace: Workspace, count: int) -> list[Object]:
    pods = workspace.list_ready_pods()
    return pods if len(pods) == count else []


# -- workloads and nodes ---------------------------------------------------------------------------


def test_a_rollout_that_begins_while_a_place_is_searched_ends_the_job(
    controller: Run,
    controller_account: ControllerAccount,
    account: AuditedUser,
    api: Api,
    workspace: Workspace,
    source: str,
) -> None:
    create_deployment(workspace, "web", 2)
    name = create_job(api, workspace.list_ready_pods()[0])
    wait_for_condition(api, name, "ReservationScheduled", "False")
    with rollout(workspace, "web"):
        uncordon_all(workspace)
        status = wait_for_end(api, name, controller)

    says = "Deployment web is in the middle of a rollout"
    assert_failed(status, "WorkloadRollingOut", says, api=api, account=controller_account)
    assert account.evictions() == []


@contextmanager
def rollout(workspace: Workspace, name: str) -> Iterator[None]:
    """A rollout that does not get on while the block lasts, and is undone at its end."""
    path = f"/apis/apps/v1/namespaces/{workspace.name}/deployments/{name}"
    before = workspace.api.get(path).granted()["spec"]["template"]["spec"]["nodeSelector"]
    _select_nodes(workspace, path, {**before, "no": "such-node"})
    eventually("a pod without a node", lambda: _waiting_pods(workspace, name))
    try:
        yield
    finally:
        _select_nodes(workspace, path, {**before, "no": None})
        eventually("the end of the rollout", lambda: not _waiting_pods(workspace, name))


def _select_nodes(workspace: Workspace, path: str, selector: dict[str, str | None]) -> None:
    change = {"spec": {"template": {"spec": {"nodeSelector": selector}}}}
    workspace.api.patch(path, change).granted()


def _waiting_pods(workspace: Workspace, name: str) -> list[Object]:
    pods = pods_of(workspace.list_pods(), name)
    return [pod for pod in pods if not pod["spec"].get("nodeName")]


def test_a_node_that_is_deleted_under_the_placeholder_ends_the_job_and_the_pod_stays(
    controller_account: ControllerAccount,
    account: AuditedUser,
    api: Api,
    workspace: Workspace,
    source: str,
    tmp_path: Path,
) -> None:
    create_deployment(workspace, "web", 1)
    (pod,) = workspace.list_ready_pods()
    target = workspace.nodes[1]
    cordon_all_but(workspace, target)
    policy = job_policy(controller_account, defaultJobTTL="5m")

    with FaultyProxy(controller_account.plane, controller_account) as proxy:
        freeze = freeze_writes(proxy, Request("PATCH", "/nodes/"), after=False)
        with start_controller(controller_account, tmp_path, policy) as run:
            name = create_job(api, pod)
            freeze.wait(run)
            (placeholder,) = list_placeholders(api, controller_account)
            assert placeholder["spec"]["nodeName"] == target
            api.delete(f"/api/v1/nodes/{target}").granted()
            run.wait_for_more("job not advanced")
            thaw(proxy)
            status = wait_for_end(api, name, run)
            assert_failed(status, "NodeGone", target, api=api, account=controller_account)

    assert account.evictions() == []
    assert [each["metadata"]["uid"] for each in workspace.list_ready_pods()] == [
        pod["metadata"]["uid"]
    ]


def test_a_pod_whose_node_is_gone_is_replaced_elsewhere(
    controller: Run,
    controller_account: ControllerAccount,
    account: AuditedUser,
    api: Api,
    workspace: Workspace,
    source: str,
) -> None:
    create_deployment(workspace, "web", 1)
    (pod,) = workspace.list_ready_pods()
    uncordon_all(workspace)
    controller.wait_for("controller started")
    api.delete(f"/api/v1/nodes/{source}").granted()

    name = create_job(api, pod)
    eventually("the pod to be evicted or the job to end", lambda: _has_left(api, name, account))
    # There is no kubelet any more that would report its end.
    workspace.api.delete(f"{workspace.pods_path}/{pod['metadata']['name']}", grace_seconds=0)
    status = wait_for_end(api, name, controller)

    assert status["phase"] == "Succeeded", status
    wait_until_clean(api, controller_account)
    (replacement,) = eventually("the replacement", workspace.list_ready_pods)
    assert replacement["metadata"]["uid"] == status["podRef"]["uid"]
    assert len(assert_audit_equals_record(account, api, [name])) == 1


def _has_left(api: Api, name: str, account: AuditedUser) -> bool:
    return bool(account.evictions()) or job_status(api, name).get("phase") in ("Failed", "Aborted")


# -- other versions --------------------------------------------------------------------------------


@contextmanager
def newer_definition(api: Api) -> Iterator[None]:
    """The definition of a newer version, with one more field of the spec."""
    path = f"{CRDS}/{PLURAL}.{GROUP}"
    versions = api.get(path).granted()["spec"]["versions"]
    spec = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["window"] = {"type": "string"}
    api.patch(path, {"spec": {"versions": versions}}).granted()
    try:
        yield
    finally:
        define_jobs(api)


def test_a_job_with_fields_of_a_newer_version_is_left_alone(
    controller: Run,
    controller_account: ControllerAccount,
    account: AuditedUser,
    api: Api,
    workspace: Workspace,
) -> None:
    create_deployment(workspace, "web", 2)
    pods = workspace.list_ready_pods()
    with newer_definition(api):
        newer = eventually("a job with the new field", lambda: _create_with_window(api, pods[0]))
        wait_for_condition(api, newer, "Supported", "False", "NewerVersion")
        known = create_job(api, pods[1])
        assert wait_for_end(api, known, controller)["phase"] == "Succeeded"
        job = read_job(api, newer)

    assert job["spec"]["window"] == "22:00-06:00"
    assert job["status"].get("phase") in (None, "Pending")
    assert "spec.window" in job["status"]["message"]
    assert "upgrade resettle" in job["status"]["message"]
    assert "Arbitrated" not in conditions_of(job["status"])
    assert len(assert_audit_equals_record(account, api, [known])) == 1
    wait_until_clean(api, controller_account)


def _create_with_window(api: Api, pod: Object) -> str:
    """Creates a job with the new field; empty while the API server still drops it."""
    name = create_job(api, pod, paused=True, window="22:00-06:00")
    if "window" in read_job(api, name)["spec"]:
        edit_job(api, name, {"spec": {"paused": False}})
        return name
    api.delete(f"{JOBS_PATH}/{name}").granted()
    return ""


def write_status(api: Api, name: str, **fields: Any) -> None:
    """Writes the status of a job, as another version of the controller would."""
    api.patch(f"{JOBS_PATH}/{name}/status", {"status": fields}).granted()


def add_condition(api: Api, name: str, kind: str) -> None:
    """Adds a condition that this version does not know, with a field that it does not know."""
    conditions = job_status(api, name).get("conditions") or []
    entry = {"type": kind, "status": "True", "reason": "ByNewer", "score": 7}
    write_status(api, name, conditions=[*conditions, entry])


@pytest.mark.parametrize("steering", ["Hard", "Gate"])
def test_upgrade_downgrade_upgrade_in_the_middle_of_a_job_loses_nothing(
    steering: str,
    controller_account: ControllerAccount,
    account: AuditedUser,
    api: Api,
    workspace: Workspace,
    source: str,
    tmp_path: Path,
) -> None:
    create_deployment(workspace, "web", 1)
    (pod,) = workspace.list_ready_pods()
    uncordon_all(workspace)
    policy = job_policy(controller_account, steering=steering, defaultJobTTL="5m")

    with held(api, pod):
        with start_controller(controller_account, tmp_path, policy):
            name = create_job(api, pod)
            wait_for_condition(api, name, "Eviction", "False")
        # Upgraded: the newer version adds what this one does not know.
        write_status(api, name, phase="Verifying", checkpoint={"round": 1})
        add_condition(api, name, "Verified")
        kept = leftovers(api, controller_account)
        # Downgraded: the job is left alone, and what it holds stays.
        with start_controller(controller_account, tmp_path, policy) as older:
            wait_for_condition(api, name, "Supported", "False", "NewerVersion")
            bystander = create_job(api, {"metadata": {**pod["metadata"], "name": "nothing"}})
            wait_for_end(api, bystander, older)
            status = job_status(api, name)
            assert status["phase"] == "Verifying"
            assert "status.phase: Verifying" in status["message"]
            assert set(kept) <= {*leftovers(api, controller_account)}
        # Upgraded again: the newer version brings the job to a phase that both know.
        write_status(api, name, phase="Running", checkpoint={"round": 2})
        add_condition(api, name, "VerifiedAgain")
        # And downgraded again: now this version ends it.
        with start_controller(controller_account, tmp_path, policy) as older:
            wait_for_condition(api, name, "Supported", "True")
            let_go(api, pod)
            status = wait_for_end(api, name, older)
            wait_until_clean(api, controller_account)

    assert status["phase"] == "Succeeded", status
    assert status["checkpoint"] == {"round": 2}
    kinds = {entry["type"]: entry for entry in status["conditions"]}
    assert kinds["Verified"]["score"] == kinds["VerifiedAgain"]["score"] == 7
    assert len(assert_audit_equals_record(account, api, [name])) == 1


def test_unknown_conditions_and_status_fields_alone_do_not_stop_a_job(
    controller: Run,
    controller_account: ControllerAccount,
    api: Api,
    workspace: Workspace,
) -> None:
    create_deployment(workspace, "web", 1)
    (pod,) = workspace.list_ready_pods()
    name = create_job(api, pod, paused=True, **DIRECT)
    add_condition(api, name, "Verified")
    write_status(api, name, checkpoint={"round": 1})
    edit_job(api, name, {"spec": {"paused": False}})

    status = wait_for_end(api, name, controller)

    assert status["phase"] == "Succeeded", status
    assert status["checkpoint"] == {"round": 1}
    assert conditions_of(status)["Verified"] == ("True", "ByNewer")
    assert "Supported" not in conditions_of(status)
