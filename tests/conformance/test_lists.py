"""Lists: whole, in pages, narrowed, and as of a version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.harness import CORE, Place, config_map

from .client import Client, Reply

MANY = [f"item-{i}" for i in range(7)]


def filled(place: Place) -> None:
    for name in MANY:
        number = int(name[-1])
        labels = {"parity": "odd" if number % 2 else "even", "number": str(number)}
        made = place.client.post(place.config_maps, config_map(name, labels=labels))
        assert made.code == 201


def pages(client: Client, path: str, **query: Any) -> Iterator[Reply]:
    reply = client.get(path, **query)
    yield reply
    while token := reply.body["metadata"].get("continue"):
        query = {key: query[key] for key in query if key != "resourceVersion"}
        reply = client.get(path, **{**query, "continue": token})
        yield reply


# -- what a list looks like ----------------------------------------------------------------------


def test_a_list_has_a_kind_and_a_version_and_its_items_have_no_kind(place: Place) -> None:
    filled(place)

    body = place.client.get(place.config_maps, labelSelector="number").body

    assert (body["kind"], body["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(body["metadata"]["resourceVersion"]) > 0
    assert not any("kind" in item or "apiVersion" in item for item in body["items"])
    assert [item["metadata"]["name"] for item in body["items"]] == MANY


def test_a_list_across_namespaces_has_what_each_has(place: Place) -> None:
    node = place.node()
    place.running("a", node)

    reply = place.client.get(f"{CORE}/pods", fieldSelector=f"spec.nodeName={node}")

    assert [
        (item["metadata"]["namespace"], item["metadata"]["name"]) for item in reply.body["items"]
    ] == [(place.mark, "a")]


def test_an_empty_list_has_items_all_the_same(place: Place) -> None:
    assert place.client.get(place.pods).body["items"] == []


# -- selectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("parity=odd", "135", id="equal"),
        pytest.param("parity==odd", "135", id="equal, written twice"),
        pytest.param("parity!=odd,parity", "0246", id="not equal"),
        pytest.param("number in (1,4)", "14", id="one of"),
        pytest.param("parity,number notin (1,4)", "02356", id="none of"),
        pytest.param("number", "0123456", id="has it"),
        pytest.param("!nothing,parity", "0123456", id="does not have it"),
        pytest.param("parity=even,number in (1,2,3,4)", "24", id="both"),
        pytest.param("parity=blue", "", id="nothing"),
    ],
)
def test_labels_select(place: Place, selector: str, names: str) -> None:
    filled(place)

    listed = place.client.get(place.config_maps, labelSelector=selector)

    assert "".join(name[-1] for name in listed.names) == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("metadata.name=pending", ["pending"], id="by name"),
        pytest.param("metadata.name!=pending", ["done", "here"], id="by another name"),
        pytest.param("spec.nodeName=", ["pending"], id="on no node"),
        pytest.param("spec.nodeName!=", ["done", "here"], id="on some node"),
        pytest.param("status.phase=Running", ["here"], id="by phase"),
        pytest.param(
            "status.phase!=Succeeded,status.phase!=Failed", ["here", "pending"], id="unfinished"
        ),
        pytest.param("spec.schedulerName=nobody", ["done", "here", "pending"], id="by scheduler"),
    ],
)
def test_fields_select_pods(place: Place, selector: str, names: list[str]) -> None:
    node = place.node()
    place.running("here", node)
    place.running("done", node, phase="Succeeded", ready=False)
    place.pod("pending")

    assert place.client.get(place.pods, fieldSelector=selector).names == names


def test_fields_select_nodes_that_are_cordoned(place: Place) -> None:
    place.node("open")
    place.node("shut", unschedulable=True)

    def with_cordon(value: str) -> list[str]:
        return place.client.get(
            f"{CORE}/nodes",
            fieldSelector=f"spec.unschedulable={value}",
            labelSelector=f"made-for={place.mark}",
        ).names

    assert with_cordon("true") == [f"{place.mark}-shut"]
    assert with_cordon("false") == [f"{place.mark}-open"]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param({"fieldSelector": "spec.volumes=x"}, id="a field that cannot be selected by"),
        pytest.param({"fieldSelector": "nonsense"}, id="a field selector that is none"),
        pytest.param({"labelSelector": "a in (b"}, id="a label selector that is none"),
        pytest.param({"limit": "many"}, id="a limit that is no number"),
        pytest.param({"continue": "gibberish"}, id="a token that was never given"),
    ],
)
def test_a_list_that_cannot_be_read_is_a_bad_request(place: Place, query: dict[str, str]) -> None:
    reply = place.client.get(place.pods, **query)

    assert (reply.code, reply.body["kind"]) == (400, "Status")


# -- pages ---------------------------------------------------------------------------------------


def test_pages_add_up_to_the_list(place: Place) -> None:
    filled(place)

    walk = list(pages(place.client, place.config_maps, labelSelector="number", limit=3))

    assert [page.names for page in walk] == [MANY[:3], MANY[3:6], MANY[6:]]
    assert len({page.body["metadata"]["resourceVersion"] for page in walk}) == 1


def test_pages_show_the_moment_of_the_first(place: Place) -> None:
    filled(place)
    walk = pages(place.client, place.config_maps, labelSelector="number", limit=3)
    first = next(walk)

    place.client.delete(f"{place.config_maps}/{MANY[4]}")
    late = config_map("item-5-late", labels={"number": "5"})
    assert place.client.post(place.config_maps, late).code == 201

    assert [*first.names, *(name for page in walk for name in page.names)] == MANY


def test_the_first_page_says_how_many_remain(place: Place) -> None:
    for name in ("a", "b", "c"):
        place.pod(name)

    meta = place.client.get(place.pods, limit=1).body["metadata"]

    assert meta["remainingItemCount"] == 2


def test_a_token_does_not_go_with_a_version(place: Place) -> None:
    for name in ("a", "b"):
        place.pod(name)
    meta = place.client.get(place.pods, limit=1).body["metadata"]
    query = {"limit": 1, "continue": meta["continue"], "resourceVersion": meta["resourceVersion"]}

    assert place.client.get(place.pods, **query).code == 400


# -- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param({}, ["a", "b"], id="unset is the latest"),
        pytest.param(
            {"resourceVersion": "then", "resourceVersionMatch": "NotOlderThan"},
            ["a", "b"],
            id="not older than",
        ),
        pytest.param(
            {"resourceVersion": "then", "resourceVersionMatch": "Exact"}, ["a"], id="exactly then"
        ),
        pytest.param({"resourceVersion": "then", "limit": "9"}, ["a"], id="then, in pages"),
    ],
)
def test_a_list_is_as_of_the_version_asked_for(
    place: Place, query: dict[str, str], expected: list[str]
) -> None:
    place.pod("a")
    then = place.client.get(place.pods).body["metadata"]["resourceVersion"]
    place.pod("b")

    asked = {key: then if value == "then" else value for key, value in query.items()}

    assert place.client.get(place.pods, **asked).names == expected


@pytest.mark.parametrize(
    "query",
    [
        pytest.param({"resourceVersionMatch": "Exact"}, id="a match without a version"),
        pytest.param(
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"}, id="exactly version 0"
        ),
        pytest.param(
            {"resourceVersionMatch": "Roughly", "resourceVersion": "1"}, id="a match that is none"
        ),
    ],
)
def test_a_version_that_makes_no_sense_is_invalid(place: Place, query: dict[str, str]) -> None:
    reply = place.client.get(place.pods, **query)

    assert (reply.code, reply.reason) == (422, "Invalid")


def test_a_version_of_the_future_is_too_large(place: Place) -> None:
    now = int(place.client.get(place.pods).body["metadata"]["resourceVersion"])

    reply = place.client.get(
        place.pods, resourceVersion=now + 10_000_000, resourceVersionMatch="NotOlderThan"
    )

    assert (reply.code, reply.reason) == (504, "Timeout")
    assert "Too large resource version" in reply.body["message"]
