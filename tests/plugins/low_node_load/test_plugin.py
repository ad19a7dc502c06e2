"""LowNodeLoad: hot only after a while, the pod that fits, and rest until figures show it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.plugins.low_node_load.plugin import PLUGIN
from resettle.testing import (
    NOW,
    NodeBuilder,
    Planned,
    World,
    cluster,
    node,
    node_metrics,
    plan,
    pod,
    pod_metrics,
    query_answer,
)
from resettle.testing.builders import Object
from tests.plugins.builders import NO_LIMITS, NO_MINIMUM

LINES: dict[str, Any] = {"lowThresholds": {"cpu": 30}, "highThresholds": {"cpu": 60}}
AT_ONCE: dict[str, Any] = {"anomalyCondition": {"consecutiveAbnormalities": 1}}
THRICE: dict[str, Any] = {
    "anomalyCondition": {"consecutiveAbnormalities": 3, "consecutiveNormalities": 2}
}
History = Mapping[tuple[str, str], Any]


def drawn(world: World, history: History | None = None, **args: Any) -> Planned:
    """What the plugin does in a policy that allows all it can."""
    return plan(
        PLUGIN,
        world,
        evictor=NO_MINIMUM,
        policy=NO_LIMITS,
        api_version="resettle/v1",
        history=history,
        **{**LINES, **args},
    )


def box(name: str, *pods: Object, **marks: Any) -> NodeBuilder:
    """A node of 10 cpu."""
    return node(name, **{"cpu": "10", **marks}).holding(*pods)


def ballast(name: str) -> Object:
    """A pod that stays and asks for much, so that the scheduler would rather go elsewhere."""
    return pod(f"ballast-{name}", cpu="4", owner="DaemonSet/ballast")


def busy(
    uses: Mapping[str, str],
    *,
    hot: str = "9",
    cold: str = "1",
    minute: float = 0.0,
    sampled: float | None = None,
) -> World:
    """`hot` with pods that use so much, and `cold`; some minutes later, as of a sample."""
    now = NOW + timedelta(minutes=minute)
    measured = NOW + timedelta(minutes=minute if sampled is None else sampled)
    stamp = {"timestamp": measured.isoformat()}
    world = cluster(
        box("hot", ballast("hot"), *(pod(name, cpu="100m") for name in uses)),
        box("cold"),
        {**node_metrics("hot", cpu=hot), **stamp},
        {**node_metrics("cold", cpu=cold), **stamp},
        *({**pod_metrics(name, cpu=cpu), **stamp} for name, cpu in uses.items()),
    )
    return World(world.objects, now)


def through(*worlds: World, **args: Any) -> list[Planned]:
    """The plans of cycles that follow one another."""
    plans: list[Planned] = []
    history: History = {}
    for world in worlds:
        plans.append(drawn(world, history, **args))
        history = plans[-1].plan.history
    return plans


def counts(plans: list[Planned]) -> list[int]:
    return [len(planned.evicts) for planned in plans]


# -- hot, and not hot yet -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("series", "moves"),
    [
        pytest.param("high high ok high high high", [0, 0, 0, 0, 0, 1], id="only in a row"),
        pytest.param("high high ok ok ok", [0, 0, 0, 0, 0], id="a spike"),
    ],
)
def test_a_node_is_relieved_only_after_enough_samples_in_a_row(
    series: str, moves: list[int]
) -> None:
    worlds = [
        busy({"a": "4", "b": "1"}, hot="9" if word == "high" else "5", minute=i)
        for i, word in enumerate(series.split())
    ]
    plans = through(*worlds, **THRICE)

    assert counts(plans) == moves
    assert plans[0].stopped == ["not-hot-yet"]


def test_the_same_sample_counts_once() -> None:
    worlds = [busy({"a": "4"}, minute=i / 6, sampled=0) for i in range(10)]

    assert counts(through(*worlds, **THRICE)) == [0] * 10


def test_it_is_noted_how_often_a_node_was_seen_so() -> None:
    planned = plan(
        PLUGIN,
        busy({"a": "4"}),
        evictor=NO_MINIMUM,
        policy=NO_LIMITS,
        api_version="resettle/v1",
        watching=["hot"],
        **LINES,
        **THRICE,
    )

    (note,) = planned.plan.notes
    assert (note.code, note.says) == (
        "not-hot-yet",
        "has been too busy in 1 of 3 samples in a row",
    )


# -- who goes -------------------------------------------------------------------------------------


def test_the_pod_that_just_covers_the_excess_goes_and_no_other() -> None:
    uses = {"small": "500m", "right": "1", "large": "2500m"}

    assert drawn(busy(uses, hot="6900m"), **AT_ONCE).evicts == ["right"]


def test_a_less_important_pod_goes_before_one_that_fits_better() -> None:
    world = busy({"right": "3"}, hot="9")
    for item in world.objects:
        if item["kind"] == "Pod" and item["metadata"]["name"] == "right":
            item["spec"]["priority"] = 100
    minor = busy({"minor": "1"}).objects
    extra = [item for item in minor if item["metadata"].get("name") == "minor"]
    planned = drawn(World([*world.objects, *extra]), **AT_ONCE)

    assert planned.evicts[0] == "minor"


def test_a_pod_that_uses_nothing_of_what_is_short_stays() -> None:
    assert drawn(busy({"idle": "0", "a": "3"}), **AT_ONCE).evicts == ["a"]


def test_a_destination_stays_below_its_high_line() -> None:
    planned = drawn(busy({"a": "4", "b": "2"}, hot="9", cold="2900m"), **AT_ONCE)

    assert planned.evicts == ["b"]


def test_room_for_one_pod_is_given_once() -> None:
    world = cluster(
        box("h1", ballast("h1"), pod("a", cpu="100m")),
        box("h2", ballast("h2"), pod("b", cpu="100m")),
        box("cold"),
        node_metrics("h1", cpu="9"),
        node_metrics("h2", cpu="8"),
        node_metrics("cold", cpu="3"),
        pod_metrics("a", cpu="3"),
        pod_metrics("b", cpu="3"),
    )
    planned = drawn(world, **AT_ONCE)

    assert planned.evicts == ["a"], "the hottest first"


@pytest.mark.parametrize(
    ("more", "evicts"),
    [
        pytest.param({"evictableNamespaces": {"exclude": ["default"]}}, [], id="namespace"),
        pytest.param({"evictableNamespaces": {"include": ["default"]}}, ["a"], id="included"),
        pytest.param(
            {"podSelectors": [{"name": "x", "selector": {"matchLabels": {"a": "b"}}}]},
            [],
            id="labels",
        ),
    ],
)
def test_some_pods_are_not_to_be_moved(more: dict[str, Any], evicts: list[str]) -> None:
    assert drawn(busy({"a": "3"}), **AT_ONCE, **more).evicts == evicts


# -- rest -----------------------------------------------------------------------------------------


def test_a_node_rests_until_its_figures_show_what_has_moved() -> None:
    first = busy({"a": "2"}, hot="7900m")
    plans = through(
        first,
        *(busy({}, hot="7900m", minute=i / 2, sampled=0) for i in (1, 2, 3)),
        **AT_ONCE,
    )

    assert counts(plans) == [1, 0, 0, 0]
    assert plans[1].stopped == ["none-overutilized"], "by what is foreseen it is not hot"


def test_a_node_that_is_still_hot_is_left_alone_for_a_while() -> None:
    later = [busy({"b": "1"}, hot="9", cold="2", minute=i) for i in (1, 3)]
    plans = through(busy({"a": "1"}, hot="9", cold="2"), *later, **AT_ONCE)

    assert counts(plans) == [1, 0, 1]
    assert plans[1].stopped == ["cooling-down"]


def test_a_pod_that_did_not_leave_is_no_reason_to_rest() -> None:
    world = busy({"a": "1"}, hot="9", cold="2")
    again = busy({"a": "1"}, hot="9", cold="2", minute=1)

    assert counts(through(world, again, **AT_ONCE)) == [1, 1]


def test_what_is_on_its_way_counts_where_it_goes() -> None:
    first = busy({"a": "3"}, hot="9", cold="1")
    then = cluster(
        box("hot", ballast("hot")),
        box("other", ballast("other"), pod("b", cpu="100m")),
        box("cold"),
        *(
            {**item, "timestamp": (NOW + timedelta(minutes=1)).isoformat()}
            for item in (
                node_metrics("hot", cpu="2"),
                node_metrics("other", cpu="9"),
                node_metrics("cold", cpu="1"),
                pod_metrics("b", cpu="3"),
            )
        ),
    )
    later = World(then.objects, NOW + timedelta(minutes=1))

    assert counts(through(first, later, **AT_ONCE)) == [1, 0]
    assert counts(through(later, **AT_ONCE)) == [1], "without the one on its way there is room"


def test_a_settled_cluster_stays_so() -> None:
    worlds = [busy({"a": "2", "b": "2"}, hot="5900m", cold="5", minute=i) for i in range(20)]

    assert counts(through(*worlds, **AT_ONCE)) == [0] * 20


# -- nothing to do --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "more", "stopped"),
    [
        pytest.param(busy({"a": "3"}, hot="5"), {}, "none-overutilized", id="none hot"),
        pytest.param(busy({"a": "3"}, cold="4"), {}, "none-underutilized", id="none idle"),
        pytest.param(
            busy({"a": "3"}), {"numberOfNodes": 1}, "too-few-underutilized", id="too few idle"
        ),
    ],
)
def test_where_nothing_is_to_be_done(world: World, more: dict[str, Any], stopped: str) -> None:
    planned = drawn(world, **AT_ONCE, **more)

    assert planned.evicts == []
    assert planned.stopped == [stopped]


def test_a_node_without_a_fresh_figure_neither_gives_nor_takes() -> None:
    world = cluster(
        box("hot", ballast("hot"), pod("a", cpu="100m")),
        box("old", ballast("old"), pod("b", cpu="100m")),
        box("cold"),
        box("warm"),
        node_metrics("hot", cpu="9"),
        node_metrics("old", cpu="9", age="200s"),
        node_metrics("cold", cpu="1"),
        node_metrics("warm", cpu="4"),
        pod_metrics("a", cpu="3"),
        pod_metrics("b", cpu="3"),
    )

    assert [move.pod.node for move in drawn(world, **AT_ONCE).plan.moves] == ["hot"]
    both = drawn(world, **AT_ONCE, nodeMetricExpirationSeconds=300)
    assert {move.pod.node for move in both.plan.moves} <= {"hot", "old"}


def test_a_cordoned_node_is_not_idle() -> None:
    world = busy({"a": "3"})
    for item in world.objects:
        if item["kind"] == "Node" and item["metadata"]["name"] == "cold":
            item["spec"]["unschedulable"] = True

    assert drawn(world, **AT_ONCE).stopped == ["none-underutilized"]


# -- pools ----------------------------------------------------------------------------------------


def pooled() -> World:
    """Two nodes of each colour: blue at 90 and 10 percent, red at 50 and 10."""
    parts: list[Any] = []
    for name, colour, cpu in (
        ("b1", "blue", "9"),
        ("b2", "blue", "1"),
        ("r1", "red", "5"),
        ("r2", "red", "1"),
    ):
        pods = [] if cpu == "1" else [ballast(name), pod(f"p-{name}", cpu="100m")]
        selector = {"nodeSelector": {"colour": colour}}
        for item in pods:
            item["spec"].update(selector)
        parts.append(box(name, *pods, labels={"colour": colour}))
        parts.append(node_metrics(name, cpu=cpu))
        if pods:
            parts.append(pod_metrics(f"p-{name}", cpu="2"))
    return cluster(*parts)


def pool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "nodeSelector": {"matchLabels": {"colour": name}}, **more}


def test_each_pool_has_lines_of_its_own_and_a_node_is_in_one() -> None:
    red = pool("red", lowThresholds={"cpu": 20}, highThresholds={"cpu": 40})
    again = pool("again", lowThresholds={"cpu": 1}, highThresholds={"cpu": 2})
    again["nodeSelector"] = red["nodeSelector"]
    planned = drawn(pooled(), **AT_ONCE, nodePools=[red, again])

    assert sorted(move.pod.node for move in planned.plan.moves) == ["b1", "r1"]


def test_distances_are_from_the_mean_of_the_pool() -> None:
    near = {"lowThresholds": {"cpu": 15}, "highThresholds": {"cpu": 15}}
    pools = [pool(name, useDeviationThresholds=True, **near) for name in ("blue", "red")]
    planned = drawn(pooled(), **AT_ONCE, nodePools=pools)

    assert sorted(move.reason for move in planned.plan.moves) == [
        "b1 is at 90% cpu in use (target 65%)",
        "r1 is at 50% cpu in use (target 45%)",
    ]


# -- Prometheus -----------------------------------------------------------------------------------


def test_by_queries_one_pod_goes_and_then_the_node_rests() -> None:
    metrics = {"source": "Prometheus", "prometheus": {"queries": {"psi": "waiting"}}}
    lines: dict[str, Any] = {"lowThresholds": {"psi": 10}, "highThresholds": {"psi": 30}}
    world = cluster(
        box("hot", ballast("hot"), pod("a", cpu="100m"), pod("b", cpu="100m")),
        box("cold"),
        query_answer("waiting", {"hot": 0.5, "cold": 0.01}),
    )
    planned = plan(
        PLUGIN,
        world,
        evictor=NO_MINIMUM,
        policy={
            **NO_LIMITS,
            "metricsProviders": [{"source": "Prometheus", "prometheus": {"url": "http://p"}}],
        },
        api_version="resettle/v1",
        **lines,
        **AT_ONCE,
        metricsUtilization=metrics,
    )

    assert planned.errors == []
    assert len(planned.evicts) == 1
    assert planned.plan.moves[0].reason == "hot is at 50% psi (target 30%)"


# -- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param({"highThresholds": {}}, "`highThresholds` is missing", id="no high threshold"),
        pytest.param(
            {"lowThresholds": {"cpu": 10, "memory": 10}},
            "only one of its two thresholds",
            id="one line",
        ),
        pytest.param(
            {"lowThresholds": {"cpu": 70}}, "70 is above the high threshold", id="crossed"
        ),
        pytest.param({"nodePools": [{"name": ""}]}, "a pool has no name", id="no name"),
        pytest.param(
            {"nodePools": [{"name": "a"}, {"name": "a"}]}, "two pools are named `a`", id="namesakes"
        ),
        pytest.param(
            {"nodePools": [{"name": "a", "lowThresholds": {"cpu": 170}}]},
            "170 is not a percentage",
            id="a mistake within a pool",
        ),
        pytest.param(
            {"anomalyCondition": {"consecutiveAbnormalities": 0}}, "consecutiveAb", id="no times"
        ),
        pytest.param({"anomalyCondition": {"timeout": "1m"}}, "timeout", id="a hidden timeout"),
        pytest.param({"dryRun": True}, "dryRun", id="what is not supported"),
        pytest.param(
            {"evictableNamespaces": {"include": ["a"], "exclude": ["b"]}},
            "both `include` and `exclude`",
            id="both",
        ),
        pytest.param(
            {"lowThresholds": {"gpu": 1}, "highThresholds": {"gpu": 2}},
            "does not measure `gpu`",
            id="not measured",
        ),
    ],
)
def test_mistakes_are_reported(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        drawn(busy({"a": "1"}), **args)
