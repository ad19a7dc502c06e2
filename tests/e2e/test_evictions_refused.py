"""Evictions that the API server rejects: webhooks that deny, and priority and fairness."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.old_pods import create_old_pods, old_pods_policy, uids_on_nodes
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import Account, assert_audit_agrees
from tests.e2e.servers.admission_server import AdmissionServer
from tools.control_plane.api import Api, Object

EVERY_SECOND = ("--descheduling-interval", "1s")
HOOK = "no-evictions.example.org"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SHARES = "/apis/flowcontrol.apiserver.k8s.io/v1"
NO_SUCH_POD = "no-such-pod"
"""A pod that does not exist; the answer to its eviction shows what is in force."""

Answer = Callable[[], Object]


@contextmanager
def webhook(api: Api, workspace: Workspace, folder: Path, answer: Answer) -> Iterator[None]:
    """Registers a webhook with this answer to evictions in the workspace, while the block lasts."""
    server = AdmissionServer(folder, lambda request: _denial() if _is_check(request) else answer())
    where = {"matchLabels": {"kubernetes.io/metadata.name": workspace.name}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    hook = {
        "name": HOOK,
        "clientConfig": {
            "url": server.url,
            "caBundle": base64.b64encode(server.ca_certificate).decode(),
        },
        "rules": [{**rule, "resources": ["pods/eviction"]}],
        "namespaceSelector": where,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    server.start()
    try:
        api.post(HOOKS, {"metadata": {"name": workspace.name}, "webhooks": [hook]}).granted()
        eventually("the webhook in force", lambda: HOOK in str(_answer_to_eviction(api, workspace)))
        yield
    finally:
        api.delete(f"{HOOKS}/{workspace.name}")
        server.stop()


def _is_check(request: dict[str, Any]) -> bool:
    return bool(request["name"] == NO_SUCH_POD)


def _denial() -> Object:
    return {"allowed": False}


def _answer_to_eviction(api: Api, workspace: Workspace) -> Any:
    meta = {"name": NO_SUCH_POD, "namespace": workspace.name}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    return api.post(f"{workspace.pods_path}/{NO_SUCH_POD}/eviction", eviction).body


@pytest.mark.parametrize(
    ("response", "code"),
    [
        pytest.param({"allowed": False}, 400, id="without a status"),
        pytest.param(
            {"allowed": False, "status": {"code": 403, "message": "no evictions today"}},
            403,
            id="as forbidden",
        ),
        pytest.param(
            {"allowed": False, "status": {"code": 500, "message": "no evictions today"}},
            500,
            id="as an internal error",
        ),
        pytest.param(
            {"allowed": False, "status": {"code": 429, "message": "no evictions today"}},
            429,
            id="as too many requests",
        ),
    ],
)
def test_evictions_denied_by_a_webhook_are_requested_again_in_the_next_cycle(
    response: Object, code: int, account: Account, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    all_uids = create_old_pods(workspace, 3)
    current = [response]

    with (
        webhook(api, workspace, tmp_path, lambda: current[0]),
        account.run(old_pods_policy(workspace), *EVERY_SECOND) as run,
    ):
        run.wait_for("cycle done", 2)
        assert uids_on_nodes(workspace) == all_uids
        current[0] = {"allowed": True}
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        run.wait_for("evicted", 3)
        assert run.stop() == 0, run.log_text

    refused = run.lines_of("refused by webhook")
    assert {line["uid"] for line in refused} == all_uids
    assert HOOK in refused[0]["said"]
    assert run.lines_of("answer lost") == run.lines_of("not evicted") == []
    rejected = [
        request
        for request in account.eviction_requests()
        if request["responseStatus"]["code"] == code
    ]
    assert len(rejected) == len(refused)
    # `assert_audit_agrees` would take the webhook's 403 for a missing permission.
    assert sorted(eviction.uid for eviction in account.evictions()) == sorted(run.evicted)
    assert run.evicted == all_uids


def test_pods_stay_while_a_webhook_cannot_be_reached(
    account: Account, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    all_uids = create_old_pods(workspace, 3)

    with webhook(api, workspace, tmp_path, lambda: {"no": "answer"}):
        path, broken = f"{HOOKS}/{workspace.name}", {"url": "https://127.0.0.1:1/"}
        webhook_entry = api.get(path).granted()["webhooks"][0]
        api.patch(path, {"webhooks": [{**webhook_entry, "clientConfig": broken}]}).granted()
        eventually(
            "a webhook that cannot be reached",
            lambda: "refused" in str(_answer_to_eviction(api, workspace)),
        )
        with account.run(old_pods_policy(workspace)) as run:
            assert run.wait_for_exit() == 0, run.log_text

    assert (
        {line["uid"] for line in run.lines_of("not evicted")}
        == all_uids
        == uids_on_nodes(workspace)
    )
    assert "failed calling webhook" in run.lines_of("not evicted")[0]["said"]
    assert_audit_agrees(api, account, run)
    assert run.evicted == set()


@contextmanager
def one_at_a_time(api: Api, account: Account) -> Iterator[None]:
    """Gives evictions of the account a priority level without any concurrency shares.

    The API server then executes one request at a time and rejects the others with 429.
    """
    meta = {"metadata": {"name": account.name}}
    none = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    limited = {**none, "limitResponse": {"type": "Reject"}}
    level = {**meta, "spec": {"type": "Limited", "limited": limited}}
    named = {"name": account.name, "namespace": "default"}
    subject = {"kind": "ServiceAccount", "serviceAccount": named}
    rule_of_evictions = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
    flow = {
        "priorityLevelConfiguration": {"name": account.name},
        "matchingPrecedence": 2,
        "rules": [
            {"subjects": [subject], "resourceRules": [{**rule_of_evictions, "namespaces": ["*"]}]}
        ],
    }
    path = f"{SHARES}/flowschemas/{account.name}"

    def is_in_force() -> bool:
        conditions = api.get(path).granted().get("status", {}).get("conditions", ())
        return any(
            condition["type"] == "Dangling" and condition["status"] == "False"
            for condition in conditions
        )

    api.post(f"{SHARES}/prioritylevelconfigurations", level).granted()
    try:
        api.post(f"{SHARES}/flowschemas", {**meta, "spec": flow}).granted()
        eventually("the priority level in force", is_in_force)
        yield
    finally:
        api.delete(path)
        api.delete(f"{SHARES}/prioritylevelconfigurations/{account.name}")


def test_requests_rejected_by_priority_and_fairness_are_sent_again(
    account: Account, api: Api, workspace: Workspace, tmp_path: Path
) -> None:
    all_uids = create_old_pods(workspace, 12)
    release = threading.Event()

    def answer_slowly() -> Object:
        return {"allowed": release.wait(5)}

    def rejected_requests() -> list[Object]:
        return [
            request
            for request in account.eviction_requests()
            if request["responseStatus"]["code"] == 429
        ]

    with (
        webhook(api, workspace, tmp_path, answer_slowly),
        one_at_a_time(api, account),
        account.run(
            old_pods_policy(workspace), *EVERY_SECOND, "--client-connection-qps", "-1"
        ) as run,
    ):
        eventually(
            "all other requests rejected", lambda: len(rejected_requests()) >= len(all_uids) - 1
        )
        release.set()
        eventually("no pods on nodes", lambda: not uids_on_nodes(workspace))
        assert run.stop() == 0, run.log_text

    assert_audit_agrees(api, account, run)
    assert run.evicted == all_uids
    assert run.lines_of("answer lost") == run.lines_of("refused by budget") == []
