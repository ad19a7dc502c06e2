"""LowNodeUtilization by what is measured: the metrics API, and whatever Prometheus says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.plugins.low_node_utilization import PLUGIN
from resettle.testing import (
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

UPSTREAM, OURS = "descheduler/v1alpha2", "resettle/v1"
either = pytest.mark.parametrize("version", [UPSTREAM, OURS])

API: dict[str, Any] = {"metricsUtilization": {"source": "KubernetesMetrics"}}
QUERY: dict[str, Any] = {
    "metricsUtilization": {"source": "Prometheus", "prometheus": {"query": "busy"}}
}
PROVIDERS = [
    {"source": "KubernetesMetrics"},
    {"source": "Prometheus", "prometheus": {"url": "https://prometheus.example"}},
]
CPU: dict[str, Any] = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, **API}
PRESSURE: dict[str, Any] = {
    "thresholds": {"MetricResource": 30},
    "targetThresholds": {"MetricResource": 50},
    **QUERY,
}


def asked(version: str, world: World, **args: Any) -> Planned:
    """What the strategy does in a policy of this version that allows all it can."""
    ours = version == OURS
    policy = {"metricsProviders": PROVIDERS, **(NO_LIMITS if ours else {})}
    return plan(
        PLUGIN,
        world,
        evictor=NO_MINIMUM if ours else {},
        policy=policy,
        api_version=version,
        **args,
    )


def box(name: str, *pods: Object, **marks: Any) -> NodeBuilder:
    """A node of 10 cpu whose pods ask for next to nothing."""
    return node(name, **{"cpu": "10", **marks}).holding(*pods)


def idle(prefix: str, count: int, **more: Any) -> list[Object]:
    """Pods that request a little, whatever they use."""
    return [pod(f"{prefix}-{i}", cpu="100m", **more) for i in range(count)]


def ballast() -> Object:
    """A pod that stays and asks for much, so that the scheduler would rather go elsewhere."""
    return pod("ballast", cpu="4", owner="DaemonSet/ballast")


def by_api(uses: dict[str, str], *, age: str = "10s") -> World:
    """`hot` uses 9 of 10 cpu by three pods, `cold` half a cpu."""
    pods = [pod(name, cpu="100m") for name in uses]
    return cluster(
        box("hot", ballast(), *pods),
        box("cold"),
        node_metrics("hot", cpu="9", age=age),
        node_metrics("cold", cpu="500m", age=age),
        *(pod_metrics(name, cpu=cpu) for name, cpu in uses.items()),
    )


# -- the metrics API ------------------------------------------------------------------------------


@either
def test_pods_move_by_what_they_use_and_not_by_what_they_ask_for(version: str) -> None:
    planned = asked(version, by_api({"a": "2", "b": "2", "c": "2"}), **CPU)

    assert planned.errors == []
    assert len(planned.evicts) == 2
    assert planned.plan.moves[0].reason == "hot is at 90% cpu in use (target 50%)"


@either
def test_requests_alone_would_move_no_pod(version: str) -> None:
    world = by_api({"a": "2", "b": "2", "c": "2"})
    args = {key: value for key, value in CPU.items() if key != "metricsUtilization"}

    assert asked(version, world, **args).evicts == []


@either
def test_the_older_word_for_the_metrics_api_still_works(version: str) -> None:
    world = by_api({"a": "2", "b": "2", "c": "2"})
    older = {**CPU, "metricsUtilization": {"metricsServer": True}}

    assert asked(version, world, **older).evicts == asked(version, world, **CPU).evicts


def test_the_older_switch_provides_the_metrics_api_too() -> None:
    world = by_api({"a": "2", "b": "2", "c": "2"})
    switch = {"metricsCollector": {"enabled": True}}

    assert len(plan(PLUGIN, world, policy=switch, **CPU).evicts) == 2


def test_a_policy_of_the_descheduler_must_name_who_measures() -> None:
    planned = plan(PLUGIN, by_api({"a": "9"}), **CPU)

    assert planned.evicts == []
    assert planned.errors == [
        "LowNodeUtilization in profile test: `metricsProviders` of the policy does not name "
        "KubernetesMetrics; nothing is moved without figures"
    ]


def test_ours_finds_the_metrics_api_by_itself() -> None:
    world = by_api({"a": "2", "b": "2", "c": "2"})
    planned = plan(PLUGIN, world, evictor=NO_MINIMUM, policy=NO_LIMITS, api_version=OURS, **CPU)

    assert len(planned.evicts) == 2


@either
def test_pods_that_were_not_measured_stay(version: str) -> None:
    world = by_api({"a": "2", "b": "2", "c": "2"})
    unmeasured = [item for item in world.objects if item["kind"] != "PodMetrics"]

    assert asked(version, World(unmeasured), **CPU).evicts == []


@either
def test_terminating_and_finished_pods_count_as_pods_only_while_they_run(version: str) -> None:
    world = cluster(
        box("hot", *idle("a", 6), pod("done", phase="Succeeded"), pods=10),
        box("cold", pods=10),
        node_metrics("hot", cpu="1"),
        node_metrics("cold", cpu="1"),
        *(pod_metrics(f"a-{i}", cpu="100m") for i in range(6)),
    )
    planned = asked(version, world, thresholds={"pods": 20}, targetThresholds={"pods": 50}, **API)

    assert len(planned.evicts) == 1
    assert planned.plan.moves[0].reason == "hot is at 60% pods (target 50%)"


def test_ours_moves_no_pod_whose_own_figure_is_old_or_of_a_namesake() -> None:
    world = cluster(
        box(
            "hot",
            ballast(),
            pod("old", cpu="100m"),
            pod("new", cpu="100m", age="1m"),
            *idle("ok", 1),
        ),
        box("cold"),
        node_metrics("hot", cpu="9"),
        node_metrics("cold", cpu="500m"),
        pod_metrics("old", cpu="3", age="10m"),
        pod_metrics("new", cpu="3", age="2m"),
        pod_metrics("ok-0", cpu="3"),
    )

    assert asked(OURS, world, **CPU).evicts == ["ok-0"]


def test_a_destination_stays_within_its_target_by_what_is_used() -> None:
    world = cluster(
        box("hot", ballast(), pod("big", cpu="100m"), pod("small", cpu="100m")),
        box("cold"),
        node_metrics("hot", cpu="9"),
        node_metrics("cold", cpu="1900m"),
        pod_metrics("big", cpu="5"),
        pod_metrics("small", cpu="3"),
    )

    assert asked(OURS, world, **CPU).evicts == ["small"]


# -- figures that cannot be used ------------------------------------------------------------------


def four(numbers: dict[str, float], **more: Any) -> World:
    """n1 with six pods and three nodes with two each, and what Prometheus says of them."""
    return cluster(
        box("n1", *idle("n1", 6)),
        *(box(name, *idle(name, 2)) for name in ("n2", "n3", "n4")),
        query_answer("busy", numbers, **more),
    )


SOUND = {"n1": 0.9, "n2": 0.1, "n3": 0.2, "n4": 0.2}


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        pytest.param(
            {"n1": 0.9, "n2": 0.1, "n3": 0.2},
            "n4 has no sample in the answer, which names n1, n2, n3",
            id="missing",
        ),
        pytest.param(
            {**SOUND, "n4": float("nan")}, "n4 has a sample that is not a number (NaN)", id="NaN"
        ),
        pytest.param(
            {**SOUND, "n4": 1.01}, "n4 has a sample of 1.01, which is not from 0 to 1", id="> 1"
        ),
        pytest.param(
            {**SOUND, "n4": -0.1}, "n4 has a sample of -0.1, which is not from 0 to 1", id="< 0"
        ),
        pytest.param(
            {**SOUND, "n4": float("inf")},
            "n4 has a sample of inf, which is not from 0 to 1",
            id="without end",
        ),
    ],
)
def test_one_bad_figure_stops_upstream_and_costs_us_one_node(
    numbers: dict[str, float], says: str
) -> None:
    upstream, ours = (asked(version, four(numbers), **PRESSURE) for version in (UPSTREAM, OURS))

    assert upstream.evicts == []
    assert len(upstream.errors) == 1
    assert says in upstream.errors[0]
    assert ours.errors == []
    assert [move.pod.node for move in ours.plan.moves] == ["n1"]


def test_upstream_does_not_even_take_a_bad_figure_of_a_stranger() -> None:
    world = four({**SOUND, "stranger": 3.2})

    assert "stranger has a sample of 3.2" in asked(UPSTREAM, world, **PRESSURE).errors[0]
    assert len(asked(OURS, world, **PRESSURE).evicts) == 1


def test_a_figure_that_names_no_node_is_reported() -> None:
    world = four({"": 0.3, **SOUND})

    assert "does not name its node" in asked(UPSTREAM, world, **PRESSURE).errors[0]
    assert len(asked(OURS, world, **PRESSURE).evicts) == 1


def test_of_two_figures_for_a_node_upstream_takes_the_later_and_we_take_none() -> None:
    world = four(SOUND)
    (answer,) = (item for item in world.objects if item["kind"] == "QueryAnswer")
    answer["samples"].append({**answer["samples"][0], "number": "0.95"})

    assert [move.pod.node for move in asked(UPSTREAM, world, **PRESSURE).plan.moves] == ["n1"]
    ours = asked(OURS, world, watching=["n1"], **PRESSURE)
    assert ours.evicts == []
    assert [(note.code, note.says) for note in ours.plan.notes] == [
        ("usage-ambiguous", "has 2 samples in the answer (0.9 and 0.95)")
    ]


@pytest.mark.parametrize(
    ("age", "version", "moves"),
    [
        pytest.param("179s", OURS, 1, id="fresh enough"),
        pytest.param("4m", OURS, 0, id="older than three minutes"),
        pytest.param("4m", UPSTREAM, 1, id="upstream looks back five"),
        pytest.param("6m", UPSTREAM, 0, id="and no further"),
        pytest.param("-6m", OURS, 0, id="from the future"),
    ],
)
def test_old_figures_are_no_figures(age: str, version: str, moves: int) -> None:
    planned = asked(version, four(SOUND, age=age), **PRESSURE)

    assert len(planned.evicts) == moves
    assert bool(planned.errors) is not bool(moves)


def test_how_old_is_for_the_policy_to_say() -> None:
    metrics = {**QUERY["metricsUtilization"], "maxAge": "10m"}

    planned = asked(OURS, four(SOUND, age="9m"), **{**PRESSURE, "metricsUtilization": metrics})

    assert len(planned.evicts) == 1


@either
def test_old_figures_of_the_metrics_api_are_no_figures_either(version: str) -> None:
    planned = asked(version, by_api({"a": "9"}, age="6m"), **CPU)

    assert planned.evicts == []
    assert "hot has a figure that is 6 min old" in planned.errors[0].replace("cold", "hot")


def test_where_half_of_the_nodes_have_no_figure_nothing_moves() -> None:
    planned = asked(OURS, four({"n1": 0.9, "n2": 0.1}), **PRESSURE)

    assert planned.evicts == []
    assert planned.errors == [
        "LowNodeUtilization in profile test: n3 has no sample in the answer, which names n1, "
        "n2, and 1 more of 4 nodes have none either; nothing is moved without figures"
    ]


def test_wrong_labels_are_reported_by_what_the_answer_speaks_of() -> None:
    numbers = {f"10.0.0.{i}:9100": 0.9 for i in range(1, 5)}
    planned = asked(OURS, four(numbers), **PRESSURE)

    assert "which names 10.0.0.1:9100, 10.0.0.2:9100, 10.0.0.3:9100, …" in planned.errors[0]


@either
def test_without_an_answer_nothing_moves(version: str) -> None:
    world = cluster(box("n1", *idle("a", 2)), box("n2"))
    planned = asked(version, world, **PRESSURE)

    assert planned.evicts == []
    assert "no usage from Prometheus, asked for `busy`" in planned.errors[0]


# -- Prometheus -----------------------------------------------------------------------------------


@either
@pytest.mark.parametrize(
    ("more", "moves"),
    [
        pytest.param({}, 1, id="one, if nothing is said"),
        pytest.param({"evictionLimits": {"node": 3}}, 3, id="as many as is said"),
        pytest.param({"evictionLimits": {"node": 0}}, 0, id="none"),
    ],
)
def test_a_hot_node_gives_away_one_pod_or_as_many_as_it_is_reported(
    version: str, more: dict[str, Any], moves: int
) -> None:
    world = cluster(
        box("n1", *idle("a", 8)),
        box("n2", *idle("b", 3)),
        box("n3"),
        query_answer("busy", {"n1": 0.5696, "n2": 0.4245, "n3": 0.2038}),
    )
    planned = asked(version, world, **PRESSURE, **more)

    assert [move.pod.node for move in planned.plan.moves] == ["n1"] * moves
    assert planned.errors == []


@either
def test_the_hottest_come_first_where_a_limit_ends_it(version: str) -> None:
    hot = {"n1": 0.8, "n2": 0.95, "n3": 0.9, "n4": 0.85}
    world = cluster(
        *(box(name, *idle(name, 8)) for name in hot),
        *(box(name) for name in ("n5", "n6", "n7")),
        query_answer("busy", {**hot, "n5": 0.1, "n6": 0.1, "n7": 0.1}),
    )
    limits = {"maxNoOfPodsToEvictTotal": 5, "metricsProviders": PROVIDERS}
    ours = {"maxPercentOfNodesToEvictFrom": 100} if version == OURS else {}
    planned = plan(
        PLUGIN,
        world,
        evictor=NO_MINIMUM if version == OURS else {},
        policy={**limits, **ours},
        api_version=version,
        **PRESSURE,
        evictionLimits={"node": 2},
    )

    assert [move.pod.node for move in planned.plan.moves] == ["n2", "n2", "n3", "n3", "n4"]


@either
def test_the_least_important_pod_goes(version: str) -> None:
    world = cluster(
        box("n1", pod("high", priority=10), pod("low", priority=1), pod("mid", priority=5)),
        box("n2"),
        query_answer("busy", {"n1": 0.9, "n2": 0.1}),
    )

    assert asked(version, world, **PRESSURE).evicts == ["low"]


@pytest.mark.parametrize(
    ("limit", "to"),
    [
        pytest.param({}, ["n3"], id="one, if nothing is said"),
        pytest.param({"evictionLimits": {"node": 2}}, ["n3", "n3"], id="as many as may leave one"),
    ],
)
def test_no_more_pods_come_to_a_node_than_may_leave_one(
    limit: dict[str, Any], to: list[str]
) -> None:
    world = cluster(
        box("n1", *idle("a", 6)),
        box("n2", *idle("b", 6)),
        box("n3"),
        query_answer("busy", {"n1": 0.9, "n2": 0.8, "n3": 0.1}),
    )
    planned = asked(OURS, world, **PRESSURE, **limit)

    assert [move.lands_on for move in planned.plan.moves] == to
    assert planned.refused == {"no-better-node": 6}


def test_a_node_that_is_within_its_lines_gets_none() -> None:
    world = cluster(
        box("n1", *idle("a", 6)),
        box("n2"),
        box("n3", *idle("c", 3)),
        query_answer("busy", {"n1": 0.9, "n2": 0.45, "n3": 0.1}),
    )

    assert set(asked(OURS, world, **PRESSURE).refused) == {"would-stray"}


def test_of_equals_the_one_goes_that_has_been_there_longest() -> None:
    pods = [pod(f"a-{i}", cpu="100m", age=f"{60 - i}m") for i in range(20)]
    world = cluster(
        box("n1", *reversed(pods)), box("n2"), query_answer("busy", {"n1": 0.9, "n2": 0.1})
    )

    assert asked(OURS, world, **PRESSURE).evicts == ["a-0"]


@pytest.mark.parametrize(
    ("number", "moves"),
    [(0.509999, 0), (0.51, 1)],
)
def test_what_is_behind_the_point_of_a_percentage_is_left_off(number: float, moves: int) -> None:
    world = four({**SOUND, "n1": number})

    assert len(asked(UPSTREAM, world, **PRESSURE).evicts) == moves


@pytest.mark.parametrize(
    ("taint", "version", "moves"),
    [
        pytest.param("load:PreferNoSchedule", UPSTREAM, 0, id="upstream avoids soft taints"),
        pytest.param("load:PreferNoSchedule", OURS, 1, id="we do not"),
        pytest.param("load:NoSchedule", OURS, 0, id="a hard one is another matter"),
    ],
)
def test_soft_taints_of_the_nodes_with_room_are_no_obstacle(
    taint: str, version: str, moves: int
) -> None:
    world = cluster(
        box("n1", *idle("a", 2), taints=["hot:PreferNoSchedule", "very:PreferNoSchedule"]),
        box("n2", taints=[taint]),
        query_answer("busy", {"n1": 0.9, "n2": 0.1}),
    )

    assert len(asked(version, world, **PRESSURE).evicts) == moves


@pytest.mark.parametrize(
    ("taints", "moves", "refused"),
    [
        pytest.param([], 0, {"would-return": 2}, id="the scheduler knows nothing of the load"),
        pytest.param(["hot:PreferNoSchedule"], 1, {}, id="a soft taint keeps the pods away"),
    ],
)
def test_ours_moves_no_pod_that_the_scheduler_would_put_back(
    taints: list[str], moves: int, refused: dict[str, int]
) -> None:
    world = cluster(
        box("n1", *idle("a", 2), taints=taints),
        box("n2", *idle("b", 2)),
        query_answer("busy", {"n1": 0.9, "n2": 0.1}),
    )
    planned = asked(OURS, world, **PRESSURE)

    assert len(planned.evicts) == moves
    assert planned.refused == refused


def test_several_queries_have_a_threshold_each() -> None:
    queries = {"psi_cpu": "waiting_cpu", "psi_io": "waiting_io"}
    args = {
        "thresholds": {"psi_cpu": 10, "psi_io": 10},
        "targetThresholds": {"psi_cpu": 30, "psi_io": 30},
        "metricsUtilization": {"source": "Prometheus", "prometheus": {"queries": queries}},
    }
    world = cluster(
        box("n1", *idle("a", 2)),
        box("n2"),
        query_answer("waiting_cpu", {"n1": 0.05, "n2": 0.01}),
        query_answer("waiting_io", {"n1": 0.45, "n2": 0.02}),
    )
    planned = asked(OURS, world, **args)

    assert planned.plan.moves[0].reason == "n1 is at 45% psi_io (target 30%)"
    assert len(planned.evicts) == 1


def test_nodes_may_be_named_by_another_label() -> None:
    prometheus = {"query": "busy", "nodeLabel": "node"}
    metrics = {"source": "Prometheus", "prometheus": prometheus}
    args = {**PRESSURE, "metricsUtilization": metrics}

    assert len(asked(OURS, four(SOUND, label="node"), **args).evicts) == 1
    assert asked(OURS, four(SOUND), **args).evicts == []


@either
def test_distances_from_the_mean_go_by_what_is_measured(version: str) -> None:
    args = {
        **QUERY,
        "thresholds": {"MetricResource": 10},
        "targetThresholds": {"MetricResource": 10},
        "useDeviationThresholds": True,
    }
    world = four({"n1": 0.65, "n2": 0.35, "n3": 0.5, "n4": 0.5})

    (move,) = asked(version, world, **args).plan.moves
    assert move.reason == "n1 is at 65% by its query (target 60%)"


# -- what may be written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metrics", "problem"),
    [
        pytest.param(
            {"source": "Prometheus", "prometheus": {"query": "a", "queries": {"b": "b"}}},
            "both `query` and `queries` are set",
            id="two ways to ask",
        ),
        pytest.param(
            {"source": "Prometheus", "prometheus": {"queries": {"cpu": ""}}},
            "the query for `cpu` is empty",
            id="an empty query",
        ),
        pytest.param(
            {"source": "Prometheus", "prometheus": {"queries": {"psi": "a", "io": "b"}}},
            "`thresholds` must name `io`, `psi`, one for each query",
            id="a query without a threshold",
        ),
        pytest.param(
            {"source": "Prometheus", "prometheus": {"query": "a", "nodeLabel": ""}},
            "`nodeLabel` is empty",
            id="no label",
        ),
        pytest.param(
            {"source": "KubernetesMetrics", "maxAge": "0s"},
            "`0s` is not a possible age",
            id="no age at all",
        ),
    ],
)
def test_mistakes_are_reported(metrics: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(problem)):
        asked(OURS, four(SOUND), **{**CPU, "metricsUtilization": metrics})


def test_the_metrics_api_measures_no_gpus() -> None:
    args = {"thresholds": {"gpu": 20}, "targetThresholds": {"gpu": 50}, **API}

    with pytest.raises(PolicyError, match="the metrics API does not measure `gpu`"):
        asked(UPSTREAM, four(SOUND), **args)


@pytest.mark.parametrize(
    "more",
    [{"prometheus": {"queries": {"a": "b"}}}, {"prometheus": {"nodeLabel": "a"}}, {"maxAge": "1m"}],
)
def test_what_is_ours_is_a_mistake_in_a_policy_of_the_descheduler(more: dict[str, Any]) -> None:
    metrics = {"source": "Prometheus", **more}

    with pytest.raises(PolicyError, match="resettle/v1"):
        asked(UPSTREAM, four(SOUND), **{**PRESSURE, "metricsUtilization": metrics})
