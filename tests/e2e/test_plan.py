"""`resettle plan` with a real API server: what it plans, and which permissions it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.command import life_time_policy, run_plan
from tools.control_plane.audit_log import AuditLog
from tools.control_plane.papers import ADMIN, kubeconfig
from tools.control_plane.plane import Access

ALWAYS_READ = {"": ["nodes", "pods"], "policy": ["poddisruptionbudgets"]}
READ_FOR_FIT = {
    "": ["nodes", "pods", "namespaces", "persistentvolumeclaims", "persistentvolumes"],
    "policy": ["poddisruptionbudgets"],
    "storage.k8s.io": ["csinodes"],
}
"""The kinds that a policy reads, by API group; node fit of `resettle/v1` reads more."""


@pytest.mark.parametrize(
    ("api_version", "moved"),
    [
        pytest.param("descheduler/v1alpha2", 12, id="everything that is too old"),
        pytest.param("resettle/v1", 1, id="one percent, and at least one"),
    ],
)
def test_a_plan_has_the_old_pods_of_the_cluster(
    api_version: str, moved: int, plane: Access, workspace: Workspace, tmp_path: Path
) -> None:
    workspace.deploy("web", replicas=12)

    done = run_plan(
        plane.papers.kubeconfig(ADMIN), life_time_policy(api_version, workspace.name), tmp_path
    )

    assert (done.code, len(done.moves)) == (0, moved), done.err
    node_of = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in workspace.list_pods()}
    assert {move["uid"]: move["node"] for move in done.moves}.items() <= node_of.items()


def test_a_plan_keeps_within_a_budget_of_the_cluster(
    plane: Access, workspace: Workspace, tmp_path: Path
) -> None:
    workspace.deploy("web", replicas=6)
    workspace.create_budget("web", max_unavailable=2)
    policy = life_time_policy("descheduler/v1alpha2", workspace.name)

    done = run_plan(plane.papers.kubeconfig(ADMIN), policy, tmp_path)

    assert (done.code, len(done.moves)) == (0, 2), done.err


def test_no_request_of_the_admin_is_refused(
    plane: Access, workspace: Workspace, tmp_path: Path
) -> None:
    log = AuditLog.from_now_on(plane.audit_log)
    run_plan(
        plane.papers.kubeconfig(ADMIN), life_time_policy("resettle/v1", workspace.name), tmp_path
    )

    requests = log.requests(ADMIN)
    answers = {
        request["responseStatus"]["code"]
        for request in requests
        if request.get("userAgent") == "resettle"
    }

    assert answers == {200}


@pytest.mark.parametrize(
    ("api_version", "granted"),
    [
        pytest.param("descheduler/v1alpha2", ALWAYS_READ, id="a policy of upstream"),
        pytest.param("resettle/v1", READ_FOR_FIT, id="a policy with node fit"),
    ],
)
def test_an_account_that_may_list_what_the_policy_reads_can_plan(
    api_version: str,
    granted: dict[str, list[str]],
    plane: Access,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    account = _create_account(workspace, granted)
    workspace.deploy("web", replicas=2)

    done = run_plan(
        _write_kubeconfig(plane, workspace, tmp_path),
        life_time_policy(api_version, workspace.name),
        tmp_path,
    )

    assert done.code == 0, done.err
    log = AuditLog(plane.audit_log)
    needed = {("list", name) for names in granted.values() for name in names}
    # The API server writes a long list to the audit log after it has answered.
    eventually("every list in the audit log", lambda: needed <= _requests_of(log, account))
    assert _requests_of(log, account) == needed


@pytest.mark.parametrize(
    ("withheld", "api_version"),
    [
        pytest.param("nodes", "descheduler/v1alpha2", id="nodes"),
        pytest.param("pods", "descheduler/v1alpha2", id="pods"),
        pytest.param("poddisruptionbudgets", "descheduler/v1alpha2", id="budgets"),
        pytest.param("namespaces", "resettle/v1", id="namespaces"),
        pytest.param("persistentvolumeclaims", "resettle/v1", id="claims"),
        pytest.param("persistentvolumes", "resettle/v1", id="volumes"),
        pytest.param("csinodes", "resettle/v1", id="limits of volumes"),
    ],
)
def test_a_missing_permission_is_named_with_verb_and_resource(
    withheld: str, api_version: str, plane: Access, workspace: Workspace, tmp_path: Path
) -> None:
    granted = {
        group: [name for name in names if name != withheld] for group, names in READ_FOR_FIT.items()
    }
    account = _create_account(workspace, granted)

    done = run_plan(
        _write_kubeconfig(plane, workspace, tmp_path),
        life_time_policy(api_version, workspace.name),
        tmp_path,
    )

    group = next(group for group, names in READ_FOR_FIT.items() if withheld in names)
    says = (
        f"{account} may not list {withheld}{group and f' of {group}'}; add to its ClusterRole: "
        f'apiGroups: ["{group}"], resources: ["{withheld}"], verbs: ["list"]'
    )
    assert (done.code, done.out, done.err) == (1, "", f"error: {says}\n")


def _create_account(workspace: Workspace, granted: dict[str, list[str]]) -> str:
    """Creates a ServiceAccount that may get and list these; returns its user name."""
    rules = [
        {"apiGroups": [group], "resources": names, "verbs": ["get", "list"]}
        for group, names in granted.items()
        if names
    ]
    rbac, name = "/apis/rbac.authorization.k8s.io/v1", f"planner-{workspace.name}"
    subject = {"kind": "ServiceAccount", "name": "planner", "namespace": workspace.name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    api, meta = workspace.api, {"metadata": {"name": name}}
    account = {"metadata": {"name": "planner"}}
    api.post(f"/api/v1/namespaces/{workspace.name}/serviceaccounts", account).granted()
    api.post(f"{rbac}/clusterroles", {**meta, "rules": rules}).granted()
    binding = {**meta, "subjects": [subject], "roleRef": role}
    api.post(f"{rbac}/clusterrolebindings", binding).granted()
    user = f"system:serviceaccount:{workspace.name}:planner"
    eventually("the role in force", lambda: _may_list(workspace, user, rules[0]))
    return user


def _may_list(workspace: Workspace, user: str, rule: dict[str, Any]) -> bool:
    attributes = {"verb": "list", "group": rule["apiGroups"][0], "resource": rule["resources"][0]}
    review = {"spec": {"user": user, "resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(workspace.api.post(path, review).granted()["status"]["allowed"])


def _write_kubeconfig(plane: Access, workspace: Workspace, folder: Path) -> Path:
    """Writes a kubeconfig with a token of the ServiceAccount."""
    path = f"/api/v1/namespaces/{workspace.name}/serviceaccounts/planner/token"
    token = workspace.api.post(path, {"spec": {"expirationSeconds": 3600}}).granted()["status"][
        "token"
    ]
    file = folder / "kubeconfig"
    file.write_text(json.dumps(kubeconfig(plane.url, plane.papers.ca, token)))
    return file


def _requests_of(log: AuditLog, account: str) -> set[tuple[str, str]]:
    """The verbs and resources of the requests of the account."""
    return {
        (request["verb"], request["objectRef"]["resource"]) for request in log.requests(account)
    }
