from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from moving_day import moving_hours, replicas_sort, retired_pools

from resettle.testing import World, plan_policy
from resettle.testing.strategies import clusters, policies

WORLDS = clusters(
    node_traits={"labels": [{"pool": "green"}, {"pool": "blue"}, {}]},
    pod_traits={
        "labels": [{}, {"move-hours": "08-17"}, {"move-hours": "22-05"}, {"move-hours": "soon"}]
    },
)
POLICIES = policies(
    plugins={
        retired_pools.PLUGIN: [{"retired": ["blue"]}, {"retired": ["blue", "red"]}],
        moving_hours.PLUGIN: [{}, {"default": "08-17"}],
        replicas_sort.PLUGIN: [{}, {"enough": 2}],
    }
)
THOROUGH = settings(max_examples=100, deadline=None, derandomize=True, database=None)


@THOROUGH
@given(WORLDS, POLICIES)
def test_the_strategy_moves_pods_of_retired_pools_only(
    world: World, document: dict[str, Any]
) -> None:
    pools = {
        it["metadata"]["name"]: it["metadata"]["labels"].get("pool")
        for it in world.objects
        if it["kind"] == "Node"
    }

    planned = plan_policy(document, world)

    assert planned.errors == []
    for move in planned.plan.moves:
        if move.plugin == retired_pools.PLUGIN.name:
            assert move.reason == (
                f"{move.pod.node} belongs to the retired pool {pools[move.pod.node]}"
            )
            assert pools[move.pod.node] in ("blue", "red")


@THOROUGH
@given(WORLDS, POLICIES)
def test_no_pod_moves_at_noon_whose_label_says_otherwise(
    world: World, document: dict[str, Any]
) -> None:
    for move in plan_policy(document, world).plan.moves:
        assert move.pod.labels.get("move-hours", "08-17") == "08-17"
