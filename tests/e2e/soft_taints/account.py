"""The ServiceAccount of the soft tainter with its roles and admission policy, as shipped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from tests import ROOT
from tests.e2e.cluster.service_accounts import run_resettle
from tests.e2e.cluster.workspace import eventually
from tests.e2e.processes.command import Done
from tests.e2e.processes.run import Run
from tools.control_plane.api import Api, Object
from tools.control_plane.audit_log import AuditLog
from tools.control_plane.papers import kubeconfig
from tools.control_plane.plane import Access

SHIPPED = ROOT / "deploy" / "soft-tainter"
NAME = "resettle-soft-tainter"
_accounts = count(1)


class TainterAccount:
    """A namespace with the shipped account and admission policy, while its block lasts."""

    def __init__(
        self, plane: Access, api: Api, folder: Path, *, with_admission_policy: bool = True
    ) -> None:
        self.plane, self._api = plane, api
        self._with_admission_policy = with_admission_policy
        self.name = f"{NAME}-{os.getpid()}-{next(_accounts)}"
        """The name of the account, its roles, its admission policy and its lease."""
        self.namespace = f"for-{self.name}"
        self.user = f"system:serviceaccount:{self.namespace}:{self.name}"
        self.kubeconfig = folder / f"{self.namespace}.kubeconfig"
        self._token = ""
        self._created: list[str] = []
        self._expected_refusals: set[str] = set()

    def __enter__(self) -> TainterAccount:
        self._create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for obj in self._shipped_objects():
            if self._with_admission_policy or not obj["kind"].startswith("ValidatingAdmission"):
                self._create(self._collection_path(obj), obj)
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"
        answer = self._api.post(path, {"spec": {"expirationSeconds": 7200}}).granted()
        self._token = answer["status"]["token"]
        config = kubeconfig(self.plane.url, self.plane.papers.ca, self._token)
        self.kubeconfig.write_text(json.dumps(config))
        eventually("the role and the admission policy in force", self._is_in_force)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for path in reversed(self._created):
            self._api.delete(path)

    def run(self, policy: Object, *words: str) -> Run:
        """Starts `resettle soft-tainter` with this policy, as this account."""
        file = self.kubeconfig.with_suffix(".policy.json")
        file.write_text(json.dumps(policy))
        return Run(self.kubeconfig, file, *words, command="soft-tainter")

    def run_command(self, *words: str) -> Done:
        """Runs `resettle soft-tainter` without a policy; returns its exit code and output."""
        return run_resettle("soft-tainter", "--kubeconfig", str(self.kubeconfig), *words)

    def check_access(self, policy: Object) -> Done:
        """Runs `resettle check-access` as this account; returns its exit code and output."""
        file = self.kubeconfig.with_suffix(".policy.json")
        file.write_text(json.dumps(policy))
        lease_name = ("--leader-elect-resource-name", self.name)
        lease_namespace = ("--leader-elect-resource-namespace", self.namespace)
        return run_resettle(
            *("check-access", "--component", "soft-tainter", "--kubeconfig", str(self.kubeconfig)),
            *("--policy", str(file), "--leader-elect", *lease_name, *lease_namespace),
        )

    def api(self) -> Api:
        """A client of the API server with the token of this account."""
        return Api(self.plane.url, self._token, self.plane.papers.ca)

    def requests(self, *verbs: str) -> Iterator[Object]:
        """The requests of this account with these verbs in the audit log, without dry runs."""
        for request in AuditLog(self.plane.audit_log).requests(self.user):
            if request["verb"] in verbs and "dryRun" not in request["requestURI"]:
                yield request

    def patched_nodes(self) -> list[str]:
        """The nodes whose patch was granted, in order."""
        return [
            request["objectRef"]["name"]
            for request in self.requests("patch")
            if request["responseStatus"]["code"] < 300
        ]

    def expect_refusal(self, node: str) -> None:
        """Leaves refusals about this node out of `refused_nodes`."""
        self._expected_refusals.add(node)

    def refused_nodes(self) -> list[str]:
        """The nodes whose patch was forbidden, unless a test expects that."""
        names = [
            request["objectRef"]["name"]
            for request in self.requests("patch")
            if request["responseStatus"]["code"] == 403
        ]
        return [name for name in names if name not in self._expected_refusals]

    def _shipped_objects(self) -> list[Object]:
        """Account, roles and admission policy, with names of this test."""
        text = (SHIPPED / "rbac.yaml").read_text(encoding="utf-8")
        for before, after in (
            (NAME, self.name),
            ("namespace: resettle\n", f"namespace: {self.namespace}\n"),
            ("namespace: resettle}", f"namespace: {self.namespace}}}"),
            ("serviceaccount:resettle:", f"serviceaccount:{self.namespace}:"),
        ):
            text = text.replace(before, after)
        return list(yaml.safe_load_all(text))

    def _collection_path(self, obj: Object) -> str:
        """The path of the collection of the object."""
        kind, api = obj["kind"], obj["apiVersion"]
        plural = f"{kind.lower()}s"
        if kind == "ValidatingAdmissionPolicy":
            plural = "validatingadmissionpolicies"
        root = "/api/v1" if api == "v1" else f"/apis/{api}"
        namespace = obj["metadata"].get("namespace")
        return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"

    def _create(self, path: str, obj: Object) -> None:
        self._api.post(path, obj).granted()
        self._created.append(f"{path}/{obj['metadata']['name']}")

    def _is_in_force(self) -> bool:
        """Whether the account may read nodes and, with the policy, may not label them."""
        names = [node["metadata"]["name"] for node in self._api.items("/api/v1/nodes")]
        with self.api() as client:
            if not names or not client.get(f"/api/v1/nodes/{names[0]}").fine:
                return False
            if not self._with_admission_policy:
                return True
            label: dict[str, Any] = {"metadata": {"labels": {"by": "the-tainter"}}}
            return client.patch(f"/api/v1/nodes/{names[0]}?dryRun=All", label).status == 403
