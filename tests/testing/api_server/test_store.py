"""The store: what tests and in-process controllers see of the server's objects."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from resettle.errors import InputError
from resettle.testing import ApiServer, ObjectChange, budget, cluster, definition, node, pod
from tests.testing.api_server.harness import DEFAULT_PODS, PODS, client_of, eviction

WORLD = cluster(node("n1").holding(pod("a", labels={"app": "web"}), pod("b", namespace="team")))
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}


def test_objects_are_got_listed_put_merged_and_deleted() -> None:
    store = ApiServer(WORLD.objects).store

    assert [obj["metadata"]["name"] for obj in store.list("Pod")] == ["a", "b"]
    assert [obj["metadata"]["name"] for obj in store.list("Pod", namespace="team")] == ["b"]
    assert [obj["metadata"]["name"] for obj in store.list("Pod", labels="app=web")] == ["a"]
    merged = store.merge("Pod", "a", {"status": {"phase": "Failed"}})
    assert merged is not None
    assert merged["status"]["phase"] == "Failed"
    assert store.get("Pod", "a") == merged
    assert store.delete("Pod", "a") is True
    assert store.delete("Pod", "a") is False
    assert store.get("Pod", "a") is None
    assert store.merge("Pod", "a", {}) is None


def test_what_comes_out_is_a_copy() -> None:
    store = ApiServer(WORLD.objects).store
    obj = store.get("Node", "n1")
    assert obj is not None

    obj["spec"]["unschedulable"] = True

    again = store.get("Node", "n1")
    assert again is not None
    assert "unschedulable" not in again["spec"]


def test_a_namespace_comes_along_with_what_is_in_it() -> None:
    store = ApiServer(WORLD.objects).store

    names = [obj["metadata"]["name"] for obj in store.list("Namespace")]

    assert {"default", "kube-system", "team"} <= set(names)


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        pytest.param(WIDGET, "put its CustomResourceDefinition first", id="an unknown kind"),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}}, "set `metadata.name`", id="no name"
        ),
    ],
)
def test_what_cannot_be_put_is_an_error_that_says_what_to_do(obj: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        ApiServer([obj])


def test_a_custom_kind_is_served_with_its_objects_in_whatever_order_they_come() -> None:
    with ApiServer([WIDGET, definition("Widget", group="example.com")]) as server:
        listed = client_of(server).get("/apis/example.com/v1/widgets")

        assert listed.names == ["w"]
        assert server.store.get("Widget", "w") == server.store.get("Widget.example.com", "w")


def test_a_custom_kind_goes_with_its_definition() -> None:
    with ApiServer([definition("Widget", group="example.com"), WIDGET]) as server:
        server.store.delete("CustomResourceDefinition", "widgets.example.com")

        assert client_of(server).get("/apis/example.com/v1/widgets").code == 404


# -- subscribers ---------------------------------------------------------------------------------


def test_a_subscriber_receives_each_change_until_it_leaves() -> None:
    store = ApiServer(WORLD.objects).store
    received: list[tuple[bool, bool]] = []
    leave = store.subscribe(
        "Pod", lambda change: received.append((change.old is None, change.new is None))
    )

    store.put(pod("c"))
    store.merge("Pod", "c", {"metadata": {"labels": {"x": "y"}}})
    store.delete("Pod", "c")
    store.put(node("n2").node)
    leave()
    store.put(pod("d"))

    assert received == [(True, False), (False, False), (False, True)]


def test_a_controller_has_had_its_say_when_the_client_has_its_answer() -> None:
    with ApiServer(WORLD.objects) as server:

        def kubelet(change: ObjectChange) -> None:
            if change.new and change.new["metadata"].get("deletionTimestamp"):
                meta = change.new["metadata"]
                server.store.delete("Pod", meta["name"], meta["namespace"])

        server.store.subscribe("Pod", kubelet)
        client = client_of(server)
        reply = client.post(f"{DEFAULT_PODS}/a/eviction", eviction("a"))

        assert reply.code == 201
        assert client.get(f"{DEFAULT_PODS}/a").code == 404


def test_subscribers_hear_of_changes_in_the_order_in_which_they_were_made() -> None:
    store = ApiServer().store
    received: list[str] = []

    def replies(change: ObjectChange) -> None:
        if change.new and change.new["metadata"]["name"] == "first":
            store.put(pod("second"))

    def listens(change: ObjectChange) -> None:
        if change.new:
            received.append(change.new["metadata"]["name"])

    store.subscribe("Pod", replies)
    store.subscribe("Pod", listens)
    store.put(pod("first"))

    assert received == ["first", "second"]


def test_many_threads_may_write_at_once() -> None:
    store = ApiServer().store

    def write(number: int) -> None:
        for i in range(50):
            store.put(pod(f"p-{number}-{i}"))

    threads = [Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    versions = [obj["metadata"]["resourceVersion"] for obj in store.list("Pod")]
    assert len(set(versions)) == 200


# -- versions that are gone ----------------------------------------------------------------------


def test_a_token_of_a_version_that_is_gone_offers_another() -> None:
    with ApiServer([pod(f"p{i}") for i in range(5)]) as server:
        client = client_of(server)
        first = client.get(PODS, limit=2)
        server.store.delete("Pod", "p3")
        server.store.compact()

        gone = client.get(PODS, limit=2, **{"continue": first.body["metadata"]["continue"]})
        rest = client.get(PODS, **{"continue": gone.body["metadata"]["continue"]})

    assert (gone.code, gone.reason) == (410, "Expired")
    assert rest.names == ["p2", "p4"]


def test_an_exact_version_that_is_compacted_is_refused() -> None:
    with ApiServer([pod("a")]) as server:
        version = server.store.version
        server.store.put(pod("b"))
        server.store.compact()
        reply = client_of(server).get(PODS, resourceVersion=version, resourceVersionMatch="Exact")

    assert (reply.code, reply.reason) == (410, "Expired")


def test_a_watch_from_a_version_that_is_compacted_gets_an_error() -> None:
    with ApiServer([pod("a")]) as server:
        server.store.compact()
        with client_of(server).watch(PODS, resourceVersion=1) as events:
            (event,) = events

    assert event.type == "ERROR"
    assert (event.object["code"], event.object["reason"]) == (410, "Expired")
    assert event.object["message"].startswith("too old resource version: 1 (")


def test_an_open_watch_misses_nothing_though_the_past_is_forgotten() -> None:
    with ApiServer([pod("a")]) as server, client_of(server).watch(PODS) as events:
        next(events)
        for i in range(20):
            server.store.put(pod(f"later-{i}"))
            server.store.compact()

        assert [next(events).name for _ in range(20)] == [f"later-{i}" for i in range(20)]


def test_a_bookmark_comes_when_it_is_asked_for() -> None:
    with ApiServer([pod("a")]) as server:
        with client_of(server).watch(PODS, allowWatchBookmarks="true") as events:
            next(events)
            server.store.put(node("n1").node)
            server.store.bookmark()
            event = next(events)

        assert event.type == "BOOKMARK"
        assert event.object["metadata"]["resourceVersion"] == str(server.store.version)


def test_what_a_refused_request_changed_is_delivered_all_the_same() -> None:
    """A budget is debited by an eviction that then turns out to mean another pod."""
    labels = {"app": "web"}
    world = cluster(
        node("n1").holding(pod("a", labels=labels)), budget("web", allowed=2, labels=labels)
    )
    received: list[int] = []
    with ApiServer(world.objects) as server:

        def listens(change: ObjectChange) -> None:
            if change.new:
                received.append(change.new["status"]["disruptionsAllowed"])

        server.store.subscribe("PodDisruptionBudget", listens)
        body = eviction("a") | {"deleteOptions": {"preconditions": {"uid": "another"}}}
        reply = client_of(server).post(f"{DEFAULT_PODS}/a/eviction", body)

    assert reply.code == 409
    assert received == [1]
