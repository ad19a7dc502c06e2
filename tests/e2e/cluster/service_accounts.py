"""ServiceAccounts with only the rules that a test grants, and the command run with them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.command import RESETTLE, Done
from tools.control_plane.papers import kubeconfig
from tools.control_plane.plane import Access

NAME = "tester"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
Rule = dict[str, list[str]]


def create_account(workspace: Workspace, rules: list[Rule], name: str = NAME) -> str:
    """Grants the ServiceAccount of the workspace these rules; returns its user name."""
    api, role_name = workspace.api, f"{name}-{workspace.name}"
    accounts_path = f"/api/v1/namespaces/{workspace.name}/serviceaccounts"
    if not api.get(f"{accounts_path}/{NAME}").fine:
        api.post(accounts_path, {"metadata": {"name": NAME}}).granted()
    meta = {"metadata": {"name": role_name}}
    api.post(f"{RBAC}/clusterroles", {**meta, "rules": rules}).granted()
    binding = {
        **meta,
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": workspace.name}],
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role_name,
        },
    }
    api.post(f"{RBAC}/clusterrolebindings", binding).granted()
    user = f"system:serviceaccount:{workspace.name}:{NAME}"
    eventually(
        "the rules in force", lambda: all(_is_in_force(workspace, user, rule) for rule in rules)
    )
    return user


def write_kubeconfig(plane: Access, workspace: Workspace, folder: Path) -> Path:
    """Writes a kubeconfig with a token of the ServiceAccount."""
    path = f"/api/v1/namespaces/{workspace.name}/serviceaccounts/{NAME}/token"
    token = workspace.api.post(path, {"spec": {"expirationSeconds": 3600}}).granted()["status"][
        "token"
    ]
    config_file = folder / "tester.kubeconfig"
    config_file.write_text(json.dumps(kubeconfig(plane.url, plane.papers.ca, token)))
    return config_file


def run_resettle(*words: str) -> Done:
    """Runs the installed command; returns its exit code and output."""
    done = subprocess.run(
        [RESETTLE, *words], capture_output=True, text=True, check=False, timeout=60
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _is_in_force(workspace: Workspace, user: str, rule: Rule) -> bool:
    resource, _, subresource = rule["resources"][-1].partition("/")
    attributes: dict[str, Any] = {"verb": rule["verbs"][-1], "group": rule["apiGroups"][0]}
    attributes |= {"resource": resource, "subresource": subresource}
    review = {"spec": {"user": user, "resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(workspace.api.post(path, review).granted()["status"]["allowed"])
