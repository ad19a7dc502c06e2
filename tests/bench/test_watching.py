"""The benchmark of the watch cache: what the server sends, and what is made of it."""

from __future__ import annotations

import json

from bench.churn import replaced
from bench.generate import Generator, shape_of
from bench.watching import measured

SHAPE = shape_of(10, 12)


def test_pods_that_go_are_followed_by_their_like_on_the_nodes_of_others() -> None:
    pods = [text.encode() for kind, text in Generator(SHAPE).lists() if kind == "Pod"][:40]

    events = [json.loads(line) for line in replaced(pods, version=2000, seed=1)]

    gone = [event["object"] for event in events if event["type"] == "DELETED"]
    come = [event["object"] for event in events if event["type"] == "ADDED"]
    assert [pod["metadata"]["uid"] for pod in gone] == [
        json.loads(pod)["metadata"]["uid"] for pod in pods
    ]
    assert not {pod["metadata"]["uid"] for pod in gone} & {pod["metadata"]["uid"] for pod in come}
    places = [sorted(pod["spec"]["nodeName"] for pod in side) for side in (gone, come)]
    assert places[0] == places[1]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert (len(set(versions)), max(versions)) == (80, versions[-1])


def test_a_small_cluster_is_watched_and_planned_for() -> None:
    text = measured(nodes=10, pods=12, percent=10)

    assert text.startswith("10 nodes, 120 pods:")
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    assert [row for row in rows if not row.startswith("-")] == [
        *("first snapshot", "a list", "the cache, until it is synced"),
        *("phase", "events", "snapshot", "plan", "together"),
    ]
