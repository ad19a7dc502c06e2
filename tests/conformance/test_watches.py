"""Watches: what they begin with, what they tell, how they end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.conformance.harness import Place, config_map

from .client import Event

OURS = "watched"


def next_events(events: Iterator[Event], count: int) -> list[tuple[str, str]]:
    """The next events, as type and name; bookmarks come when they like and are left out."""
    seen: list[tuple[str, str]] = []
    while len(seen) < count:
        event = next(events)
        if event.type != "BOOKMARK":
            seen.append((event.type, event.name))
    return seen


def make(place: Place, name: str, **data: str) -> None:
    reply = place.client.post(place.config_maps, config_map(name, labels={OURS: "yes"}, **data))
    assert reply.code == 201


@pytest.mark.parametrize("version", [None, "0"])
def test_a_watch_from_nowhere_begins_with_what_is_there(place: Place, version: str | None) -> None:
    make(place, "a")
    make(place, "b")
    # Version 0 may be answered from a cache that has not seen the last change yet.
    place.client.get(place.config_maps)

    with place.client.watch(
        place.config_maps, labelSelector=OURS, resourceVersion=version
    ) as events:
        first = next_events(events, 2)
        make(place, "c")

        assert sorted(first) == [("ADDED", "a"), ("ADDED", "b")]
        assert next_events(events, 1) == [("ADDED", "c")]


def test_a_watch_from_a_version_sends_later_events(place: Place) -> None:
    make(place, "a")
    version = place.client.get(place.config_maps).body["metadata"]["resourceVersion"]
    make(place, "b")
    place.client.patch(f"{place.config_maps}/a", {"data": {"colour": "red"}})

    with place.client.watch(
        place.config_maps, labelSelector=OURS, resourceVersion=version
    ) as events:
        place.client.delete(f"{place.config_maps}/b")

        assert next_events(events, 3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_the_versions_of_events_only_rise(place: Place) -> None:
    make(place, "a")
    version = place.client.get(place.config_maps).body["metadata"]["resourceVersion"]

    with place.client.watch(
        place.config_maps, labelSelector=OURS, resourceVersion=version
    ) as events:
        place.client.patch(f"{place.config_maps}/a", {"data": {"colour": "red"}})
        place.client.delete(f"{place.config_maps}/a")
        pair = [next(events) for _ in range(2)]

    versions = [int(event.object["metadata"]["resourceVersion"]) for event in pair]
    assert int(version) < versions[0] < versions[1]


def test_what_no_longer_matches_arrives_as_deleted(place: Place) -> None:
    make(place, "a", colour="blue")
    version = place.client.get(place.config_maps).body["metadata"]["resourceVersion"]

    with place.client.watch(
        place.config_maps, labelSelector=f"{OURS}=yes", resourceVersion=version
    ) as events:
        for value in ("no", "yes"):
            patch = {"metadata": {"labels": {OURS: value}}}
            place.client.patch(f"{place.config_maps}/a", patch)

        gone, back = next(events), next(events)

    assert [(event.type, event.name) for event in (gone, back)] == [
        ("DELETED", "a"),
        ("ADDED", "a"),
    ]
    assert gone.object["metadata"]["labels"] == {OURS: "yes"}
    assert int(gone.object["metadata"]["resourceVersion"]) > int(version)


def test_a_field_selector_limits_the_events_of_a_watch(place: Place) -> None:
    node = place.node()
    version = place.client.get(place.pods).body["metadata"]["resourceVersion"]

    with place.client.watch(
        place.pods, fieldSelector=f"spec.nodeName={node}", resourceVersion=version
    ) as events:
        place.pod("elsewhere")
        place.pod("here")
        place.bind("here", node)

        assert next_events(events, 1) == [("ADDED", "here")]


def test_one_object_can_be_watched_by_its_name(place: Place) -> None:
    make(place, "a")
    make(place, "b")

    with place.client.watch(place.config_maps, fieldSelector="metadata.name=b") as events:
        place.client.delete(f"{place.config_maps}/a")
        place.client.delete(f"{place.config_maps}/b")

        assert next_events(events, 2) == [("ADDED", "b"), ("DELETED", "b")]


def test_a_watch_of_all_namespaces_has_events_of_each(place: Place) -> None:
    make(place, "a")

    with place.client.watch("/api/v1/configmaps", labelSelector=OURS) as events:
        first = next(
            event for event in events if event.object["metadata"].get("namespace") == place.mark
        )

    assert (first.type, first.name) == ("ADDED", "a")


def test_a_streaming_list_ends_with_a_bookmark_that_says_so(place: Place) -> None:
    make(place, "a")
    make(place, "b")

    with place.client.watch(
        place.config_maps,
        labelSelector=OURS,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    ) as events:
        initial = list(islice(events, 3))
        make(place, "c")

        *first, end = initial
        assert sorted((event.type, event.name) for event in first) == [
            ("ADDED", "a"),
            ("ADDED", "b"),
        ]
        assert end.type == "BOOKMARK"
        assert end.object["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(end.object["metadata"]["resourceVersion"]) > 0
        assert next_events(events, 1) == [("ADDED", "c")]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param({"sendInitialEvents": "true"}, id="a streaming list without a match"),
        pytest.param(
            {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
            id="a streaming list of an exact version",
        ),
        pytest.param(
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
            id="a match without a streaming list",
        ),
    ],
)
def test_a_watch_that_makes_no_sense_is_invalid(place: Place, query: dict[str, str]) -> None:
    reply = place.client.get(place.pods, watch="true", **query)

    assert (reply.code, reply.reason) == (422, "Invalid")


def test_a_watch_ends_when_its_time_is_over(place: Place) -> None:
    make(place, "a")

    with place.client.watch(place.config_maps, labelSelector=OURS, timeoutSeconds=1) as events:
        received = [event for event in events if event.type != "BOOKMARK"]

    assert [(event.type, event.name) for event in received] == [("ADDED", "a")]
