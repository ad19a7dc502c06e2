"""`resettle run` as a process beside a test, and what the API server's audit log says of it.

A run has its own ServiceAccount, with no more permissions than it needs, so every request of that
account in the audit log was sent by this run.
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
from tests.e2e.processes.log_reader import Line, LogReader
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
READ_WORKLOADS = [
    {
        "apiGroups": ["apps"],
        "resources": ["deployments", "replicasets", "statefulsets"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["replicationcontrollers"], "verbs": ["list", "watch"]},
]
"""For policies with MigrationLimits."""
_GAVE_UP = 504
_CLASS_UNKNOWN = "no PriorityClass with name"
"""The API server answers 403 with this while it does not know a class that it just created."""
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_numbers = count(1)


class Eviction(NamedTuple):
    """An eviction that the API server granted."""

    pod: str
    uid: str


class AuditedUser:
    """The requests of a user in the audit log, from now on."""

    def __init__(self, plane: Access, user: str) -> None:
        self.plane, self.user = plane, user
        self._log = AuditLog.from_now_on(plane.audit_log)

    def requests(self) -> Iterator[dict[str, Any]]:
        """All requests of the user, oldest first."""
        return self._log.requests(self.user)

    def evictions(self) -> list[Eviction]:
        """The evictions that were granted, in order; dry runs are not counted."""
        return [
            Eviction(f"{reference['namespace']}/{reference['name']}", _uid(request))
            for request in self.eviction_requests()
            if (reference := request["objectRef"]) and request["responseStatus"]["code"] < 300
        ]

    def unanswered_evictions(self) -> set[str]:
        """The uids of evictions that timed out in the API server; they may have happened."""
        requests = self.eviction_requests()
        return {
            _uid(request) for request in requests if request["responseStatus"]["code"] == _GAVE_UP
        }

    def eviction_requests(self) -> list[dict[str, Any]]:
        """All requests for evictions, granted or not."""
        return [
            request
            for request in self.requests()
            if request["objectRef"].get("subresource") == "eviction"
        ]

    def forbidden_requests(self) -> list[str]:
        """The URIs of requests that were answered 403 because something is not allowed."""
        return [
            request["requestURI"]
            for request in self.requests()
            if request["responseStatus"]["code"] == 403
            and _CLASS_UNKNOWN not in request["responseStatus"].get("message", "")
        ]


class Account(AuditedUser):
    """A ServiceAccount with the permissions of a run, deleted when the block ends."""

    def __init__(
        self, plane: Access, api: Api, folder: Path, rules: list[dict[str, Any]] | None = None
    ) -> None:
        self.name = f"resettle-{os.getpid()}-{next(_numbers)}"
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
        binding = {**meta, "subjects": [subject], "roleRef": role}
        self._api.post(f"{_RBAC}/clusterrolebindings", binding).granted()
        token_request = {"spec": {"expirationSeconds": 7200}}
        answer = self._api.post(f"{accounts}/{self.name}/token", token_request).granted()
        config = kubeconfig(self.plane.url, self.plane.papers.ca, answer["status"]["token"])
        self.kubeconfig.write_text(json.dumps(config))
        eventually("the role in force", self._is_in_force)
        return self

    def __exit__(self, *_: object) -> None:
        for kind in ("clusterrolebindings", "clusterroles"):
            self._api.delete(f"{_RBAC}/{kind}/{self.name}")
        self._api.delete(f"/api/v1/namespaces/default/serviceaccounts/{self.name}")

    def run(self, policy: Policy, *words: str) -> Run:
        """Starts `resettle run` with this policy, as this account."""
        file = self._folder / f"{self.name}.policy.json"
        file.write_text(json.dumps(policy))
        return Run(self.kubeconfig, file, *words)

    def _is_in_force(self) -> bool:
        first = self._rules[0]
        attributes = {"verb": "list", "group": "", "resource": first["resources"][0]}
        review = {"spec": {"user": self.user, "resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self._api.post(path, review).granted()["status"]["allowed"])


class Run(LogReader):
    """A process of `resettle run`, or of another command with a log like it."""

    def __init__(
        self, kubeconfig_file: Path, policy: Path, *words: str, command: str = "run"
    ) -> None:
        super().__init__()
        self.policy = policy
        flags = [
            "--kubeconfig",
            str(kubeconfig_file),
            "--policy",
            str(policy),
            "--logging-format",
            "json",
        ]
        if "--secure-port" not in words:
            flags += ["--secure-port", "0"]  # several run at the same time
        self._process = subprocess.Popen(
            [RESETTLE, command, *flags, *words],
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
        """The process id."""
        return self._process.pid

    def signal(self, sign: signal.Signals) -> None:
        """Sends the process a signal."""
        self._process.send_signal(sign)

    def cache_state(self) -> dict[str, Line]:
        """The state of the cache of the process, by kind; it logs that on SIGUSR1."""
        before = len(self.lines_of("cache state"))
        self.signal(signal.SIGUSR1)
        self.wait_for_more("in flight")
        return {line["kind"]: line for line in self.lines_of("cache state")[before:]}

    def wait_for_exit(self, timeout_seconds: float = 60) -> int:
        """Waits for the process to end and its output to be read; returns its exit code."""
        code = self._process.wait(timeout_seconds)
        self._reader.join(10)
        return code

    def stop(self) -> int:
        """Sends SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_for_exit()

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended and its output is read."""
        return not self._reader.is_alive()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.other_output.append(line.rstrip("\n"))


def _uid(request: dict[str, Any]) -> str:
    uid: str = request["requestObject"]["deleteOptions"]["preconditions"]["uid"]
    return uid


def assert_audit_agrees(api: Api, account: AuditedUser, *runs: LogReader) -> None:
    """Asserts that every granted eviction is logged, none twice, and nothing was forbidden."""
    assert_evictions_logged(account, *runs)
    forbidden = account.forbidden_requests()
    assert not forbidden, f"forbidden: {forbidden}"


def assert_evictions_logged(account: AuditedUser, *runs: LogReader) -> None:
    """Asserts that every eviction that was granted is logged by a run, and none happened twice.

    A request whose connection is cut is in the audit log as timed out, and the pod may have been
    evicted nevertheless; the run then learned of it from its watch.
    """
    granted = account.evictions()
    uids = [eviction.uid for eviction in granted]
    assert len(set(uids)) == len(uids), "a pod was evicted twice"
    logged: set[str] = set().union(*(run.evicted for run in runs))
    certain, possible = set(uids), account.unanswered_evictions()
    assert certain <= logged <= certain | possible, f"granted {len(certain)}, logged {len(logged)}"
