"""Simulations by what is measured: pods take their use along, and a sound policy comes to rest."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from resettle.model.measurements import METRICS_API, PROMETHEUS, MetricsQuery
from resettle.simulate.load_model import UsageModel
from resettle.testing import (
    NOW,
    World,
    cluster,
    node,
    node_metrics,
    pod,
    pod_metrics,
    query_answer,
)
from tests.simulate.harness import FIVE_MINUTES, on_stage, planner, scripted, simulate

BUSY = MetricsQuery(PROMETHEUS, "busy")
CORE = 10**9


def two(*more: Any) -> World:
    """`hot` with four pods, `cold` with none."""
    pods = [pod(f"p{i}", cpu="500m") for i in range(4)]
    return cluster(node("hot", cpu="8").holding(*pods), node("cold", cpu="8"), *more)


METRICS = (
    node_metrics("hot", cpu="5"),
    node_metrics("cold", cpu="1"),
    *(pod_metrics(f"p{i}", cpu="1") for i in range(3)),
)


def test_a_pod_takes_its_use_along_and_the_rest_stays() -> None:
    simulation = on_stage(two(*METRICS), scripted({1: ["p0"], 2: ["p3"]}))
    simulation.run_cycle()
    after_one = simulation.snapshot.usage[METRICS_API]
    simulation.run_cycle()
    after_two = simulation.snapshot.usage[METRICS_API]

    cpu = [
        {name: used.amounts["cpu"] / CORE for name, used in measured.nodes.items()}
        for measured in (after_one, after_two)
    ]
    assert cpu == [{"hot": 4, "cold": 2}, {"hot": 3.5, "cold": 2.5}], "p3 is worth its request"
    assert after_one.nodes["hot"].at == NOW + FIVE_MINUTES
    assert after_two.pods["default/p0"].at == NOW + 2 * FIVE_MINUTES


def test_a_number_without_parts_is_shared_out_by_requests() -> None:
    world = two(query_answer("busy", {"hot": 0.8, "cold": 0.1}))
    simulation = on_stage(world, scripted({1: ["p0"]}))
    simulation.run_cycle()

    figures = simulation.snapshot.usage[BUSY].figures
    assert {figure.node: round(figure.number, 9) for figure in figures} == {"hot": 0.6, "cold": 0.3}


def test_what_cannot_be_stays_what_it_is() -> None:
    numbers = {"hot": float("nan"), "cold": 1.5, "stranger": 0.3}
    snapshot = two(query_answer("busy", numbers)).snapshot()

    figures = UsageModel(snapshot).measurements(snapshot, NOW + timedelta(hours=1))[BUSY].figures

    assert [(figure.node, str(figure.number)) for figure in figures] == [
        ("hot", "nan"),
        ("cold", "1.5"),
        ("stranger", "0.3"),
    ]
    assert {figure.at for figure in figures} == {NOW + timedelta(hours=1)}


def balancing(source: dict[str, Any], **thresholds: Any) -> Any:
    profile = {
        "name": "main",
        "pluginConfig": [
            {"name": "DefaultEvictor", "args": {"minPodAge": "0s", "minReplicas": 0}},
            {"name": "LowNodeUtilization", "args": {**thresholds, "metricsUtilization": source}},
        ],
        "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
    }
    return planner(
        {
            "apiVersion": "resettle/v1",
            "kind": "DeschedulerPolicy",
            "maxPercentOfPodsToEvict": 100,
            "maxPercentOfNodesToEvictFrom": 100,
            "metricsProviders": [{"source": "Prometheus", "prometheus": {"url": "http://p"}}],
            "profiles": [profile],
        }
    )


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        pytest.param(
            balancing(
                {"source": "KubernetesMetrics"},
                thresholds={"cpu": 20},
                targetThresholds={"cpu": 50},
            ),
            METRICS,
            id="the metrics API",
        ),
        pytest.param(
            balancing(
                {"source": "Prometheus", "prometheus": {"query": "busy"}},
                thresholds={"MetricResource": 30},
                targetThresholds={"MetricResource": 50},
            ),
            (query_answer("busy", {"hot": 0.9, "cold": 0.1}),),
            id="Prometheus",
        ),
    ],
)
def test_a_cluster_comes_to_rest(policy: Any, more: tuple[Any, ...]) -> None:
    result = simulate(two(*more), policy, cycles=6)

    assert result.errors == ()
    assert sum(len(cycle.moves) for cycle in result.cycles) > 0
    assert [len(cycle.moves) for cycle in result.cycles[-3:]] == [0, 0, 0]
