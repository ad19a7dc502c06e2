"""Metrics of nodes: figures, thresholds and bands, and no node that has gone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from resettle.cycle import CycleReport, Round
from resettle.framework import NodeUtilizationSummary, Plan, PluginRun
from resettle.plugins.high_node_utilization import PLUGIN as HIGH
from resettle.plugins.low_node_load.plugin import PLUGIN as LOAD
from resettle.plugins.low_node_utilization import PLUGIN as LOW
from resettle.policy.args import ExtensionPoint
from resettle.telemetry.metrics.run import NodeFigures, RunMetrics
from resettle.testing import World, cluster, node, node_metrics, plan, pod, query_answer
from tests.telemetry.harness import Reading, read, readings

SHARE = "descheduler_lownodeutilization_node_utilization_value"
LINE = "descheduler_lownodeutilization_node_utilization_threshold"
CLASS = "descheduler_lownodeutilization_node_classification"
MODE = "descheduler_lownodeutilization_threshold_mode"
LINES: dict[str, Any] = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 60}}


def world(**requested: str) -> World:
    """Nodes of ten cpu, with a pod on each that asks for so much of it."""
    return cluster(
        *(
            node(name, cpu="10").holding(pod(f"on-{name}", cpu=cpu))
            for name, cpu in requested.items()
        )
    )


def node_readings(runs: tuple[PluginRun, ...]) -> list[Reading]:
    return readings(NodeFigures(runs).text)


def values(shown: list[Reading], name: str, *labels: str) -> dict[Any, float]:
    """The values of a metric, by these labels."""
    lines = [reading for reading in shown if reading.name == name]
    return {tuple(line.labels[label] for label in labels): line.value for line in lines}


def counts(shown: list[Reading]) -> dict[str, float]:
    return {
        reading.labels["band"]: reading.value
        for reading in shown
        if reading.name == "resettle_nodes"
    }


def survey(**bands: str) -> NodeUtilizationSummary:
    """Nodes by band; all of them use half of their cpu."""
    names = {band: tuple(names.split()) for band, names in bands.items()}
    known = [name for band in names if band != "unknown" for name in names[band]]
    return NodeUtilizationSummary(bands=names, shares={name: {"cpu": 50.0} for name in known})


def run(
    *surveys: NodeUtilizationSummary, plugin: str = "LowNodeUtilization", profile: str = "p"
) -> PluginRun:
    point = ExtensionPoint.BALANCE
    return PluginRun(profile=profile, plugin=plugin, point=point, utilization_summaries=surveys)


# -- what plugins find ----------------------------------------------------------------------------


def test_figures_lines_and_classes_of_every_node_are_shown() -> None:
    shown = node_readings(plan(LOW, world(low="2", fair="5", full="9"), **LINES).plan.runs)

    shares = values(shown, SHARE, "node", "resource")
    assert shares == {("low", "cpu"): 0.2, ("fair", "cpu"): 0.5, ("full", "cpu"): 0.9}
    assert values(shown, CLASS, "node") == {("low",): 0, ("fair",): 1, ("full",): 2}
    assert values(shown, LINE, "node", "threshold_type") == {
        (name, kind): line
        for name in ("low", "fair", "full")
        for kind, line in (("low", 0.3), ("high", 0.6))
    }
    assert values(shown, MODE) == {(): 0}
    assert counts(shown) == {"under": 1, "within": 1, "over": 1, "unknown": 0}


def test_lines_that_follow_the_mean_are_shown_where_they_are() -> None:
    off: dict[str, Any] = {"thresholds": {"cpu": 10}, "targetThresholds": {"cpu": 10}}
    shown = node_readings(
        plan(LOW, world(a="1", b="9"), useDeviationThresholds=True, **off).plan.runs
    )

    assert values(shown, MODE) == {(): 1}
    lines = values(shown, LINE, "node", "threshold_type")
    assert (lines["a", "low"], lines["a", "high"]) == (0.4, 0.6)


def test_a_node_that_was_not_measured_is_counted_and_has_no_figures() -> None:
    lines: dict[str, Any] = {
        "thresholds": {"MetricResource": 20},
        "targetThresholds": {"MetricResource": 50},
    }
    answer = query_answer("load", {"a": 0.9, "b": 0.1, "c": 0.3})
    shown = node_readings(
        plan(
            LOW,
            cluster(node("a"), node("b"), node("c"), node("dark"), answer),
            api_version="resettle/v1",
            policy={
                "metricsProviders": [{"source": "Prometheus", "prometheus": {"url": "http://p"}}]
            },
            metricsUtilization={"source": "Prometheus", "prometheus": {"query": "load"}},
            **lines,
        ).plan.runs
    )

    assert counts(shown) == {"under": 1, "within": 1, "over": 1, "unknown": 1}
    assert {node for (node,) in values(shown, CLASS, "node")} == {"a", "b", "c"}
    assert values(shown, SHARE, "node", "resource")["a", "MetricResource"] == 0.9


def test_other_balancing_plugins_are_counted_and_not_shown_node_by_node() -> None:
    packed = node_readings(plan(HIGH, world(low="1", full="9"), thresholds={"cpu": 30}).plan.runs)
    pools: dict[str, Any] = {
        "nodePools": [
            {"name": name, "nodeSelector": {"matchLabels": {"pool": name}}, **lines}
            for name, lines in (
                ("red", {"lowThresholds": {"cpu": 30}, "highThresholds": {"cpu": 60}}),
                ("blue", {"lowThresholds": {"cpu": 10}, "highThresholds": {"cpu": 20}}),
            )
        ]
    }
    measured = cluster(
        *(node(name, cpu="10", labels={"pool": name[:-1]}) for name in ("red1", "red2", "blue1")),
        *(node_metrics(name, cpu="5") for name in ("red1", "red2", "blue1")),
    )
    hot = node_readings(plan(LOAD, measured, api_version="resettle/v1", **pools).plan.runs)

    assert counts(packed) == {"under": 1, "within": 1, "over": 0, "unknown": 0}
    assert counts(hot) == {"under": 0, "within": 2, "over": 1, "unknown": 0}
    for shown in (packed, hot):
        assert {reading.name for reading in shown} == {"resettle_nodes"}


def test_a_plugin_that_could_not_measure_is_shown_no_more() -> None:
    failed = plan(
        LOW,
        world(a="1", b="9"),
        metricsUtilization={"source": "KubernetesMetrics"},
        **LINES,
    ).plan

    assert failed.errors
    assert node_readings(failed.runs) == []


# -- how it is written ----------------------------------------------------------------------------


def test_of_several_profiles_each_is_counted_and_the_last_shown_node_by_node() -> None:
    shown = node_readings((run(survey(over="a b")), run(survey(under="a"), profile="q")))

    assert values(shown, "resettle_nodes", "profile", "band")["p", "over"] == 2
    assert values(shown, "resettle_nodes", "profile", "band")["q", "under"] == 1
    assert values(shown, CLASS, "node") == {("a",): 0}


@pytest.mark.parametrize("name", ['a "name"', "back\\slash", "two\nlines"])
def test_names_are_spelled_so_that_they_can_be_read(name: str) -> None:
    text = NodeFigures([run(survey(over="a"), profile=name, plugin="Q")]).text.decode()

    spelled = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    assert f'resettle_nodes{{profile="{spelled}",plugin="Q",band="over"}} 1\n' in text


def test_nodes_that_are_gone_are_shown_no_more() -> None:
    metrics, snapshot = RunMetrics(), world(a="1").snapshot()
    metrics.observe_cycle(snapshot, report(run(survey(over="a", within="b"))))
    assert read(metrics, CLASS, node="a") == 2
    assert read(metrics, "resettle_nodes", band="over") == 1

    metrics.observe_cycle(snapshot, report(run(survey(within="b"))))
    assert {
        reading.labels["node"] for reading in readings(metrics.text()) if reading.name == CLASS
    } == {"b"}
    assert read(metrics, "resettle_nodes", band="over") == 0

    metrics.reset()
    assert read(metrics, "resettle_nodes") == 0


def report(*runs: PluginRun) -> CycleReport:
    drawn = Plan(
        moves=(),
        runs=runs,
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        nodes=2,
        nodes_in_scope=2,
        pods=0,
    )
    return CycleReport((Round(drawn, ()),), took=0.1)
