"""Jobs carried out inside the descheduler, or by a process and an account of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.cluster.workloads import create_deployment, report_restarts, uids
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.fixtures import audited, controller_account, shipped
from tests.e2e.migration.harness import (
    RESERVING,
    Args,
    job_names,
    start_controller,
    strategy_policy,
    wait_for_ends,
    wait_until_clean,
)
from tests.e2e.processes.command import RESETTLE
from tests.e2e.processes.run import AuditedUser, Policy, Run, assert_audit_agrees
from tools.control_plane.api import Api, Object
from tools.control_plane.papers import kubeconfig
from tools.control_plane.plane import Access

__all__ = ["audited", "controller_account", "shipped"]
"""Fixtures."""
OFTEN = ("--descheduling-interval", "1s")
LEADING = ("--leader-elect", "--leader-elect-resource-namespace")
READS = {"get", "list", "watch"}


def jobs_policy(workspace: Workspace, namespace: str, *, inside: bool) -> Policy:
    """A policy that moves pods with many restarts by jobs that hold a place."""
    limited: dict[str, Args] = {"filter": {"MigrationLimits": {}}}
    chosen = strategy_policy(namespace, workspace, plugins=limited, **RESERVING)
    if inside:
        plugins = chosen["profiles"][0]["plugins"]
        plugins["controller"] = {"enabled": ["MigrationController"]}
    return chosen


class PrintedAccount(AuditedUser):
    """The account and the roles that `resettle rbac` prints for a policy, while the block lasts."""

    def __init__(self, plane: Access, api: Api, folder: Path, name: str, chosen: Policy) -> None:
        self._api, self._name = api, name
        super().__init__(plane, f"system:serviceaccount:{name}:{name}")
        self.policy = folder / f"{name}.policy.yaml"
        self.policy.write_text(yaml.safe_dump(chosen))
        self.kubeconfig = folder / f"{name}.kubeconfig"
        words = ("--policy", str(self.policy), *LEADING, name, "--name", name, "--namespace", name)
        done = subprocess.run(
            [RESETTLE, "rbac", *words], capture_output=True, text=True, check=True, timeout=60
        )
        self.documents: list[Object] = [item for item in yaml.safe_load_all(done.stdout) if item]
        self._created: list[str] = []

    @contextmanager
    def created(self) -> Iterator[PrintedAccount]:
        """Creates what was printed."""
        self._create("/api/v1/namespaces", {"metadata": {"name": self._name}})
        try:
            for document in self.documents:
                self._create(_list_path(document), document)
            path = f"/api/v1/namespaces/{self._name}/serviceaccounts/{self._name}/token"
            answer = self._api.post(path, {"spec": {"expirationSeconds": 3600}}).granted()
            token = answer["status"]["token"]
            config = kubeconfig(self.plane.url, self.plane.papers.ca, token)
            self.kubeconfig.write_text(yaml.safe_dump(config))
            eventually("the default account", lambda: self._has_default_account())
            yield self
        finally:
            for path in reversed(self._created):
                self._api.delete(path)

    def rules(self) -> list[dict[str, Any]]:
        """All rules of its roles."""
        return [rule for document in self.documents for rule in document.get("rules") or ()]

    def run(self, *words: str) -> Run:
        """Starts `resettle run` as this account."""
        return Run(self.kubeconfig, self.policy, *words, *LEADING, self._name)

    def _create(self, path: str, document: Object) -> None:
        self._api.post(path, document).granted()
        self._created.append(f"{path}/{document['metadata']['name']}")

    def _has_default_account(self) -> bool:
        return self._api.get(f"/api/v1/namespaces/{self._name}/serviceaccounts/default").fine


def _list_path(document: Object) -> str:
    """Where objects of this kind are created."""
    kind, version = document["kind"].lower(), document["apiVersion"]
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    namespace = document["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def written_resources(user: AuditedUser) -> set[tuple[str, str]]:
    """Verb and resource of everything that the user wrote, access reviews of itself apart."""
    return {
        (
            request["verb"],
            "/".join(filter(None, (reference["resource"], reference.get("subresource")))),
        )
        for request in user.requests()
        if request["verb"] not in READS
        and (reference := request.get("objectRef"))
        and reference.get("apiGroup") != "authorization.k8s.io"
    }


def test_one_process_moves_pods_with_the_permissions_that_are_printed_for_its_policy(
    controller_account: ControllerAccount,
    plane: Access,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create_deployment(workspace, "web", 3)
    before = workspace.list_ready_pods()
    report_restarts(workspace, before, times=40)
    name = f"inside-{workspace.name}"
    chosen = jobs_policy(workspace, name, inside=True)

    with (
        PrintedAccount(plane, api, tmp_path, name, chosen).created() as account,
        account.run(*OFTEN) as run,
    ):
        run.wait_for("evicted", 3)
        statuses = wait_for_ends(api, job_names(api), run)
        eventually("replacements", lambda: len(workspace.list_ready_pods()) == 3)
        eventually("no placeholders", lambda: not api.items(f"/api/v1/namespaces/{name}/pods"))
        wait_until_clean(api, controller_account)
        assert run.stop() == 0, run.log_text

    assert {status["phase"] for status in statuses.values()} == {"Succeeded"}, statuses
    assert run.evicted == uids(before)
    assert ("create", "podmigrationjobs") in written_resources(account)
    assert_audit_agrees(api, account, run)


def test_apart_the_descheduler_only_reads_evicts_and_creates_jobs(
    controller_account: ControllerAccount,
    audited: AuditedUser,
    plane: Access,
    api: Api,
    workspace: Workspace,
    tmp_path: Path,
) -> None:
    create_deployment(workspace, "web", 3)
    before = workspace.list_ready_pods()
    report_restarts(workspace, before, times=40)
    name = f"apart-{workspace.name}"
    chosen = jobs_policy(workspace, controller_account.namespace, inside=False)

    with (
        PrintedAccount(plane, api, tmp_path, name, chosen).created() as account,
        start_controller(controller_account, tmp_path, chosen) as controller,
        account.run(*OFTEN) as run,
    ):
        granted = {
            (verb, resource)
            for rule in account.rules()
            for verb in rule["verbs"]
            for resource in rule["resources"]
            if verb not in READS
        }
        assert granted == {
            ("create", "pods/eviction"),
            ("create", "podmigrationjobs"),
            ("create", "events"),
            ("create", "leases"),
            ("update", "leases"),
        }
        run.wait_for("move requested", 3)
        statuses = wait_for_ends(api, job_names(api), controller)
        wait_until_clean(api, controller_account)
        assert run.stop() == controller.stop() == 0, run.log_text

    assert {status["phase"] for status in statuses.values()} == {"Succeeded"}, statuses
    assert account.eviction_requests() == []
    assert written_resources(account) <= granted
    assert account.forbidden_requests() == []
    assert controller.evicted == uids(before)
    assert_audit_agrees(api, audited, controller)
