"""HighNodeUtilization: which nodes are emptied, which pods leave them, and where it ends."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.plugins.high_node_utilization import PLUGIN
from resettle.testing import NodeBuilder, Planned, cluster, node, plan, pod
from resettle.testing.builders import Object

LOW: dict[str, Any] = {"thresholds": {"cpu": 30, "pods": 30}}
CPU: dict[str, Any] = {"thresholds": {"cpu": 30}}
GPU = "vendor.example/gpu"
CRITICAL = 2_000_000_000


def box(name: str, *pods: Object, **marks: Any) -> NodeBuilder:
    """A node of 4 cpu, 3000 bytes and 10 pods."""
    return node(name, **{"cpu": "4", "memory": "3000", "pods": 10, **marks}).holding(*pods)


def load(prefix: str, count: int, **options: Any) -> list[Object]:
    """Pods that ask for a tenth of a node's cpu each."""
    return [pod(f"{prefix}-{i}", **{"cpu": "400m", **options}) for i in range(count)]


def leaving(planned: Planned) -> dict[str, int]:
    """How many pods leave each node."""
    return dict(Counter(move.pod.node for move in planned.plan.moves))


def test_nodes_below_all_thresholds_are_emptied_the_cordoned_too() -> None:
    world = cluster(
        box("n1", *load("a", 1), *load("system", 1, priority=CRITICAL)),
        box("n2", *load("b", 4)),
        box("n3", *load("c", 1), cordoned=True),
    )
    planned = plan(PLUGIN, world, **LOW)

    assert planned.evicts == ["c-0", "a-0"]
    assert planned.refused == {"system-critical": 1}
    assert planned.stopped == []


@pytest.mark.parametrize(
    ("nodes", "args", "stopped"),
    [
        pytest.param(
            [box("a", *load("a", 4)), box("b", *load("b", 4))],
            {},
            "none-underutilized",
            id="none below",
        ),
        pytest.param(
            [box("a", *load("a", 1)), box("b", *load("b", 4))],
            {"numberOfNodes": 1},
            "too-few-underutilized",
            id="no more than asked for",
        ),
        pytest.param(
            [box("a", *load("a", 1)), box("b", *load("b", 3))],
            {},
            "all-underutilized",
            id="all below",
        ),
        pytest.param(
            [box("a", *load("a", 1)), box("b", *load("b", 4), cordoned=True)],
            {},
            "no-destination",
            id="the only other node is cordoned",
        ),
        pytest.param(
            [box("a", *load("a", 1)), box("b", *load("b", 10))],
            {},
            "no-room",
            id="the other is full",
        ),
        pytest.param(
            [box("a", *load("a", 1)), box("b", *load("b", 4, memory="750"))],
            {},
            "no-room",
            id="its memory is, which has no threshold",
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
        pytest.param(
            [box("a", *load("a", 3)), box("b", *load("b", 4))],
            {"a": 3},
            id="exactly at the threshold",
        ),
        pytest.param(
            [box("a", *load("a", 2)), box("b", *load("b", 1)), box("c", *load("c", 9))],
            {"b": 1},
            id="the emptiest first, as long as there is room",
        ),
        pytest.param(
            [box("a", *load("a", 2)), box("b", *load("b", 3)), box("c", *load("c", 6))],
            {"a": 2, "b": 2},
            id="until the room is used up",
        ),
        pytest.param(
            [box("a", *load("a", 1), cpu="1"), box("b", *load("b", 4))],
            {},
            id="a small node is fuller than it seems",
        ),
        pytest.param(
            [box("a", *load("a", 3)), box("b", *load("b", 5)), box("c", *load("c", 5))],
            {"a": 3},
            id="the room of all others is one",
        ),
    ],
)
def test_pods_leave_while_the_other_nodes_have_room(
    nodes: list[NodeBuilder], leave: dict[str, int]
) -> None:
    assert leaving(plan(PLUGIN, cluster(*nodes), **CPU)) == leave


def test_a_node_above_one_of_two_thresholds_is_not_emptied() -> None:
    world = cluster(
        box("busy", *load("a", 4, cpu="100m")), box("idle", *load("b", 1)), box("c", *load("c", 4))
    )

    assert leaving(plan(PLUGIN, world, **LOW)) == {"idle": 1}


@pytest.mark.parametrize(
    ("pods", "refused"),
    [
        pytest.param(load("a", 2, owner=None), {"no-owner": 2}, id="bare"),
        pytest.param(load("a", 2, owner="DaemonSet/a"), {"daemon-set": 2}, id="of a DaemonSet"),
        pytest.param(load("a", 2, priority=CRITICAL), {"system-critical": 2}, id="critical"),
        pytest.param(load("a", 2, terminating=True), {"terminating": 2}, id="terminating"),
        pytest.param(load("a", 2, phase="Succeeded"), {}, id="finished"),
    ],
)
def test_pods_that_no_guard_lets_go_stay(pods: list[Object], refused: dict[str, int]) -> None:
    planned = plan(PLUGIN, cluster(box("a", *pods), box("b", *load("b", 4))), **CPU)

    assert planned.evicts == []
    assert planned.refused == refused


@pytest.mark.parametrize(
    ("pods", "order"),
    [
        pytest.param(
            [*load("high", 1, priority=9), *load("low", 1, priority=1)],
            ["low-0", "high-0"],
            id="low priority first",
        ),
        pytest.param(
            [*load("burst", 1), *load("best", 1, cpu=None)],
            ["best-0", "burst-0"],
            id="best effort first",
        ),
    ],
)
def test_the_least_important_go_first(pods: list[Object], order: list[str]) -> None:
    world = cluster(box("a", *pods), box("b", *load("b", 4)))

    assert plan(PLUGIN, world, **CPU).evicts == order


@pytest.mark.parametrize(
    ("thresholds", "mode", "goes"),
    [
        pytest.param({"cpu": 30}, [], {"cpu", "zero", "init", "none"}, id="all by default"),
        pytest.param(
            {"cpu": 30},
            ["OnlyThresholdingResources"],
            {"cpu", "zero", "init"},
            id="only those that ask for a resource with a threshold, even for zero",
        ),
        pytest.param(
            {"cpu": 30, "memory": 30},
            ["OnlyThresholdingResources"],
            {"cpu", "zero", "init"},
            id="any of the resources will do",
        ),
        pytest.param(
            {"pods": 50}, ["OnlyThresholdingResources"], set(), id="no container requests pods"
        ),
    ],
)
def test_a_mode_spares_pods_that_ask_for_nothing_that_counts(
    thresholds: dict[str, float], mode: list[str], goes: set[str]
) -> None:
    asking = {"resources": {"requests": {"cpu": "100m"}}}
    init = [{"name": "i", "image": "setup", **asking}]
    pods = [
        pod("cpu", cpu="100m"),
        pod("zero", cpu="0"),
        pod("init", spec={"initContainers": init}),
        pod("none"),
    ]
    world = cluster(box("a", *pods), box("b", *load("b", 6, memory="1")))

    assert set(plan(PLUGIN, world, thresholds=thresholds, evictionModes=mode).evicts) == goes


@pytest.mark.parametrize(
    ("offers", "evicted", "stopped"),
    [
        pytest.param([{GPU: "8"}, {GPU: "8"}], 1, [], id="both offer it"),
        pytest.param([{GPU: "8"}, {}], 0, ["all-underutilized"], id="the other does not"),
    ],
)
def test_extended_resources_count(
    offers: list[dict[str, str]], evicted: int, stopped: list[str]
) -> None:
    world = cluster(
        box("a", pod("one", requests={GPU: "1"}), resources=offers[0]),
        box("b", *(pod(f"b-{i}", requests={GPU: "1"}) for i in range(4)), resources=offers[1]),
    )
    planned = plan(PLUGIN, world, thresholds={GPU: 20})

    assert len(planned.evicts) == evicted
    assert planned.stopped == stopped


def test_a_resource_that_no_node_with_room_offers_ends_it() -> None:
    world = cluster(box("a", *load("a", 1), resources={GPU: "8"}), box("b", *load("b", 4)))

    assert plan(PLUGIN, world, thresholds={"cpu": 30, GPU: 20}).stopped == ["no-room"]


@pytest.mark.parametrize(
    ("options", "target", "fit", "evicted"),
    [
        pytest.param({"node_selector": {"p": "x"}}, {"labels": {"p": "x"}}, True, 1, id="selected"),
        pytest.param({"node_selector": {"p": "x"}}, {}, True, 0, id="no other node is selected"),
        pytest.param({"node_selector": {"p": "x"}}, {}, False, 1, id="not checked without nodeFit"),
        pytest.param({"memory": "2900"}, {"memory": "2000"}, True, 0, id="too little memory"),
        pytest.param({}, {"taints": ["a:NoSchedule"]}, False, 0, id="tainted"),
        pytest.param({}, {"taints": ["a:PreferNoSchedule"]}, False, 0, id="softly tainted"),
        pytest.param(
            {"tolerations": [{"operator": "Exists"}]},
            {"taints": ["a:NoSchedule"]},
            True,
            1,
            id="tolerated",
        ),
    ],
)
def test_a_pod_needs_a_node_that_takes_it(
    options: dict[str, Any], target: dict[str, Any], fit: bool, evicted: int
) -> None:
    world = cluster(box("a", *load("a", 1, **options)), box("b", *load("b", 4), **target))

    assert len(plan(PLUGIN, world, evictor={"nodeFit": fit}, **CPU).evicts) == evicted


def test_pods_of_excluded_namespaces_stay() -> None:
    pods = [*load("kept", 1, namespace="kept"), *load("free", 1)]
    world = cluster(box("a", *pods), box("b", *load("b", 4)))

    assert plan(PLUGIN, world, **CPU, evictableNamespaces={"exclude": ["kept"]}).evicts == [
        "free-0"
    ]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param({}, "`thresholds` is missing or empty", id="no thresholds"),
        pytest.param({"thresholds": {"cpu": 101}}, "101 is not a percentage", id="above 100"),
        pytest.param({"thresholds": {"cpu": -0.5}}, "-0.5 is not a percentage", id="negative"),
        pytest.param({**CPU, "evictionModes": ["All"]}, "OnlyThresholdingResources", id="mode"),
        pytest.param(
            {**CPU, "evictableNamespaces": {"include": ["a"]}},
            "`include` is not possible",
            id="include",
        ),
        pytest.param(
            {**CPU, "targetThresholds": {"cpu": 50}}, "targetThresholds", id="unknown key"
        ),
    ],
)
def test_mistaken_arguments_are_reported(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        plan(PLUGIN, cluster(box("a"), box("b")), **args)
