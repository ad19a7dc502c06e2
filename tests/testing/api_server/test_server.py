"""The test API server as a test holds it: opening, closing, tokens, certificates, bans, time."""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from resettle.dumps.collection import list_cluster
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.model.pod import CONDITIONS
from resettle.testing import (
    NOW,
    ApiServer,
    DeniedPermission,
    ManualClock,
    budget,
    cluster,
    node,
    pod,
)
from resettle.testing.api_server.storage.revisions import Storage
from resettle.testing.api_server.storage.store import Store
from tests.conformance.client import Client
from tests.testing.api_server.harness import DEFAULT_PODS, PODS, certified, client_of, eviction

WEB = {"app": "web"}
WORLD = cluster(
    node("n1").holding(pod("web-1", labels=WEB), pod("web-2", labels=WEB)),
    node("n2"),
    budget("web", allowed=1, labels=WEB),
)


# -- opening and closing -------------------------------------------------------------------------


def test_a_built_world_is_served_as_it_was_built() -> None:
    with ApiServer(WORLD.objects) as server:
        listed = client_of(server).get(PODS).body["items"]

    built = [obj for obj in WORLD.objects if obj["kind"] == "Pod"]
    for seen, made in zip(listed, built, strict=True):
        assert (seen["spec"], seen["status"]) == (made["spec"], made["status"])
        assert seen["metadata"].items() >= made["metadata"].items()


def test_resettle_sees_the_world_that_was_built(tmp_path: Path) -> None:
    with ApiServer(WORLD.objects, token="t0ken") as server:
        access = read_kubeconfig(str(server.kubeconfig(tmp_path / "config")))
        reads = frozenset({"PodDisruptionBudget", CONDITIONS})
        live = list_cluster(access, reads).snapshot(NOW)

    built = WORLD.snapshot()
    assert repr(live.pods) == repr(built.pods)
    assert repr(live.node_index.nodes) == repr(built.node_index.nodes)
    assert {asked.token for asked in server.requests} == {"t0ken"}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param(f"/k8s/c1{PODS}", 200, id="a list below it"),
        pytest.param("/k8s/c1/api/v1", 200, id="discovery too"),
        pytest.param("/k8s/c1/readyz", 200, id="and health"),
        pytest.param(PODS, 404, id="nothing outside of it"),
        pytest.param(f"/k8s/c10{PODS}", 404, id="nor beside it"),
    ],
)
def test_a_server_can_be_below_a_path(path: str, code: int) -> None:
    with ApiServer(WORLD.objects, prefix="/k8s/c1/") as server:
        reply = client_of(server).get(path)

        assert reply.code == code
        assert server.url.endswith("/k8s/c1")
        assert [request.path for request in server.requests] == [path]


@pytest.mark.parametrize(
    ("header", "code"),
    [
        pytest.param("Bearer t0ken", 200, id="a bearer of the token"),
        pytest.param("Bearer other", 401, id="of another"),
        pytest.param("t0ken", 401, id="the token without its scheme"),
        pytest.param("Basic t0ken", 401, id="another scheme"),
    ],
)
def test_a_token_counts_when_its_bearer_shows_it(header: str, code: int) -> None:
    with ApiServer(token="t0ken") as server:
        client = Client(server.url, {"Authorization": header})

        assert client.get(PODS).code == code


def test_requests_of_one_connection_have_one_client() -> None:
    with ApiServer() as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
        for _ in range(2):
            connection.request("GET", PODS)
            connection.getresponse().read()
        client_of(server).get(PODS)
        connection.close()
        first, second, third = (request.client for request in server.requests)

    assert first == second != third


def test_a_server_lives_on_a_running_loop_as_well() -> None:
    async def list_pods() -> list[str]:
        async with (
            ApiServer(WORLD.objects) as server,
            aiohttp.ClientSession(server.url) as session,
            session.get(PODS) as reply,
        ):
            body = await reply.json()
            return [obj["metadata"]["name"] for obj in body["items"]]

    assert asyncio.run(list_pods()) == ["web-1", "web-2"]


def test_a_server_ends_its_open_watches_when_it_closes() -> None:
    server = ApiServer(WORLD.objects)
    with server:
        watch = client_of(server).watch(PODS)
        events = watch.__enter__()
        first = next(events)

    assert first.type == "ADDED"
    assert server.watches == 0
    assert [event.name for event in events] == ["web-2"]
    watch.__exit__(None, None, None)


def test_two_servers_know_nothing_of_each_other() -> None:
    with ApiServer() as first, ApiServer() as other:
        first.store.put(node("n1").node)

        assert client_of(other).get("/api/v1/nodes").names == []


def test_a_watch_that_its_client_leaves_is_forgotten() -> None:
    with ApiServer(WORLD.objects) as server:
        client = client_of(server)
        with client.watch(PODS) as events:
            next(events)
        # The watch notices with its next word at the latest.
        for number in range(100):
            server.store.merge("Pod", "web-1", {"metadata": {"labels": {"n": str(number)}}})
            client.get("/version")
            if server.watches == 0:
                break

        assert server.watches == 0


def test_nothing_of_aiohttp_is_imported_before_a_server_starts() -> None:
    program = "import sys, resettle.testing as t; t.ApiServer(); print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert done.stdout.strip() == b"False"


def test_lists_of_thousands_of_pods_are_put_together_from_bytes_made_once() -> None:
    ledger = Storage(ManualClock())
    Store(ledger, [item for i in range(100) for item in _full_node(i)])
    pods = ledger.catalogue.of_kind("Pod")

    first = [entry.body for entry in ledger.entries(pods)]

    assert len(first) == 3000
    assert all(entry.body is made for entry, made in zip(ledger.entries(pods), first, strict=True))


def _full_node(number: int) -> list[dict[str, object]]:
    held = node(f"n{number}").holding(*(pod(f"web-{number}-{i}") for i in range(30)))
    return [held.node, *held.pods]


# -- who asks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        pytest.param("s3cret", 200, id="the token"),
        pytest.param("guess", 401, id="another token"),
        pytest.param("", 401, id="no token"),
    ],
)
def test_a_token_is_asked_for_where_one_is_set(shown: str, code: int) -> None:
    with ApiServer(token="s3cret") as server:
        reply = client_of(server, shown).get(PODS)

    assert reply.code == code


def test_a_certificate_is_shown_where_one_is_given(tmp_path: Path) -> None:
    tls, authority = certified(tmp_path)

    with ApiServer(WORLD.objects, tls=tls, authority=authority, token="t") as server:
        access = read_kubeconfig(str(server.kubeconfig(tmp_path / "config")))
        snapshot = list_cluster(access, frozenset()).snapshot(NOW)

    assert server.url.startswith("https://")
    assert len(snapshot.pods) == 2


@pytest.mark.parametrize(
    ("denied", "allowed"),
    [
        pytest.param(
            DeniedPermission(verb="create", resource="pods/eviction"), False, id="this very thing"
        ),
        pytest.param(
            DeniedPermission(resource="pods/eviction"), False, id="all verbs of the resource"
        ),
        pytest.param(DeniedPermission(namespace="default"), False, id="all of the namespace"),
        pytest.param(
            DeniedPermission(verb="create", resource="pods"),
            True,
            id="the pods, not their eviction",
        ),
        pytest.param(DeniedPermission(verb="delete"), True, id="another verb"),
        pytest.param(DeniedPermission(namespace="elsewhere"), True, id="another namespace"),
    ],
)
def test_a_denied_permission_is_reported_and_enforced(
    denied: DeniedPermission, allowed: bool
) -> None:
    asked = {
        "verb": "create",
        "resource": "pods",
        "subresource": "eviction",
        "namespace": "default",
    }
    with ApiServer(WORLD.objects, denied=[denied]) as server:
        client = client_of(server)
        review = client.post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": asked}},
        )
        reply = client.post(f"{DEFAULT_PODS}/web-1/eviction", eviction("web-1"))

    assert review.body["status"]["allowed"] is allowed
    assert reply.code == (201 if allowed else 403)
    assert allowed or 'cannot create resource "pods/eviction"' in reply.body["message"]


@pytest.mark.parametrize(
    ("shown", "authenticated"),
    [pytest.param("t", True, id="the token"), pytest.param("x", False, id="another")],
)
def test_a_token_is_reviewed(shown: str, authenticated: bool) -> None:
    with ApiServer(token="t") as server:
        reply = client_of(server, "t").post(
            "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": shown}}
        )

    assert reply.body["status"].get("authenticated", False) is authenticated


# -- time ----------------------------------------------------------------------------------------


def test_everything_is_stamped_with_the_time_of_the_clock() -> None:
    clock = ManualClock()
    with ApiServer(WORLD.objects, clock=clock) as server:
        client = client_of(server)
        clock.advance(timedelta(minutes=5))
        spec = {"containers": [{"name": "main", "image": "registry.example/app:1"}]}
        made = client.post(DEFAULT_PODS, {"metadata": {"name": "new"}, "spec": spec}).body
        client.post(f"{DEFAULT_PODS}/web-1/eviction", eviction("web-1"))
        leaving = client.get(f"{DEFAULT_PODS}/web-1").body
        spent = server.store.get("PodDisruptionBudget", "web")

    assert made["metadata"]["creationTimestamp"] == "2026-01-31T12:05:00Z"
    assert leaving["metadata"]["deletionTimestamp"] == "2026-01-31T12:05:30Z"
    assert spent is not None
    assert spent["status"]["disruptedPods"] == {"web-1": "2026-01-31T12:05:00Z"}


# -- only here -----------------------------------------------------------------------------------


def test_an_eviction_waits_for_a_budget_that_no_controller_has_observed() -> None:
    with ApiServer(WORLD.objects) as server:
        client = client_of(server)
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web"
        client.patch(path, {"spec": {"minAvailable": 1}})
        reply = client.post(f"{DEFAULT_PODS}/web-1/eviction", eviction("web-1"))

    assert (reply.code, reply.headers["retry-after"]) == (429, "10")
    assert reply.body["details"]["retryAfterSeconds"] == 10
    (cause,) = reply.body["details"]["causes"]
    assert cause["message"] == "The disruption budget web is still being processed by the server."


def test_usage_is_served_as_it_was_put() -> None:
    usage = {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": "n1"},
        "timestamp": "2026-01-31T12:00:00Z",
        "window": "30s",
        "usage": {"cpu": "1500m", "memory": "2Gi"},
    }
    with ApiServer([*WORLD.objects, usage]) as server:
        client = client_of(server)
        listed = client.get("/apis/metrics.k8s.io/v1beta1/nodes").body
        refused = client.delete("/apis/metrics.k8s.io/v1beta1/nodes/n1")

    assert [obj["usage"] for obj in listed["items"]] == [usage["usage"]]
    assert refused.code == 405


def test_a_namespace_takes_all_that_is_in_it_along() -> None:
    with ApiServer([pod("a", namespace="team"), pod("b")]) as server:
        client = client_of(server)
        reply = client.delete("/api/v1/namespaces/team")

        assert reply.body["status"] == {"phase": "Terminating"}
        assert client.get("/api/v1/namespaces/team").code == 404
        assert client.get(PODS).names == ["b"]


def test_a_new_object_may_be_written_as_yaml() -> None:
    with ApiServer() as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
        body = "metadata: {name: team, labels: {tier: gold}}"
        connection.request("POST", "/api/v1/namespaces", body, {"Content-Type": "application/yaml"})
        answer = connection.getresponse()
        answer.read()
        connection.close()

        assert answer.status == 201
        assert client_of(server).get("/api/v1/namespaces", labelSelector="tier=gold").names == [
            "team"
        ]


def test_a_body_in_a_format_that_is_not_read_is_refused() -> None:
    with ApiServer() as server:
        reply = client_of(server).call("POST", "/api/v1/namespaces", {}, "application/cbor")

    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")


def test_requests_can_be_looked_back_on() -> None:
    with ApiServer(WORLD.objects) as server:
        client = client_of(server)
        client.get(PODS, limit=1)
        client.delete(f"{DEFAULT_PODS}/web-1")

        assert [(request.verb, request.path, request.query) for request in server.requests] == [
            ("list", PODS, {"limit": "1"}),
            ("delete", f"{DEFAULT_PODS}/web-1", {}),
        ]
