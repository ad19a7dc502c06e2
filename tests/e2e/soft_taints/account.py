"""The soft tainter's own account, as `deploy/soft-tainter` ships it: roles, guard and all."""

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
from tests.e2e.cluster.service_accounts import resettle
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
    """A namespace with the shipped account in it, guarded, while its block lasts."""

    def __init__(self, plane: Access, api: Api, folder: Path, *, guarded: bool = True) -> None:
        self.plane, self._api = plane, api
        self._guarded = guarded
        self.name = f"{NAME}-{os.getpid()}-{next(_accounts)}"
        """Of the account, its roles, its guard and its lease."""
        self.namespace = f"for-{self.name}"
        self.user = f"system:serviceaccount:{self.namespace}:{self.name}"
        self.kubeconfig = folder / f"{self.namespace}.kubeconfig"
        self._token = ""
        self._made: list[str] = []
        self._pardoned: set[str] = set()

    def __enter__(self) -> TainterAccount:
        self._make("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for it in self._shipped():
            if self._guarded or not it["kind"].startswith("ValidatingAdmission"):
                self._make(self._home(it), it)
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"
        given = self._api.post(path, {"spec": {"expirationSeconds": 7200}}).granted()
        self._token = given["status"]["token"]
        way_in = kubeconfig(self.plane.url, self.plane.papers.ca, self._token)
        self.kubeconfig.write_text(json.dumps(way_in))
        eventually("the role and the guard in force", self._in_force)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for path in reversed(self._made):
            self._api.delete(path)

    def run(self, policy: Object, *words: str) -> Run:
        """`resettle soft-tainter` with this policy, as this account."""
        file = self.kubeconfig.with_suffix(".policy.json")
        file.write_text(json.dumps(policy))
        return Run(self.kubeconfig, file, *words, command="soft-tainter")

    def command(self, *words: str) -> Done:
        """How `resettle soft-tainter` ends without a policy."""
        return resettle("soft-tainter", "--kubeconfig", str(self.kubeconfig), *words)

    def checked(self, policy: Object) -> Done:
        """How `resettle check-access` ends for this account."""
        file = self.kubeconfig.with_suffix(".policy.json")
        file.write_text(json.dumps(policy))
        lease = ("--leader-elect-resource-name", self.name)
        home = ("--leader-elect-resource-namespace", self.namespace)
        return resettle(
            *("check-access", "--component", "soft-tainter", "--kubeconfig", str(self.kubeconfig)),
            *("--policy", str(file), "--leader-elect", *lease, *home),
        )

    def api(self) -> Api:
        """The API server as the tainter sees it."""
        return Api(self.plane.url, self._token, self.plane.papers.ca)

    def audited(self, *verbs: str) -> Iterator[Object]:
        """What the API server has noted of this account's requests with these verbs.

        Without those that were only asked and not to be done, by which `_in_force` finds out.
        """
        for noted in AuditLog(self.plane.audit_log).requests(self.user):
            if noted["verb"] in verbs and "dryRun" not in noted["requestURI"]:
                yield noted

    def patched(self) -> list[str]:
        """The nodes that it was let write, in order."""
        return [
            it["objectRef"]["name"]
            for it in self.audited("patch")
            if it["responseStatus"]["code"] < 300
        ]

    def pardon(self, node: str) -> None:
        """Has refusals about this node not count against the guard."""
        self._pardoned.add(node)

    def refused(self) -> list[str]:
        """The nodes that it was not let write, unless a test wanted that."""
        names = [
            it["objectRef"]["name"]
            for it in self.audited("patch")
            if it["responseStatus"]["code"] == 403
        ]
        return [name for name in names if name not in self._pardoned]

    def _shipped(self) -> list[Object]:
        """Account, roles and guard, under names of this test's own."""
        text = (SHIPPED / "rbac.yaml").read_text(encoding="utf-8")
        for before, after in (
            (NAME, self.name),
            ("namespace: resettle\n", f"namespace: {self.namespace}\n"),
            ("namespace: resettle}", f"namespace: {self.namespace}}}"),
            ("serviceaccount:resettle:", f"serviceaccount:{self.namespace}:"),
        ):
            text = text.replace(before, after)
        return list(yaml.safe_load_all(text))

    def _home(self, it: Object) -> str:
        """Where objects of this kind are made."""
        kind, api = it["kind"], it["apiVersion"]
        plural = f"{kind.lower()}s"
        if kind == "ValidatingAdmissionPolicy":
            plural = "validatingadmissionpolicies"
        root = "/api/v1" if api == "v1" else f"/apis/{api}"
        home = it["metadata"].get("namespace")
        return f"{root}/namespaces/{home}/{plural}" if home else f"{root}/{plural}"

    def _make(self, path: str, it: Object) -> None:
        self._api.post(path, it).granted()
        self._made.append(f"{path}/{it['metadata']['name']}")

    def _in_force(self) -> bool:
        """Whether a node could be read, and with a guard not labelled; asked, and not done."""
        names = [it["metadata"]["name"] for it in self._api.items("/api/v1/nodes")]
        with self.api() as mine:
            if not names or not mine.get(f"/api/v1/nodes/{names[0]}").fine:
                return False
            if not self._guarded:
                return True
            label: dict[str, Any] = {"metadata": {"labels": {"by": "the-tainter"}}}
            return mine.patch(f"/api/v1/nodes/{names[0]}?dryRun=All", label).status == 403
