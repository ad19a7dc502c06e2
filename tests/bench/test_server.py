"""The benchmark's API server answers what deschedulers ask, over a real socket."""

from __future__ import annotations

import http.client
import json
import select
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bench.generate import LISTS, Generator, Shape
from bench.server import PATHS, Cluster, Server
from resettle.dumps.collection import list_cluster
from resettle.kube.auth.kubeconfig import Access
from resettle.testing import NOW

SHAPE = Shape(nodes=10, pods_per_node=12, pods_per_template=1, budgets=1.0)
LAST = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(Cluster(Generator(SHAPE).lists())) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.cluster.ended.set()
        running.shutdown()
        thread.join(timeout=10)


def asked(server: Server, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    """Status and decoded body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None)
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    finally:
        connection.close()


def walked(server: Server, path: str, limit: int) -> list[Any]:
    """All items of a list, page by page."""
    items: list[Any] = []
    token = ""
    for _ in range(1000):
        _, page = asked(server, f"{path}?limit={limit}&continue={token or 0}")
        items += page["items"]
        token = page["metadata"].get("continue", "")
        if not token:
            return items
    raise AssertionError("the list has no end")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("limit", [1, 7, 120, 500], ids="pages of {}".format)
def test_a_list_in_pages_equals_the_whole_list(server: Server, path: str, limit: int) -> None:
    _, whole = asked(server, path)

    assert whole["items"]
    assert walked(server, path, limit) == whole["items"]


@pytest.mark.parametrize(("path", "kind"), PATHS.items(), ids=PATHS.values())
def test_a_list_says_what_it_is(server: Server, path: str, kind: str) -> None:
    _, whole = asked(server, path)

    assert (whole["kind"], whole["apiVersion"]) == (f"{kind}List", LISTS[kind])
    assert whole["metadata"] == {"resourceVersion": "1000"}


def test_a_page_says_how_much_is_left(server: Server) -> None:
    _, page = asked(server, "/api/v1/pods?limit=50")

    assert len(page["items"]) == 50
    assert page["metadata"]["remainingItemCount"] == 70


def test_a_list_from_the_watch_cache_comes_whole_whatever_the_limit(server: Server) -> None:
    _, page = asked(server, "/api/v1/pods?limit=50&resourceVersion=0")

    assert len(page["items"]) == 120


def test_our_own_client_reads_the_whole_cluster(server: Server) -> None:
    snapshot = list_cluster(Access(server=server.address), frozenset(LISTS)).snapshot(NOW)

    assert (len(snapshot.node_index.nodes), len(snapshot.pods)) == (10, 120)


def test_a_streaming_list_is_declined_so_that_clients_fall_back(server: Server) -> None:
    status, body = asked(server, "/api/v1/pods?watch=true&sendInitialEvents=true")

    assert (status, body["reason"]) == (422, "Invalid")


def test_a_watch_stays_open_and_sends_bookmarks(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.server.BOOKMARK_SECONDS", 0.01)
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request("GET", "/api/v1/nodes?watch=true&allowWatchBookmarks=true")
    response = connection.getresponse()
    events = [json.loads(response.readline()) for _ in range(2)]
    connection.close()

    assert [event["type"] for event in events] == ["BOOKMARK", "BOOKMARK"]
    assert events[0]["object"]["kind"] == "Node"


def test_a_watch_ends_when_its_time_is_up(server: Server) -> None:
    status, rest = asked(server, "/api/v1/nodes?watch=true&timeoutSeconds=0")

    assert (status, rest) == (200, None)


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        pytest.param("/version", {"major": "1", "minor": "36"}, id="the version"),
        pytest.param("/api", {"versions": ["v1"]}, id="versions of the core group"),
        pytest.param("/api/v1", {"groupVersion": "v1"}, id="core resources"),
        pytest.param("/apis/policy/v1", {"groupVersion": "policy/v1"}, id="policy resources"),
    ],
)
def test_discovery_has_what_client_go_asks(
    server: Server, path: str, holds: dict[str, Any]
) -> None:
    status, body = asked(server, path)

    assert status == 200
    assert body.items() >= holds.items()


def test_discovery_offers_evictions(server: Server) -> None:
    _, groups = asked(server, "/apis")
    _, core = asked(server, "/api/v1")

    preferred = {group["name"]: group["preferredVersion"] for group in groups["groups"]}
    assert preferred["policy"]["groupVersion"] == "policy/v1"
    assert {"pods/eviction": "Eviction"}.items() <= {
        resource["name"]: resource["kind"] for resource in core["resources"]
    }.items()


def test_an_eviction_is_granted_and_counted(server: Server) -> None:
    before = server.cluster.account()["evictions"]

    path = "/api/v1/namespaces/team-0001/pods/web-1/eviction"
    status, body = asked(server, path, "POST", {"kind": "Eviction"})

    assert (status, body["status"]) == (201, "Success")
    assert server.cluster.account()["evictions"] == before + 1


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/apis/events.k8s.io/v1/namespaces/default/events", id="an event"),
        pytest.param("/api/v1/namespaces/default/events", id="an event of the old kind"),
        pytest.param("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", id="a review"),
    ],
)
def test_what_deschedulers_create_besides_is_granted(server: Server, path: str) -> None:
    status, body = asked(server, path, "POST", {"kind": "Something"})

    assert (status, body["kind"]) == (201, "Something")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_is_not_served_is_not_found_and_counted(server: Server, method: str) -> None:
    status, body = asked(server, "/apis/apps/v1/deployments", method, {})

    assert (status, body["reason"]) == (404, "NotFound")
    assert "unknown /apis/apps/v1/deployments" in server.cluster.account()["requests"]


def test_one_list_can_be_held_back_until_a_client_has_caught_up(server: Server) -> None:
    asked(server, "/bench/hold", "POST", {})
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request("GET", f"{LAST}?resourceVersion=0")

    early, _, _ = select.select([connection.sock], [], [], 0.05)
    asked(server, "/bench/release", "POST", {})
    late = connection.getresponse().status
    connection.close()

    assert (early, late) == ([], 200)


def test_what_is_held_back_from_one_is_not_held_back_from_a_plain_list(server: Server) -> None:
    asked(server, "/bench/hold", "POST", {})
    status, body = asked(server, f"{LAST}?limit=500")
    asked(server, "/bench/release", "POST", {})

    assert (status, len(body["items"])) == (200, 3)


@pytest.mark.parametrize(
    ("token", "status"),
    [pytest.param("right", 200, id="the token"), pytest.param("wrong", 401, id="another")],
)
def test_a_token_is_asked_for_if_there_is_one(
    server: Server, monkeypatch: pytest.MonkeyPatch, token: str, status: int
) -> None:
    monkeypatch.setattr(server.cluster, "token", "right")
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request("GET", "/version", headers={"Authorization": f"Bearer {token}"})
    answered = connection.getresponse().status
    connection.close()

    assert answered == status
