"""`resettle run` as a process beside a test, and what the API server's audit log says of it.

A run has a ServiceAccount of its own, with no more rights than a run needs, so whatever the audit
log holds of that account is this run's doing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tests.e2e.cluster.workspace import eventually
from tests.e2e.processes.command import RESETTLE
from tests.e2e.processes.log_reader import Diary
from tools.control_plane.api import Api
from tools.control_plane.audit_log import AuditLog
from tools.control_plane.papers import kubeconfig
from tools.control_plane.plane import Access

Policy = dict[str, Any]
READ = {
    "": ["nodes", "pods", "namespaces", "persistentvolumeclaims", "persistentvolumes"],
    "policy": ["poddisruptionbudgets"],
    "storage.k8s.io": ["csinodes"],
    "scheduling.k8s.io": ["priorityclasses"],
}
RULES = [
    *(
        {"apiGroups": [group], "resources": names, "verbs": ["list", "watch"]}
        for group, names in READ.items()
    ),
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["create", "get", "update"],
    },
]
_GAVE_UP = 504
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_accounts = count(1)


class Evicted(NamedTuple):
    """An eviction that the API server granted."""

    pod: str
    uid: str


class Noted:
    """What the API server notes of a user from now on."""

    def __init__(self, plane: Access, user: str) -> None:
        self.plane, self.user = plane, user
        self._log = AuditLog.from_now_on(plane.audit_log)

    def audited(self) -> Iterator[dict[str, Any]]:
        """Everything, oldest first."""
        return self._log.requests(self.user)

    def evictions(self) -> list[Evicted]:
        """The evictions that it was granted, in order; a dry run is none."""
        return [
            Evicted(f"{at['namespace']}/{at['name']}", _uid(noted))
            for noted in self.asked_to_evict()
            if (at := noted["objectRef"]) and noted["responseStatus"]["code"] < 300
        ]

    def in_doubt(self) -> set[str]:
        """The uids of evictions that the API server itself gave up midway, perhaps too late."""
        asked = self.asked_to_evict()
        return {_uid(it) for it in asked if it["responseStatus"]["code"] == _GAVE_UP}

    def asked_to_evict(self) -> list[dict[str, Any]]:
        """Its requests for evictions, however they ended."""
        return [it for it in self.audited() if it["objectRef"].get("subresource") == "eviction"]

    def forbidden(self) -> list[str]:
        """What it asked for and had no right to."""
        return [it["requestURI"] for it in self.audited() if it["responseStatus"]["code"] == 403]


class Account(Noted):
    """A ServiceAccount that may do what a run does, while its block lasts."""

    def __init__(
        self, plane: Access, api: Api, folder: Path, rules: list[dict[str, Any]] | None = None
    ) -> None:
        self.name = f"resettle-{os.getpid()}-{next(_accounts)}"
        super().__init__(plane, f"system:serviceaccount:default:{self.name}")
        self._api, self._folder = api, folder
        self._rules = RULES if rules is None else rules
        self.kubeconfig = folder / f"{self.name}.kubeconfig"

    def __enter__(self) -> Account:
        meta = {"metadata": {"name": self.name}}
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        self._api.post(accounts, meta).granted()
        self._api.post(f"{_RBAC}/clusterroles", {**meta, "rules": self._rules}).granted()
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.name}
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": "default"}
        bound = {**meta, "subjects": [subject], "roleRef": role}
        self._api.post(f"{_RBAC}/clusterrolebindings", bound).granted()
        wanted = {"spec": {"expirationSeconds": 7200}}
        given = self._api.post(f"{accounts}/{self.name}/token", wanted).granted()
        way_in = kubeconfig(self.plane.url, self.plane.papers.ca, given["status"]["token"])
        self.kubeconfig.write_text(json.dumps(way_in))
        eventually("the role in force", self._in_force)
        return self

    def __exit__(self, *_: object) -> None:
        for kind in ("clusterrolebindings", "clusterroles"):
            self._api.delete(f"{_RBAC}/{kind}/{self.name}")
        self._api.delete(f"/api/v1/namespaces/default/serviceaccounts/{self.name}")

    def run(self, policy: Policy, *words: str) -> Run:
        """`resettle run` with this policy, as this account."""
        file = self._folder / f"{self.name}.policy.json"
        file.write_text(json.dumps(policy))
        return Run(self.kubeconfig, file, *words)

    def _in_force(self) -> bool:
        first = self._rules[0]
        what = {"verb": "list", "group": "", "resource": first["resources"][0]}
        review = {"spec": {"user": self.user, "resourceAttributes": what}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self._api.post(path, review).granted()["status"]["allowed"])


class Run(Diary):
    """A running `resettle run`, or another command like it; its log is read as it comes."""

    def __init__(self, way_in: Path, policy: Path, *words: str, command: str = "run") -> None:
        super().__init__()
        self.policy = policy
        given = ["--kubeconfig", str(way_in), "--policy", str(policy), "--logging-format", "json"]
        if "--secure-port" not in words:
            given += ["--secure-port", "0"]  # several run at once
        self._process = subprocess.Popen(
            [RESETTLE, command, *given, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
        self._reader.join(10)
        if self._process.stderr is not None:
            self._process.stderr.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def signal(self, sign: signal.Signals) -> None:
        """Sends it a signal."""
        self._process.send_signal(sign)

    def ended(self, within: float = 60) -> int:
        """Its exit code, once it has ended by itself and everything it said is read."""
        code = self._process.wait(within)
        self._reader.join(10)
        return code

    def stop(self) -> int:
        """Asks it to stop, and gives its exit code."""
        self.signal(signal.SIGTERM)
        return self.ended()

    @property
    def over(self) -> bool:
        """Whether it has ended, and all it said is read."""
        return not self._reader.is_alive()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.other.append(line.rstrip("\n"))


def _uid(noted: dict[str, Any]) -> str:
    asked: str = noted["requestObject"]["deleteOptions"]["preconditions"]["uid"]
    return asked


def settled(api: Api, account: Noted, *runs: Diary) -> None:
    """Holds what must hold after any run: `accounted_for`, and nothing was forbidden."""
    accounted_for(account, *runs)
    assert account.forbidden() == []


def accounted_for(account: Noted, *runs: Diary) -> None:
    """Holds that all that was granted is told of, and nothing twice.

    A request whose connection is cut ends in the log as one that was given up, and the pod may
    have been evicted nevertheless; then the run learned of it by watching.
    """
    granted = account.evictions()
    uids = [it.uid for it in granted]
    assert len(set(uids)) == len(uids), "a pod was evicted twice"
    told: set[str] = set().union(*(run.evicted for run in runs))
    sure, perhaps = set(uids), account.in_doubt()
    assert sure <= told <= sure | perhaps, f"granted {len(sure)}, told {len(told)}"
