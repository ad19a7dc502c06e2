"""Binding pods to nodes."""

from __future__ import annotations

from tests.conformance.harness import Place


def test_a_binding_gives_a_pod_its_node(place: Place) -> None:
    node = place.node()
    place.pod("a")

    reply = place.bind("a", node)

    assert (reply.code, reply.body["status"]) == (201, "Success")
    pod = place.client.get(f"{place.pods}/a").body
    assert pod["spec"]["nodeName"] == node
    assert {
        condition["type"]: condition["status"] for condition in pod["status"]["conditions"]
    } == {"PodScheduled": "True"}


def test_a_pod_is_bound_once(place: Place) -> None:
    node = place.node()
    place.pod("a")
    place.bind("a", node)

    reply = place.bind("a", node)

    assert (reply.code, reply.reason) == (409, "Conflict")
    assert f'pod a is already assigned to node "{node}"' in reply.body["message"]


def test_a_pod_that_is_leaving_is_not_bound(place: Place) -> None:
    place.pod("a", finalizers=["example.com/wait"])
    place.client.delete(f"{place.pods}/a")

    reply = place.bind("a", place.node())

    assert (reply.code, reply.reason) == (409, "Conflict")
    assert "is being deleted, cannot be assigned to a host" in reply.body["message"]


def test_a_binding_needs_a_pod(place: Place) -> None:
    assert place.bind("gone", place.node()).code == 404
