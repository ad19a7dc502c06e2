"""A snapshot made from the last equals one made from scratch, after any run of changes."""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.cli.text.plan import plan_json
from resettle.dumps.collection import Collection
from resettle.framework import Descheduler
from resettle.model import Change, Changes, Snapshot
from resettle.model.decoding.decoder import Decoder
from resettle.testing import NOW
from resettle.testing.builders import Object
from resettle.testing.random.clusters import cluster_of
from tests.builders import Case, cases
from tests.framework.test_descheduler_properties import descheduler


def taken(objects: list[Object], decoder: Decoder, hours: int) -> Snapshot:
    """The objects as a snapshot, decoded with what earlier ones were decoded with."""
    collection = Collection(decoder=decoder)
    collection.begin_source("test")
    for item in objects:
        collection.add(item["kind"], json.dumps(item).encode(), "test")
    return collection.snapshot(NOW + timedelta(hours=hours))


def key_of(item: Object) -> str:
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]


def change(kind: str, before: list[Object], after: Any, objects: list[Object]) -> Change[Any]:
    """What differs between two lists of objects, the new ones taken from a snapshot of them."""
    old = {key_of(item): item for item in before if item["kind"] == kind}
    new = {key_of(item): item for item in objects if item["kind"] == kind}
    put = tuple(thing for thing in after if new[thing.key] != old.get(thing.key))
    return Change(put, frozenset(old.keys() - new.keys()))


def changes(before: list[Object], objects: list[Object], after: Snapshot) -> Changes:
    return Changes(
        at=after.taken_at,
        pods=change("Pod", before, after.pods, objects),
        nodes=change("Node", before, after.node_index, objects),
        namespaces=change("Namespace", before, after.namespaces.values(), objects),
        priority_classes=change("PriorityClass", before, after.priority_classes.values(), objects),
        budgets=change("PodDisruptionBudget", before, after.budgets.values(), objects),
        claims=change("PersistentVolumeClaim", before, after.claims.values(), objects),
    )


def mixed(dice: Random, old: list[Object], new: list[Object]) -> list[Object]:
    """A cluster between two others: some objects stay, some change, some come or go."""
    by_key = {(item["kind"], key_of(item)): item for item in new}
    merged: dict[tuple[str, str], Object] = {}
    for item in old:
        key = (item["kind"], key_of(item))
        if dice.random() < 0.6:
            merged[key] = item
        elif key in by_key:
            merged[key] = by_key[key]
    for key, item in by_key.items():
        if dice.random() < 0.3:
            merged.setdefault(key, item)
    return list(merged.values())


def shape(snapshot: Snapshot) -> dict[str, Any]:
    """All that the indexes answer, in terms of names."""
    pod_index = snapshot.pod_index
    return {
        "nodes": [node.name for node in snapshot.node_index],
        "pods": [pod.key for pod in snapshot.pods],
        "on": {name: [pod.uid for pod in pod_index.on(name)] for name in pod_index.node_names},
        "templates": sorted([pod.uid for pod in pods] for pods in pod_index.templates.values()),
        "states": sorted(sorted(pod.uid for pod in pods) for pods in pod_index.states.values()),
        "replicas": dict(pod_index.replicas),
        "requested": {node.name: dict(snapshot.requests_on(node)) for node in snapshot.node_index},
        "namespaces": list(snapshot.namespaces),
        "budgets": [(key, budget.disruptions_allowed) for key, budget in snapshot.budgets.items()],
        "claims": list(snapshot.claims),
    }


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(case=cases(), seed=st.integers(0, 2**32), steps=st.integers(1, 4))
def test_the_next_snapshot_equals_one_made_from_scratch(case: Case, seed: int, steps: int) -> None:
    dice, decoder = Random(seed), Decoder()
    planner: Descheduler = descheduler(case.document)
    objects = case.objects
    snapshot = taken(objects, decoder, 0)
    planner.draw_plan(snapshot)
    for step in range(1, steps + 1):
        pods = range(dice.randint(0, 30))
        other = cluster_of(dice, nodes=dice.randint(1, 7), pods=pods, budgets=3)
        later = mixed(dice, objects, other.objects)
        scratch = taken(later, decoder, step)
        before = shape(snapshot)

        following = snapshot.next(changes(objects, later, scratch))

        assert shape(following) == shape(scratch)
        assert plan_json(planner.draw_plan(following)) == plan_json(planner.draw_plan(scratch))
        assert shape(snapshot) == before, "the earlier snapshot stays as it was"
        again = snapshot.next(following.since(snapshot))
        assert shape(again) == shape(following)
        assert following.since(again) == Changes(at=following.taken_at)
        snapshot, objects = following, later


def test_what_did_not_change_is_shared() -> None:
    world = cluster_of(Random(7), nodes=5, pods=range(40), budgets=2)
    snapshot = taken(world.objects, Decoder(), 0)
    (first, *_) = snapshot.pods

    following = snapshot.next(
        Changes(at=snapshot.taken_at, pods=Change(gone=frozenset({first.key})))
    )

    assert following.node_index is snapshot.node_index
    assert len(following.pod_index) == len(snapshot.pod_index) - 1
    elsewhere = [name for name in snapshot.pod_index.node_names if name != first.node]
    assert all(following.pod_index.on(name) is snapshot.pod_index.on(name) for name in elsewhere)
