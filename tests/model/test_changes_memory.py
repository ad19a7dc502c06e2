"""What is freed: parts of removed pods, unused caches, earlier snapshots."""

from __future__ import annotations

import gc
import json
import weakref
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.framework import build_descheduler, default_registry, load_policy
from resettle.model import Change, Changes, Pod, Snapshot
from resettle.model.decoding.decoder import Decoder
from resettle.testing import NOW, budget, cluster, node, pod
from resettle.testing.random.clusters import cluster_of
from tests.model.test_changes import shape, taken

STRATEGIES = {
    "deschedule": ["PodLifeTime", "RemovePodsViolatingInterPodAntiAffinity"],
    "balance": ["RemoveDuplicates", "RemovePodsViolatingTopologySpreadConstraint"],
}


def policy(api_version: str) -> str:
    points = {point: {"enabled": names} for point, names in STRATEGIES.items()}
    args = {"PodLifeTime": {"maxPodLifeTimeSeconds": 3600}}
    configs = [
        {"name": name, "args": args.get(name, {})}
        for names in (*STRATEGIES.values(), ["DefaultEvictor"])
        for name in names
    ]
    profile = {"name": "p", "pluginConfig": configs, "plugins": points}
    return json.dumps(
        {"apiVersion": api_version, "kind": "DeschedulerPolicy", "profiles": [profile]}
    )


# -- snapshots -------------------------------------------------------------------------------------


@pytest.mark.parametrize("api_version", ["descheduler/v1alpha2", "resettle/v1"])
def test_a_snapshot_is_freed_with_its_last_reference(api_version: str) -> None:
    plugins = default_registry()
    planner = build_descheduler(
        load_policy(policy(api_version), name="p", plugins=plugins), plugins
    )
    world = cluster_of(Random(3), nodes=6, pods=range(60), budgets=3)
    snapshot = taken(world.objects, Decoder(), 0)
    gc.collect()
    gc.disable()
    try:
        plan = planner.draw_plan(snapshot)
        parts: list[weakref.ref[Any]] = [weakref.ref(snapshot), weakref.ref(snapshot.pod_index)]
        del snapshot

        assert [part() is None for part in parts] == [True, True]
        assert plan.runs
        assert gc.collect() == 0, "nothing is left behind in circles"
    finally:
        gc.enable()


# -- what a decoder remembers ----------------------------------------------------------------------


def decoded(decoder: Decoder, *objects: Any) -> list[Pod]:
    return list(taken(list(objects), decoder, 0).pods)


def test_a_decoder_keeps_what_is_in_use_and_forgets_the_rest() -> None:
    decoder = Decoder()
    web, db = pod("a", labels={"app": "web"}), pod("b", labels={"app": "db"}, cpu="1")
    (kept,) = decoded(decoder, web)
    decoded(decoder, db)
    held = decoder.held
    decoder.keep_only([kept.template], [kept.state], [kept.node])

    assert decoder.held < held
    again = decoded(decoder, web)[0]
    assert again.template is kept.template
    assert again.state is kept.state


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 5))
def test_forgetting_in_between_never_shows(seed: int, steps: int) -> None:
    dice, decoder = Random(seed), Decoder()
    objects: dict[str, Any] = {}
    snapshot = taken([], decoder, 0)
    for step in range(steps):
        pods = range(dice.randint(0, 25))
        world = cluster_of(dice, nodes=3, pods=pods, budgets=0)
        come = {
            manifest["metadata"]["name"]: manifest
            for manifest in world.objects
            if manifest["kind"] == "Pod"
        }
        gone = {name for name in objects if dice.random() < 0.5}
        objects = {name: manifest for name, manifest in objects.items() if name not in gone} | come
        put = decoded(decoder, *come.values())
        left = [pod.key for pod in snapshot.pods if pod.name in gone | come.keys()]
        snapshot = snapshot.next(Changes(at=NOW, pods=Change(tuple(put), frozenset(left))))
        pod_index = snapshot.pod_index
        if dice.random() < 0.7:
            decoder.keep_only(pod_index.templates, pod_index.states, pod_index.node_names)

        scratch = taken(list(objects.values()), Decoder(), step)
        assert shape(snapshot)["templates"] == shape(scratch)["templates"]
        assert shape(snapshot)["states"] == shape(scratch)["states"]


# -- notes about templates -------------------------------------------------------------------------


def following(snapshot: Snapshot, *pods: Pod) -> Snapshot:
    return snapshot.next(Changes(at=NOW, pods=Change(pods)))


def test_a_template_cache_that_is_used_lasts_to_the_next_index() -> None:
    snapshot = cluster(node("n1").holding(pod("a"))).snapshot()
    (only,) = snapshot.pods
    snapshot.pod_index.template_cache("kept")[only.template] = 1
    snapshot.pod_index.template_cache("dropped")[only.template] = 2

    once = following(snapshot, only)
    assert once.pod_index.template_cache("kept") == {only.template: 1}
    twice = following(once, only)
    assert twice.pod_index.template_cache("kept") == {only.template: 1}
    assert twice.pod_index.template_cache("dropped") == {}


def test_template_caches_outlast_an_index_that_uses_none() -> None:
    snapshot = cluster(node("n1").holding(pod("a"))).snapshot()
    (only,) = snapshot.pods
    snapshot.pod_index.template_cache("kept")[only.template] = 1

    later = following(following(snapshot, only), only)

    assert later.pod_index.template_cache("kept") == {only.template: 1}


def test_budgets_of_the_past_are_not_kept_by_what_was_noted_of_them() -> None:
    snapshot = cluster(
        node("n1").holding(pod("a", labels={"app": "web"})),
        budget("b", allowed=1, labels={"app": "web"}),
    ).snapshot()
    (only,) = snapshot.pods
    (covering,) = snapshot.budgets_of(only)
    for _ in range(5):
        changes = Changes(at=NOW, pods=Change((only,)), budgets=Change((covering,)))
        snapshot = snapshot.next(changes)
        assert snapshot.budgets_of(only) == (covering,)
    everything = [item for item in gc.get_objects() if type(item) is dict]

    assert sum(value.get("default/b") is covering for value in everything) <= 2


# -- many changes at once --------------------------------------------------------------------------


def test_an_index_with_nearly_all_pods_changed_equals_a_new_one() -> None:
    decoder = Decoder()
    old = [pod(f"old{i}") for i in range(1200)]
    new = [pod(f"new{i}", labels={"app": "web"}) for i in range(1500)]
    snapshot = taken(old, decoder, 0)
    gone = frozenset(pod.key for pod in snapshot.pods[:900])
    put = tuple(taken(new, decoder, 0).pods)

    later = snapshot.next(Changes(at=NOW, pods=Change(put, gone)))

    left = [manifest for manifest in old if f"default/{manifest['metadata']['name']}" not in gone]
    assert shape(later) == shape(taken([*left, *new], decoder, 0))


@pytest.mark.parametrize(
    ("changes", "others", "history", "moving"),
    [
        pytest.param({}, {"A": (1,), "B": ()}, {("p", "q"): 1}, {"u"}, id="nothing said"),
        pytest.param(
            {"others": {"B": (2,)}}, {"A": (1,), "B": (2,)}, {("p", "q"): 1}, {"u"}, id="a kind"
        ),
        pytest.param(
            {"history": {}, "moving": frozenset()}, {"A": (1,), "B": ()}, {}, set(), id="an end"
        ),
    ],
)
def test_the_next_snapshot_keeps_what_did_not_change(
    changes: Any, others: Any, history: Any, moving: Any
) -> None:
    snapshot = Snapshot.of(
        nodes=(),
        pods=(),
        taken_at=NOW,
        others={"A": (1,), "B": ()},
        history={("p", "q"): 1},
        moving=["u"],
    )

    later = snapshot.next(Changes(at=NOW, **changes))

    assert (later.others, later.history, later.moving) == (others, history, moving)
