"""ServiceAccounts with just the rules that a test gives them, and the command as they run it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.command import RESETTLE, Done
from tools.control_plane.papers import kubeconfig
from tools.control_plane.plane import Access

NAME = "visitor"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
Rule = dict[str, list[str]]


def account(room: Room, rules: list[Rule], name: str = NAME) -> str:
    """The room's visitor, to whom these rules have been granted under a name, and are in force."""
    api, title = room.api, f"{name}-{room.name}"
    there = f"/api/v1/namespaces/{room.name}/serviceaccounts"
    if not api.get(f"{there}/{NAME}").fine:
        api.post(there, {"metadata": {"name": NAME}}).granted()
    meta = {"metadata": {"name": title}}
    api.post(f"{RBAC}/clusterroles", {**meta, "rules": rules}).granted()
    binding = {
        **meta,
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": room.name}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": title},
    }
    api.post(f"{RBAC}/clusterrolebindings", binding).granted()
    user = f"system:serviceaccount:{room.name}:{NAME}"
    eventually("the rules in force", lambda: all(_in_force(room, user, rule) for rule in rules))
    return user


def way_in(plane: Access, room: Room, folder: Path) -> Path:
    """A kubeconfig with a token that the API server gave to the visitor."""
    path = f"/api/v1/namespaces/{room.name}/serviceaccounts/{NAME}/token"
    token = room.api.post(path, {"spec": {"expirationSeconds": 3600}}).granted()["status"]["token"]
    file = folder / "visitor.kubeconfig"
    file.write_text(json.dumps(kubeconfig(plane.url, plane.papers.ca, token)))
    return file


def resettle(*words: str) -> Done:
    """How the installed command ends."""
    done = subprocess.run(
        [RESETTLE, *words], capture_output=True, text=True, check=False, timeout=60
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _in_force(room: Room, user: str, rule: Rule) -> bool:
    resource, _, under = rule["resources"][-1].partition("/")
    asked: dict[str, Any] = {"verb": rule["verbs"][-1], "group": rule["apiGroups"][0]}
    asked |= {"resource": resource, "subresource": under}
    review = {"spec": {"user": user, "resourceAttributes": asked}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(room.api.post(path, review).granted()["status"]["allowed"])
