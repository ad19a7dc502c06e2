"""Moves whose mover holds a place: what steering makes possible, and where the place is."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.eviction.eviction_api import EvictionAPI
from resettle.framework import Plugin, Registry, default_registry
from resettle.model.migration_job import Steering
from resettle.testing import Planned, World, cluster, node, plan_policy, pod, query_answer
from tests.plugins.builders import NO_LIMITS, NO_MINIMUM

PRESSURE: dict[str, Any] = {
    "thresholds": {"MetricResource": 30},
    "targetThresholds": {"MetricResource": 50},
    "metricsUtilization": {"source": "Prometheus", "prometheus": {"query": "busy"}},
}
PROVIDERS = [{"source": "Prometheus", "prometheus": {"url": "https://prometheus.example"}}]


def registry(steering: Steering | None) -> Registry:
    mover = Plugin(
        name="Holder",
        evict=lambda args, evictor: EvictionAPI(),
        holds_place=lambda args: steering,
    )
    return default_registry().with_plugins(mover)


def planned(
    world: World, steering: Steering | None, strategy: str, point: str, args: dict[str, Any]
) -> Planned:
    profile = {
        "name": "main",
        "plugins": {point: {"enabled": [strategy]}, "evict": {"enabled": ["Holder"]}},
        "pluginConfig": [
            {"name": strategy, "args": args},
            {"name": "DefaultEvictor", "args": {**NO_MINIMUM, "nodeFit": False}},
        ],
    }
    document = {"metricsProviders": PROVIDERS, **NO_LIMITS, "profiles": [profile]}
    return plan_policy(document, world, registry=registry(steering), api_version="resettle/v1")


def hot_node() -> World:
    """A node that is busy by a measure which the scheduler does not know."""
    return cluster(
        node("n1", cpu="4").holding(pod("a", cpu="500m"), pod("b", cpu="500m")),
        node("n2", cpu="4").holding(pod("c", cpu="1500m")),
        query_answer("busy", {"n1": 0.9, "n2": 0.1}),
    )


@pytest.mark.parametrize(
    ("steering", "moves", "refused"),
    [
        pytest.param(None, 0, {"would-return"}, id="evicted without a place"),
        pytest.param(Steering.NONE, 0, {"would-return"}, id="a place, and no steering"),
        pytest.param(Steering.SOFT, 0, {"would-return"}, id="the node is avoided, if possible"),
        pytest.param(Steering.HARD, 1, set(), id="the node cannot be chosen"),
        pytest.param(Steering.GATE, 1, set(), id="only the reserved node can be chosen"),
    ],
)
def test_moves_that_the_scheduler_would_undo_are_made_where_the_mover_steers(
    steering: Steering | None, moves: int, refused: set[str]
) -> None:
    plan = planned(hot_node(), steering, "LowNodeUtilization", "balance", PRESSURE)

    assert len(plan.plan.moves) == moves
    assert set(plan.refused) == refused
    assert all(move.lands_on == "n2" and move.place_held for move in plan.plan.moves)


def three_nodes() -> World:
    """The hot node, a cool one that the scheduler likes less, and one that is no better."""
    return cluster(
        node("n1", cpu="4").holding(pod("a", cpu="500m"), pod("b", cpu="500m")),
        node("n2", cpu="4").holding(pod("c", cpu="3")),
        node("n3", cpu="4"),
        query_answer("busy", {"n1": 0.9, "n2": 0.1, "n3": 0.4}),
    )


@pytest.mark.parametrize(
    ("steering", "lands_on", "refused"),
    [
        pytest.param(None, [], {"would-stray"}, id="evicted without a place"),
        pytest.param(Steering.HARD, [], {"would-stray"}, id="kept off its node only"),
        pytest.param(Steering.GATE, ["n2"], set(), id="only the reserved node can be chosen"),
    ],
)
def test_only_a_gate_leads_the_replacement_to_a_node_that_the_scheduler_likes_less(
    steering: Steering | None, lands_on: list[str], refused: set[str]
) -> None:
    plan = planned(three_nodes(), steering, "LowNodeUtilization", "balance", PRESSURE)

    assert [move.lands_on for move in plan.plan.moves] == lands_on
    assert set(plan.refused) == refused


@pytest.mark.parametrize("steering", Steering)
def test_the_place_is_never_on_the_node_that_the_pod_leaves(steering: Steering) -> None:
    world = cluster(
        node("n1", cpu="4").holding(pod("old", age="2d", cpu="1")),
        node("n2", cpu="4").holding(pod("other", age="1h", cpu="2500m")),
    )
    plan = planned(world, steering, "PodLifeTime", "deschedule", {"maxPodLifeTimeSeconds": 86400})

    assert [(move.pod.name, move.lands_on) for move in plan.plan.moves] == [("old", "n2")]


def test_a_pod_stays_where_no_other_node_could_hold_a_place() -> None:
    world = cluster(
        node("n1", cpu="4").holding(pod("old", age="2d", cpu="2")),
        node("n2", cpu="4").holding(pod("other", age="1h", cpu="3")),
    )
    args = {"maxPodLifeTimeSeconds": 86400}

    held = planned(world, Steering.SOFT, "PodLifeTime", "deschedule", args)
    plain = planned(world, None, "PodLifeTime", "deschedule", args)

    assert (held.evicts, held.refused) == ([], {"no-place-to-hold": 1})
    assert plain.evicts == ["old"]
