"""LowNodeUtilization: which nodes give, which could take, and where it ends."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from resettle.plugins.low_node_utilization import PLUGIN
from resettle.testing import NodeBuilder, Planned, World, cluster, node, plan, pod
from resettle.testing.builders import Object

HALF: dict[str, Any] = {
    "thresholds": {"cpu": 30, "pods": 30},
    "targetThresholds": {"cpu": 50, "pods": 50},
}
FIVE_OFF: dict[str, Any] = {
    "thresholds": {"cpu": 5, "pods": 5},
    "targetThresholds": {"cpu": 5, "pods": 5},
    "useDeviationThresholds": True,
}
CPU: dict[str, Any] = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}}


def box(name: str, *pods: Object, **marks: Any) -> NodeBuilder:
    """A node of 4 cpu, 3000 bytes and 10 pods."""
    return node(name, **{"cpu": "4", "memory": "3000", "pods": 10, **marks}).holding(*pods)


def load(prefix: str, count: int, **options: Any) -> list[Object]:
    """Pods that ask for a tenth of a node each."""
    return [pod(f"{prefix}-{i}", **{"cpu": "400m", **options}) for i in range(count)]


def three_kept() -> list[Object]:
    """Pods that no guard lets go."""
    return [
        *load("daemon", 1, owner="DaemonSet/agent"),
        *load("local", 1, volumes=[{"name": "v", "emptyDir": {}}]),
        *load("system", 1, priority=2_000_000_000),
    ]


def leaving(planned: Planned) -> dict[str, int]:
    """How many pods leave each node."""
    return dict(Counter(move.pod.node for move in planned.plan.moves))


def full_and_empty(*, pods: int = 9, filler: str | None = None, **options: Any) -> World:
    """n1 holds eight pods, five of which could go; n2 holds one; n3 is empty and cordoned."""
    fill = {"memory": filler} if filler else {}
    more = {**options, **fill}
    return cluster(
        box("n1", *load("a", 1, **more), *load("b", 4, **options), *three_kept(), pods=pods),
        box("n2", *load("c", 1, **more)),
        box("n3", cordoned=True),
    )


@pytest.mark.parametrize(
    ("world", "args", "evicted", "stopped"),
    [
        pytest.param(full_and_empty(), HALF, 4, ["no-room"], id="n2 has room for four"),
        pytest.param(
            full_and_empty(), {**HALF, "evictionLimits": {"node": 2}}, 2, [], id="its own limit"
        ),
        pytest.param(
            full_and_empty(), FIVE_OFF, 2, ["no-room"], id="deviation leaves room for two"
        ),
        pytest.param(
            full_and_empty(pods=10, filler="3000"), FIVE_OFF, 0, ["no-room"], id="memory is full"
        ),
    ],
)
def test_pods_move_while_the_nodes_with_room_have_it(
    world: World, args: dict[str, Any], evicted: int, stopped: list[str]
) -> None:
    planned = plan(PLUGIN, world, **args)

    assert leaving(planned) == ({"n1": evicted} if evicted else {})
    assert planned.stopped == stopped


@pytest.mark.parametrize(
    ("nodes", "args", "stopped"),
    [
        pytest.param(
            [box("a", *load("a", 4)), box("b", *load("b", 4))],
            {},
            "none-underutilized",
            id="none under",
        ),
        pytest.param(
            [box("a", *load("a", 9)), box("b", cordoned=True)],
            {},
            "none-underutilized",
            id="a cordoned node takes nothing",
        ),
        pytest.param(
            [box("a", *load("a", 9)), box("b")],
            {"numberOfNodes": 1},
            "too-few-underutilized",
            id="no more of them than asked for",
        ),
        pytest.param([box("a"), box("b")], {}, "all-underutilized", id="all under"),
        pytest.param(
            [box("a", *load("a", 5)), box("b")], {}, "none-overutilized", id="exactly at the target"
        ),
        pytest.param(
            [box("a", *load("a", 9)), box("b", *load("b", 4)), box("c", *load("c", 3, cpu="401m"))],
            {},
            "none-underutilized",
            id="just above the threshold is not under",
        ),
        pytest.param(
            [box("a", *load("a", 9)), box("b", memory="0")],
            {},
            "no-room",
            id="no memory to take any",
        ),
        pytest.param(
            [box("a", *load("a", 9)), box("b", pods=0)], {}, "no-room", id="no place for a pod"
        ),
    ],
)
def test_where_nothing_helps_it_stops_and_says_why(
    nodes: list[NodeBuilder], args: dict[str, Any], stopped: str
) -> None:
    planned = plan(PLUGIN, cluster(*nodes), **CPU, **args)

    assert planned.evicts == []
    assert planned.stopped == [stopped]


@pytest.mark.parametrize(
    ("nodes", "leave"),
    [
        pytest.param([box("a", *load("a", 6)), box("b")], {"a": 1}, id="down to the target"),
        pytest.param(
            [box("a", *load("a", 9)), box("b", *load("b", 3))],
            {"a": 2},
            id="exactly at the threshold is under, with room up to the target",
        ),
        pytest.param(
            [box("a", *load("a", 9), cordoned=True), box("b")],
            {"a": 4},
            id="a cordoned node may be over",
        ),
        pytest.param(
            [box("a", *load("a", 6)), box("b", *load("b", 7)), box("c")],
            {"a": 1, "b": 2},
            id="every node that is over gives",
        ),
        pytest.param(
            [box("a", *load("a", 6)), box("b", *load("b", 9)), box("c", *load("c", 1))],
            {"b": 4},
            id="the fullest gives first",
        ),
        pytest.param(
            [box("a", *load("a", 4)), box("b", *load("b", 6)), box("c")],
            {"b": 1},
            id="one in between neither gives nor takes",
        ),
        pytest.param(
            [box("a", *load("a", 9)), box("b", *load("b", 3)), box("c", *load("c", 3))],
            {"a": 4},
            id="the room of all that are under is one",
        ),
    ],
)
def test_pods_move_from_over_to_under(nodes: list[NodeBuilder], leave: dict[str, int]) -> None:
    assert leaving(plan(PLUGIN, cluster(*nodes), **CPU)) == leave


def test_a_number_of_nodes_is_met_by_more_than_that_many() -> None:
    world = cluster(box("a", *load("a", 6)), box("b"), box("c"))

    assert leaving(plan(PLUGIN, world, **CPU, numberOfNodes=1)) == {"a": 1}


def test_finished_pods_use_nothing_and_terminating_ones_do() -> None:
    world = cluster(
        box("a", *load("a", 4), *load("t", 2, terminating=True), *load("f", 3, phase="Failed")),
        box("b"),
    )
    planned = plan(PLUGIN, world, **CPU)

    assert len(planned.evicts) == 1
    assert planned.evicts[0].startswith("a-")


@pytest.mark.parametrize(
    ("pods", "goes"),
    [
        pytest.param(
            [*load("high", 3, priority=10), *load("low", 3, priority=1)], {"low"}, id="low priority"
        ),
        pytest.param(
            [*load("zero", 5, priority=-7), *load("none", 1, priority=None)],
            {"none"},
            id="no priority",
        ),
        pytest.param(
            [*load("burst", 5), *load("best", 1, cpu="0"), *load("more", 1, cpu="600m")],
            {"best"},
            id="best effort before burstable",
        ),
        pytest.param(
            [
                *load(
                    "stay",
                    4,
                    annotations={"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""},
                ),
                *load("go", 2),
            ],
            {"go"},
            id="those who would rather stay come last",
        ),
    ],
)
def test_the_least_important_go_first(pods: list[Object], goes: set[str]) -> None:
    evicts = plan(PLUGIN, cluster(box("a", *pods), box("b")), **CPU).evicts

    assert {name.rpartition("-")[0] for name in evicts[:1]} == goes


@pytest.mark.parametrize(
    ("target", "options", "evicted"),
    [
        pytest.param(
            {"labels": {"pool": "blue"}}, {"node_selector": {"pool": "blue"}}, 1, id="match"
        ),
        pytest.param({}, {"node_selector": {"pool": "blue"}}, 0, id="selector of no other node"),
        pytest.param({"cpu": "300m"}, {}, 0, id="too small a node"),
    ],
)
def test_with_node_fit_only_pods_that_fit_elsewhere_go(
    target: dict[str, Any], options: dict[str, Any], evicted: int
) -> None:
    world = cluster(box("a", *load("a", 6, **options)), box("b", **target))
    planned = plan(PLUGIN, world, evictor={"nodeFit": True}, **CPU)

    assert len(planned.evicts) == evicted
    assert set(planned.refused) == (set() if evicted else {"no-node-fits"})
