"""RemoveDuplicates: how many copies of one owner may share a node, and which copies count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.plugins.remove_duplicates import PLUGIN
from resettle.testing import NodeBuilder, Planned, World, cluster, node, plan, pod
from resettle.testing.objects import Object

POOL = {"pool": "blue"}


def copies(count: int, prefix: str = "web", **wishes: Any) -> list[Object]:
    return [pod(f"{prefix}-{i}", **wishes) for i in range(count)]


def spread_as(*sizes: int, **wishes: Any) -> World:
    """Nodes n1, n2 … with so many copies of one owner each."""
    return cluster(
        *(
            node(f"n{i}").holding(*copies(size, f"web-n{i}", **wishes))
            for i, size in enumerate(sizes, 1)
        )
    )


def leaving(planned: Planned) -> dict[str, int]:
    """How many pods leave each node."""
    return dict(Counter(move.pod.node for move in planned.plan.moves))


def running(*images: str) -> dict[str, Any]:
    """A pod spec with one container for each image."""
    return {"containers": [{"name": f"c{i}", "image": it} for i, it in enumerate(images)]}


def required(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
        }
    }


def pool_is(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "pool", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("sizes", "leave"),
    [
        pytest.param([5, 3, 1], {"n1": 2}, id="a node keeps its share of three"),
        pytest.param([5, 3], {"n1": 1}, id="a node keeps its share of four"),
        pytest.param([2, 0, 0], {"n1": 1}, id="two copies on one of three nodes part"),
        pytest.param([1, 0, 0], {}, id="a single copy stays"),
        pytest.param([3, 3, 3], {}, id="evenly spread copies stay"),
        pytest.param([1, 1, 1, 0], {}, id="fewer copies than nodes, one on each"),
        pytest.param([4, 4, 0, 0], {"n1": 2, "n2": 2}, id="every crowded node gives"),
        pytest.param([4, 1], {"n1": 1}, id="the share of five on two nodes rounds up to three"),
    ],
)
def test_a_node_keeps_its_share_of_copies(sizes: list[int], leave: dict[str, int]) -> None:
    assert leaving(plan(PLUGIN, spread_as(*sizes))) == leave


def test_an_unready_node_takes_no_share() -> None:
    world = cluster(
        node("n1").holding(*copies(5, "a")),
        node("n2").holding(*copies(3, "b")),
        node("n3", ready=False).holding(pod("c")),
    )

    assert leaving(plan(PLUGIN, world)) == {"n1": 1}


@pytest.mark.parametrize(
    ("first", "second", "evicted"),
    [
        pytest.param({}, {}, 2, id="all six are of one make"),
        pytest.param({}, {"owner": "ReplicaSet/db"}, 0, id="two owners of three each"),
        pytest.param({}, {"owner": "StatefulSet/web"}, 0, id="owners of two kinds, one name"),
        pytest.param({}, {"namespace": "other"}, 0, id="two namespaces"),
        pytest.param({}, {"spec": running("app:2")}, 0, id="different images"),
        pytest.param(
            {"spec": running("a", "b")}, {"spec": running("b", "a")}, 2, id="images in any order"
        ),
        pytest.param(
            {"spec": running("a", "b")}, {"spec": running("a")}, 0, id="one container more"
        ),
        pytest.param(
            {"spec": running("a", "a")},
            {"spec": running("a")},
            0,
            id="the same image twice is not the same as once",
        ),
        pytest.param({}, {"labels": {"v": "2"}}, 2, id="labels do not matter"),
        pytest.param(
            {},
            {"spec": {"initContainers": [{"name": "i", "image": "setup"}]}},
            2,
            id="init containers do not matter",
        ),
    ],
)
def test_copies_are_pods_of_one_owner_with_the_same_images(
    first: dict[str, Any], second: dict[str, Any], evicted: int
) -> None:
    """Five on n1 and one on n2: one make gives two, two makes of 3 and 3 or less give as told."""
    world = cluster(
        node("n1").holding(*copies(2, "a", **first), *copies(3, "b", **second)[:2], pod("x", **first)),
        node("n2").holding(pod("y", **second)),
    )
    counted = plan(PLUGIN, world)

    assert len(counted.evicts) == evicted or evicted == 0
    if evicted == 0:
        assert _alike(world, counted.evicts, first, second)


def _alike(
    world: World, evicts: list[str], first: dict[str, Any], second: dict[str, Any]
) -> bool:
    return not evicts
