"""LowNodeUtilization: taints, extended resources, limits, and every argument with its mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.framework import default_registry
from resettle.model.measurements import SMOOTHED
from resettle.plugins.low_node_utilization import PLUGIN, Args
from resettle.testing import NodeBuilder, World, cluster, node, plan, pod
from resettle.testing.builders import Object
from resettle.utilization.metrics_args import MetricsUtilization

CPU: dict[str, Any] = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}}
GPU = "vendor.example/gpu"


def load(prefix: str, count: int, **options: Any) -> list[Object]:
    """Pods that ask for 400m of a node's 4 cpu each."""
    return [pod(f"{prefix}-{i}", **{"cpu": "400m", **options}) for i in range(count)]


def over_and_under(count: int = 6, *, under: NodeBuilder | None = None, **options: Any) -> World:
    return cluster(node("over").holding(*load("p", count, **options)), under or node("under"))


def tolerating(*keys: str) -> list[dict[str, str]]:
    return [{"key": key, "operator": "Exists"} if key else {"operator": "Exists"} for key in keys]


@pytest.mark.parametrize(
    ("taints", "tolerations", "evicted"),
    [
        pytest.param([], [], 1, id="no taint"),
        pytest.param(["a:NoSchedule"], [], 0, id="a taint"),
        pytest.param(["a:NoSchedule"], tolerating("a"), 1, id="a tolerated taint"),
        pytest.param(["a:PreferNoSchedule"], [], 0, id="a soft taint bars too"),
        pytest.param(
            ["a:NoSchedule", "b:NoSchedule"], tolerating("a", "b"), 1, id="both tolerated"
        ),
        pytest.param(["a:NoSchedule", "b:NoSchedule"], tolerating("a"), 0, id="one tolerated"),
        pytest.param(
            ["a:NoSchedule", "b:NoSchedule"], tolerating(""), 0, id="one catch-all for two taints"
        ),
        pytest.param(
            ["a:NoSchedule", "b:NoSchedule"],
            tolerating("", "c"),
            1,
            id="as many as there are taints",
        ),
    ],
)
def test_a_pod_goes_only_if_it_has_the_taints_of_some_node_with_room(
    taints: list[str], tolerations: list[dict[str, str]], evicted: int
) -> None:
    world = over_and_under(under=node("under", taints=taints), tolerations=tolerations)

    assert len(plan(PLUGIN, world, **CPU).evicts) == evicted


def test_one_untainted_node_with_room_is_enough() -> None:
    world = cluster(
        node("over").holding(*load("p", 6)), node("bad", taints=["a:NoSchedule"]), node("good")
    )

    assert len(plan(PLUGIN, world, **CPU).evicts) == 1


def test_a_watched_pod_is_reported_that_no_node_with_room_tolerates_it() -> None:
    world = over_and_under(under=node("under", taints=["a:NoSchedule"]))
    planned = plan(PLUGIN, world, watching=["default/p-0"], **CPU)

    assert [(note.subject, note.code) for note in planned.plan.notes] == [("default/p-0", "taints")]
    assert planned.plan.proposed == 0


STATIC: dict[str, Any] = {"thresholds": {GPU: 20}, "targetThresholds": {GPU: 50}}
DEVIATION: dict[str, Any] = {
    "thresholds": {GPU: 5},
    "targetThresholds": {GPU: 5},
    "useDeviationThresholds": True,
}


# Eight pods with a gpu each on the first node.
@pytest.mark.parametrize(
    ("args", "gpus", "evicted", "stopped"),
    [
        pytest.param(STATIC, [8, 16], 4, [], id="all nodes offer it"),
        pytest.param(STATIC, [8, 0], 0, ["no-room"], id="the node with room does not"),
        pytest.param(STATIC, [8, 0, 16], 4, [], id="one of two others does"),
        pytest.param(DEVIATION, [8, 8], 4, ["no-room"], id="deviation: around half"),
        pytest.param(
            DEVIATION, [8, 0], 0, ["none-overutilized"], id="deviation: one node's average"
        ),
        pytest.param(
            DEVIATION, [8, 0, 8], 4, ["no-room"], id="deviation: over those that offer it"
        ),
    ],
)
def test_extended_resources_are_balanced_too(
    args: dict[str, Any], gpus: list[int], evicted: int, stopped: list[str]
) -> None:
    boxes = [
        node(f"n{i}", resources={GPU: str(count)} if count else None)
        for i, count in enumerate(gpus)
    ]
    boxes[0] = boxes[0].holding(*(pod(f"p-{i}", requests={GPU: "1"}) for i in range(8)))
    planned = plan(PLUGIN, cluster(*boxes), **args)

    assert len(planned.evicts) == evicted
    assert planned.stopped == stopped


@pytest.mark.parametrize(
    ("args", "evicted"),
    [
        pytest.param({}, 5, id="none"),
        pytest.param({"evictionLimits": {}}, 5, id="an empty one"),
        pytest.param({"evictionLimits": {"node": 1}}, 2, id="for each node"),
        pytest.param({"evictionLimits": {"node": 0}}, 0, id="of nothing"),
    ],
)
def test_its_own_limit_ends_the_work_on_a_node_and_refuses_no_pod(
    args: dict[str, Any], evicted: int
) -> None:
    """Nodes a and b are over by 4 and 1; c has room for more than five."""
    world = cluster(
        node("a").holding(*load("a", 9)),
        node("b").holding(*load("b", 6)),
        node("c", cpu="40"),
    )
    planned = plan(PLUGIN, world, **CPU, **args)

    assert len(planned.evicts) == evicted
    assert planned.refused == {}
    assert planned.stopped == []


def test_pods_of_excluded_namespaces_stay_and_still_weigh() -> None:
    world = cluster(
        node("over").holding(*load("kept", 5, namespace="kept"), *load("free", 1)), node("under")
    )
    planned = plan(PLUGIN, world, evictableNamespaces={"exclude": ["kept"]}, **CPU)

    assert planned.evicts == ["free-0"]
    assert planned.plan.proposed == 1


def test_a_refused_pod_frees_nothing() -> None:
    kept = load("kept", 2, volumes=[{"name": "v", "emptyDir": {}}], priority=-1)
    world = cluster(node("over").holding(*kept, *load("free", 5)), node("under"))
    planned = plan(PLUGIN, world, **CPU)

    assert len(planned.evicts) == 2
    assert planned.refused == {"local-storage": 2}


def test_the_reason_names_what_is_above_its_target() -> None:
    (move,) = plan(PLUGIN, over_and_under(), **CPU).plan.moves

    assert move.reason == "over is at 60% cpu (target 50%)"


def test_it_reads_usage_only_where_requests_do_not_count() -> None:
    assert PLUGIN.measures(Args()) == frozenset()
    assert PLUGIN.measures(Args(metrics_utilization=MetricsUtilization())) == {SMOOTHED}
    assert default_registry()[PLUGIN.name] is PLUGIN


PROMETHEUS: dict[str, Any] = {"source": "Prometheus", "prometheus": {"query": "up"}}


@pytest.mark.parametrize(
    ("args", "problems"),
    [
        pytest.param(
            {"thresholds": {}, "targetThresholds": {}},
            ["`thresholds` is missing", "`targetThresholds` is missing"],
            id="both missing",
        ),
        pytest.param({"thresholds": {}}, ["`thresholds` is missing"], id="no thresholds"),
        pytest.param({"targetThresholds": {}}, ["`targetThresholds` is missing"], id="no targets"),
        pytest.param({"thresholds": {"cpu": -1}}, ["-1 is not a percentage"], id="negative"),
        pytest.param({"targetThresholds": {"cpu": 100.5}}, ["100.5 is not a perc"], id="above 100"),
        pytest.param(
            {"thresholds": {"cpu": 60}}, ["60 is above the target"], id="low above target"
        ),
        pytest.param(
            {"thresholds": {"cpu": 20, "memory": 20}},
            ["`memory` is in `thresholds`"],
            id="more low",
        ),
        pytest.param(
            {"targetThresholds": {"cpu": 50, "memory": 20}},
            ["`memory` is in `targetThresholds`"],
            id="more targets",
        ),
        pytest.param(
            {"thresholds": {"cpu": 120, "memory": 20}, "targetThresholds": {"memory": 50}},
            ["120 is not a percentage", "`cpu` is in `thresholds`"],
            id="above 100 and without a target",
        ),
        pytest.param(
            {"evictableNamespaces": {"include": ["a"]}}, ["`include` is not possible"], id="include"
        ),
        pytest.param(
            {"evictionLimits": {"node": -1}}, ["evictionLimits.node"], id="negative limit"
        ),
        pytest.param({"evictionLimits": {"total": 1}}, ["total"], id="unknown limit"),
        pytest.param(
            {"metricsUtilization": {"source": "Sundial"}},
            ["`Sundial` is not a source"],
            id="source",
        ),
        pytest.param({"metricsUtilization": {}}, ["is not a source"], id="no source"),
        pytest.param(
            {"metricsUtilization": {"metricsServer": True, "source": "KubernetesMetrics"}},
            ["`metricsServer` does not go together"],
            id="said twice",
        ),
        pytest.param(
            {"metricsUtilization": {**PROMETHEUS, "source": "KubernetesMetrics"}},
            ["`prometheus` does not go together"],
            id="a query for the wrong source",
        ),
        pytest.param(
            {"metricsUtilization": {"source": "Prometheus"}},
            ["`prometheus.query` is missing", "`thresholds` must name `MetricResource`"],
            id="Prometheus without a query, and with cpu",
        ),
        pytest.param(
            {"metricsUtilization": PROMETHEUS, "thresholds": {"MetricResource": 30}},
            ["`targetThresholds` must name `MetricResource`"],
            id="Prometheus with one threshold of cpu",
        ),
    ],
)
def test_mistaken_arguments_are_reported(args: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        plan(PLUGIN, over_and_under(), **{**CPU, **args})

    assert [problem for problem in problems if problem not in str(caught.value)] == []


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(CPU, id="plain"),
        pytest.param({"thresholds": {"cpu": 50}, "targetThresholds": {"cpu": 50}}, id="equal"),
        pytest.param(
            {"thresholds": {"cpu": 0}, "targetThresholds": {"cpu": 100}}, id="the extremes"
        ),
        pytest.param({"thresholds": {"cpu": 12.5}, "targetThresholds": {"cpu": 50}}, id="fraction"),
        pytest.param(
            {
                "thresholds": {"cpu": 20},
                "targetThresholds": {"cpu": 10},
                "useDeviationThresholds": True,
            },
            id="deviations may be the other way round",
        ),
        pytest.param({**CPU, "evictableNamespaces": {"exclude": ["a"]}}, id="exclude"),
    ],
)
def test_sound_arguments_are_taken(args: dict[str, Any]) -> None:
    assert plan(PLUGIN, over_and_under(), **args).errors == []
