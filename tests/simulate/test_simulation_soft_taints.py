"""Simulations with a soft tainter: it marks what is too full before each cycle, and lets go."""

from __future__ import annotations

from typing import Any

from resettle.controllers.soft_taints.reconcile import Mode, SimulatedTainter, task_of
from resettle.framework import Descheduler
from resettle.model.measurements import PROMETHEUS, MetricsQuery
from resettle.simulate.load_model import CpuDemand
from resettle.simulate.simulation import Simulation
from resettle.testing import World, cluster, node, pod, query_answer
from tests.simulate.harness import FIVE_MINUTES, landed, planner

BUSY = MetricsQuery(PROMETHEUS, "busy")


def policy(**soft_taints: Any) -> Descheduler:
    """A policy that relieves nodes above 50, by a query."""
    args = {
        "thresholds": {"MetricResource": 30},
        "targetThresholds": {"MetricResource": 50},
        "metricsUtilization": {"source": "Prometheus", "prometheus": {"query": "busy"}},
    }
    profile = {
        "name": "main",
        "pluginConfig": [
            {"name": "DefaultEvictor", "args": {"minPodAge": "0s", "minReplicas": 0}},
            {"name": "LowNodeUtilization", "args": args},
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
            "softTaints": soft_taints,
            "profiles": [profile],
        }
    )


def three() -> World:
    """Nodes that request the same; the pods of `a` want most of it."""
    return cluster(
        *(
            node(name, cpu="10", taints=["other:PreferNoSchedule"]).holding(
                *(pod(f"{name}{i}", cpu="1", owner=f"ReplicaSet/{name}{i}") for i in range(3))
            )
            for name in "abc"
        )
    )


BUSY_A = {"default/a0": 2.0, "default/a1": 2.0, "default/a2": 2.0}


def on_stage(cores: dict[str, float], *, tainted: bool = True, **soft_taints: Any) -> Simulation:
    planned = policy(**soft_taints)
    tainter = SimulatedTainter(task_of(planned, Mode.TAINT)) if tainted else None
    wants = CpuDemand(cores, {BUSY: "Use"})
    return Simulation(planned, three().snapshot(), FIVE_MINUTES, demand=wants, tainter=tainter)


def test_without_taints_nothing_moves_for_it_would_come_back() -> None:
    cycle = on_stage(BUSY_A, tainted=False).run_cycle()

    assert (cycle.moves, cycle.tainted) == ((), {})


def test_nodes_are_marked_while_they_are_too_full() -> None:
    simulation = on_stage(BUSY_A)
    first, second = simulation.run_cycle(), simulation.run_cycle()

    assert list(first.tainted) == ["a"]
    assert [str(taint) for taint in first.tainted["a"]] == [
        "nodeutilization.descheduler.kubernetes.io/overutilized=level1:PreferNoSchedule"
    ]
    assert list(landed(first).values()) == ["b"]
    assert (second.moves, second.tainted) == ((), {})


def test_taints_of_others_stay() -> None:
    simulation = on_stage(BUSY_A)
    simulation.run_cycle()
    marked = {each.name: len(each.taints) for each in simulation.snapshot.node_index}
    simulation.run_cycle()

    assert marked == {"a": 2, "b": 1, "c": 1}
    assert {str(taint) for each in simulation.snapshot.node_index for taint in each.taints} == {
        "other:PreferNoSchedule"
    }


def test_a_mark_on_nodes_within_their_lines_leads_past_them() -> None:
    wants = {**BUSY_A, "default/b0": 2.0}
    default = on_stage(wants).run_cycle()
    open_shift = on_stage(wants, style="OpenShift").run_cycle()

    assert landed(default) == {}, "the scheduler would rather go to b, which is not under"
    assert list(landed(open_shift).values()) == ["c"]
    assert {name: len(taints) for name, taints in open_shift.tainted.items()} == {"a": 2, "b": 1}


def test_where_nothing_is_measured_marks_stay_as_they_are() -> None:
    marked = "nodeutilization.descheduler.kubernetes.io/overutilized=level1:PreferNoSchedule"
    world = cluster(node("a", taints=[marked]), node("b"), query_answer("other", {"a": 0.1}))
    planned = policy()
    simulation = Simulation(
        planned,
        world.snapshot(),
        FIVE_MINUTES,
        tainter=SimulatedTainter(task_of(planned, Mode.TAINT)),
    )
    cycle = simulation.run_cycle()

    assert list(cycle.tainted) == ["a"]
    assert "no usage from Prometheus" in cycle.plan.errors[0]
