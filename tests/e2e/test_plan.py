"""`resettle plan` over a real API server: what it decides, and what it needs to be allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.command import lifetime, plan
from tools.control_plane.audit_log import AuditLog
from tools.control_plane.papers import ADMIN, kubeconfig
from tools.control_plane.plane import Access

ALWAYS_READ = {"": ["nodes", "pods"], "policy": ["poddisruptionbudgets"]}
READ_FOR_FIT = {
    "": ["nodes", "pods", "namespaces", "persistentvolumeclaims", "persistentvolumes"],
    "policy": ["poddisruptionbudgets"],
    "storage.k8s.io": ["csinodes"],
}
"""What a policy has read, by API group; `resettle/v1` judges where pods fit by much."""


@pytest.mark.parametrize(
    ("api_version", "moved"),
    [
        pytest.param("descheduler/v1alpha2", 12, id="everything that is too old"),
        pytest.param("resettle/v1", 1, id="one percent, and at least one"),
    ],
)
def test_pods_of_the_cluster_are_planned_for(
    api_version: str, moved: int, plane: Access, room: Room, tmp_path: Path
) -> None:
    room.deploy("web", replicas=12)

    done = plan(plane.papers.kubeconfig(ADMIN), lifetime(api_version, room.name), tmp_path)

    assert (done.code, len(done.moves)) == (0, moved), done.err
    there = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in room.running()}
    assert {move["uid"]: move["node"] for move in done.moves}.items() <= there.items()


def test_a_budget_of_the_cluster_is_kept(plane: Access, room: Room, tmp_path: Path) -> None:
    room.deploy("web", replicas=6)
    room.budget("web", at_most_away=2)
    policy = lifetime("descheduler/v1alpha2", room.name)

    done = plan(plane.papers.kubeconfig(ADMIN), policy, tmp_path)

    assert (done.code, len(done.moves)) == (0, 2), done.err


def test_the_admin_is_refused_nothing(plane: Access, room: Room, tmp_path: Path) -> None:
    log = AuditLog.from_now_on(plane.audit_log)
    plan(plane.papers.kubeconfig(ADMIN), lifetime("resettle/v1", room.name), tmp_path)

    asked = log.requests(ADMIN)
    answers = {it["responseStatus"]["code"] for it in asked if it.get("userAgent") == "resettle"}

    assert answers == {200}


@pytest.mark.parametrize(
    ("api_version", "granted"),
    [
        pytest.param("descheduler/v1alpha2", ALWAYS_READ, id="a policy of the descheduler"),
        pytest.param("resettle/v1", READ_FOR_FIT, id="a policy that judges fit"),
    ],
)
def test_an_account_that_may_list_what_the_policy_reads_can_plan(
    api_version: str, granted: dict[str, list[str]], plane: Access, room: Room, tmp_path: Path
) -> None:
    account = _account(room, granted)
    room.deploy("web", replicas=2)

    done = plan(_way_in(plane, room, tmp_path), lifetime(api_version, room.name), tmp_path)

    assert done.code == 0, done.err
    log = AuditLog(plane.audit_log)
    needed = {("list", name) for names in granted.values() for name in names}
    # The API server logs a long list after it has answered.
    eventually("every list in the audit log", lambda: needed <= _read(log, account))
    assert _read(log, account) == needed


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
def test_an_account_that_may_not_is_told_verb_and_resource(
    withheld: str, api_version: str, plane: Access, room: Room, tmp_path: Path
) -> None:
    granted = {
        group: [name for name in names if name != withheld] for group, names in READ_FOR_FIT.items()
    }
    account = _account(room, granted)

    done = plan(_way_in(plane, room, tmp_path), lifetime(api_version, room.name), tmp_path)

    group = next(group for group, names in READ_FOR_FIT.items() if withheld in names)
    says = (
        f"{account} may not list {withheld}{group and f' of {group}'}; add to its ClusterRole: "
        f'apiGroups: ["{group}"], resources: ["{withheld}"], verbs: ["list"]'
    )
    assert (done.code, done.out, done.err) == (1, "", f"error: {says}\n")


def _account(room: Room, granted: dict[str, list[str]]) -> str:
    """A ServiceAccount that may get and list these, and the name the API server knows it by."""
    rules = [
        {"apiGroups": [group], "resources": names, "verbs": ["get", "list"]}
        for group, names in granted.items()
        if names
    ]
    rbac, name = "/apis/rbac.authorization.k8s.io/v1", f"planner-{room.name}"
    subject = {"kind": "ServiceAccount", "name": "planner", "namespace": room.name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    api, meta = room.api, {"metadata": {"name": name}}
    account = {"metadata": {"name": "planner"}}
    api.post(f"/api/v1/namespaces/{room.name}/serviceaccounts", account).granted()
    api.post(f"{rbac}/clusterroles", {**meta, "rules": rules}).granted()
    binding = {**meta, "subjects": [subject], "roleRef": role}
    api.post(f"{rbac}/clusterrolebindings", binding).granted()
    user = f"system:serviceaccount:{room.name}:planner"
    eventually("the role in force", lambda: _may_list(room, user, rules[0]))
    return user


def _may_list(room: Room, user: str, rule: dict[str, Any]) -> bool:
    what = {"verb": "list", "group": rule["apiGroups"][0], "resource": rule["resources"][0]}
    review = {"spec": {"user": user, "resourceAttributes": what}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(room.api.post(path, review).granted()["status"]["allowed"])


def _way_in(plane: Access, room: Room, folder: Path) -> Path:
    """A kubeconfig with a token that the API server gave to the account."""
    path = f"/api/v1/namespaces/{room.name}/serviceaccounts/planner/token"
    token = room.api.post(path, {"spec": {"expirationSeconds": 3600}}).granted()["status"]["token"]
    file = folder / "kubeconfig"
    file.write_text(json.dumps(kubeconfig(plane.url, plane.papers.ca, token)))
    return file


def _read(log: AuditLog, account: str) -> set[tuple[str, str]]:
    """The verbs and resources of the account's requests."""
    return {(it["verb"], it["objectRef"]["resource"]) for it in log.requests(account)}
