"""Evictions that the API server itself turns away: webhooks that deny, and fair shares used up."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.old_pods import crowded, left_on_nodes, too_old
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import Account, settled
from tests.e2e.servers.admission_server import Reviewer
from tools.control_plane.api import Api, Object

EVERY_SECOND = ("--descheduling-interval", "1s")
HOOK = "nobody-leaves.example.org"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SHARES = "/apis/flowcontrol.apiserver.k8s.io/v1"
NOBODY = "anybody-there"
"""A pod that there is not, by which to learn what evictions are met with."""

Answer = Callable[[], Object]


@contextmanager
def webhook(api: Api, room: Room, folder: Path, answer: Answer) -> Iterator[None]:
    """A webhook that answers so to every eviction in the room, while the block lasts."""
    reviewer = Reviewer(folder, lambda request: _denied() if _asks(request) else answer())
    where = {"matchLabels": {"kubernetes.io/metadata.name": room.name}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    hook = {
        "name": HOOK,
        "clientConfig": {
            "url": reviewer.url,
            "caBundle": base64.b64encode(reviewer.authority).decode(),
        },
        "rules": [{**rule, "resources": ["pods/eviction"]}],
        "namespaceSelector": where,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    reviewer.start()
    try:
        api.post(HOOKS, {"metadata": {"name": room.name}, "webhooks": [hook]}).granted()
        eventually("the webhook in force", lambda: HOOK in str(_met_with(api, room)))
        yield
    finally:
        api.delete(f"{HOOKS}/{room.name}")
        reviewer.stop()


def _asks(request: dict[str, Any]) -> bool:
    return bool(request["name"] == NOBODY)


def _denied() -> Object:
    return {"allowed": False}


def _met_with(api: Api, room: Room) -> Any:
    meta = {"name": NOBODY, "namespace": room.name}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    return api.post(f"{room.pods}/{NOBODY}/eviction", eviction).body


@pytest.mark.parametrize(
    ("response", "code"),
    [
        pytest.param({"allowed": False}, 400, id="without a word"),
        pytest.param(
            {"allowed": False, "status": {"code": 403, "message": "not on a Sunday"}},
            403,
            id="as forbidden",
        ),
        pytest.param(
            {"allowed": False, "status": {"code": 500, "message": "not on a Sunday"}},
            500,
            id="as if it had failed",
        ),
        pytest.param(
            {"allowed": False, "status": {"code": 429, "message": "not on a Sunday"}},
            429,
            id="as if there were too many requests",
        ),
    ],
)
def test_pods_that_a_webhook_keeps_stay_and_are_asked_again_in_the_next_cycle(
    response: Object, code: int, account: Account, api: Api, room: Room, tmp_path: Path
) -> None:
    everybody = crowded(room, 3)
    said = [response]

    with (
        webhook(api, room, tmp_path, lambda: said[0]),
        account.run(too_old(room), *EVERY_SECOND) as run,
    ):
        run.awaits("cycle done", 2)
        assert left_on_nodes(room) == everybody
        said[0] = {"allowed": True}
        eventually("an empty room", lambda: not left_on_nodes(room))
        run.awaits("evicted", 3)
        assert run.stop() == 0, run.story

    refused = run.told("refused by webhook")
    assert {it["uid"] for it in refused} == everybody
    assert HOOK in refused[0]["said"]
    assert run.told("answer lost") == run.told("not evicted") == []
    turned_away = [it for it in account.asked_to_evict() if it["responseStatus"]["code"] == code]
    assert len(turned_away) == len(refused)
    # `settled` would take the webhook's 403 for a right that is missing.
    assert sorted(it.uid for it in account.evictions()) == sorted(run.evicted)
    assert run.evicted == everybody


def test_a_webhook_that_cannot_be_reached_keeps_pods_where_they_are(
    account: Account, api: Api, room: Room, tmp_path: Path
) -> None:
    everybody = crowded(room, 3)

    with webhook(api, room, tmp_path, lambda: {"no": "answer"}):
        path, broken = f"{HOOKS}/{room.name}", {"url": "https://127.0.0.1:1/"}
        found = api.get(path).granted()["webhooks"][0]
        api.patch(path, {"webhooks": [{**found, "clientConfig": broken}]}).granted()
        eventually("it to be out of reach", lambda: "refused" in str(_met_with(api, room)))
        with account.run(too_old(room)) as run:
            assert run.ended() == 0, run.story

    assert {it["uid"] for it in run.told("not evicted")} == everybody == left_on_nodes(room)
    assert "failed calling webhook" in run.told("not evicted")[0]["said"]
    settled(api, account, run)
    assert run.evicted == set()


@contextmanager
def one_at_a_time(api: Api, account: Account) -> Iterator[None]:
    """Evictions by the account have no share of the API server's time but what nobody else has.

    One request may then run, and whoever comes meanwhile is told to come again.
    """
    meta = {"metadata": {"name": account.name}}
    none = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    limited = {**none, "limitResponse": {"type": "Reject"}}
    level = {**meta, "spec": {"type": "Limited", "limited": limited}}
    named = {"name": account.name, "namespace": "default"}
    who = {"kind": "ServiceAccount", "serviceAccount": named}
    what = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
    flow = {
        "priorityLevelConfiguration": {"name": account.name},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [who], "resourceRules": [{**what, "namespaces": ["*"]}]}],
    }
    path = f"{SHARES}/flowschemas/{account.name}"

    def in_force() -> bool:
        conditions = api.get(path).granted().get("status", {}).get("conditions", ())
        return any(it["type"] == "Dangling" and it["status"] == "False" for it in conditions)

    api.post(f"{SHARES}/prioritylevelconfigurations", level).granted()
    try:
        api.post(f"{SHARES}/flowschemas", {**meta, "spec": flow}).granted()
        eventually("the share in force", in_force)
        yield
    finally:
        api.delete(path)
        api.delete(f"{SHARES}/prioritylevelconfigurations/{account.name}")


def test_an_api_server_that_has_no_time_for_us_is_asked_again(
    account: Account, api: Api, room: Room, tmp_path: Path
) -> None:
    everybody = crowded(room, 12)
    let_go = threading.Event()

    def slowly() -> Object:
        return {"allowed": let_go.wait(5)}

    def turned_away() -> list[Object]:
        return [it for it in account.asked_to_evict() if it["responseStatus"]["code"] == 429]

    with (
        webhook(api, room, tmp_path, slowly),
        one_at_a_time(api, account),
        account.run(too_old(room), *EVERY_SECOND, "--client-connection-qps", "-1") as run,
    ):
        eventually("all others turned away", lambda: len(turned_away()) >= len(everybody) - 1)
        let_go.set()
        eventually("an empty room", lambda: not left_on_nodes(room))
        assert run.stop() == 0, run.story

    settled(api, account, run)
    assert run.evicted == everybody
    assert run.told("answer lost") == run.told("refused by budget") == []
