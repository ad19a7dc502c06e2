"""Dashboard and alerts speak of metrics and labels that there are, and alerts of a page to read."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
import yaml
from msgspec import structs

from resettle.controllers.soft_taints.desired import OVERUTILIZED
from resettle.eviction.in_flight import MoveStage
from resettle.framework.mover import MoveResult
from resettle.model.constraints import PREFER_NO_SCHEDULE
from resettle.plugins.low_node_utilization import PLUGIN as LOW
from resettle.runtime.status import ControllerStatus, Result, Role
from resettle.telemetry.metrics.catalogue import RUN_CATALOGUE
from resettle.telemetry.metrics.run import RunMetrics
from resettle.testing import node, pod
from resettle.utilization.bands import BANDS
from tests.runtime.harness import policy, running
from tests.telemetry.harness import Reading, readings
from tools.operator_rules import SHIPPED, manifest

from .manifests import DEPLOY, documents, pod_of
from .monitoring import DASHBOARD, MONITORING, Asked, alerts, panels, queries, recorded
from .promql import read

OF_THE_TARGET = {"job", "instance"}
"""Labels that Prometheus adds."""
OF_OTHERS: dict[str, set[str]] = {
    "node_cpu_seconds_total": {"cpu", "mode"},
    "node_memory_MemAvailable_bytes": set(),
    "node_memory_MemTotal_bytes": set(),
    "node_pressure_cpu_waiting_seconds_total": set(),
    "node_pressure_memory_waiting_seconds_total": set(),
    "node_pressure_io_waiting_seconds_total": set(),
    "kube_node_role": {"node", "role"},
    "kube_node_status_allocatable": {"node", "resource", "unit"},
    "kube_node_spec_taint": {"node", "key", "value", "effect"},
}
"""What node-exporter and kube-state-metrics expose."""
VALUES: dict[tuple[str, str], set[str]] = {
    ("resettle_role", "role"): {*Role},
    ("resettle_cycles_total", "result"): {*Result},
    ("resettle_last_cycle_result", "result"): {*Result},
    ("resettle_moves_in_flight", "stage"): {*MoveStage},
    ("resettle_moves_total", "outcome"): {*MoveResult},
    ("resettle_verdicts_total", "verdict"): {"admitted", "moving", "refused"},
    ("resettle_extension_point_runs_total", "result"): {"done", "stopped", "failed"},
    ("resettle_nodes", "band"): {*BANDS},
    ("descheduler_pods_evicted_total", "result"): {"success", "error", "background"},
    ("descheduler_pods_evicted_total", "strategy"): {LOW.name},
    ("descheduler_lownodeutilization_node_utilization_threshold", "threshold_type"): {
        "low",
        "high",
    },
    ("node_cpu_seconds_total", "mode"): {"idle"},
    ("kube_node_role", "role"): {"worker", "control-plane", "master"},
    ("kube_node_status_allocatable", "resource"): {"memory"},
    ("kube_node_spec_taint", "key"): {f".*/{OVERUTILIZED}"},
    ("kube_node_spec_taint", "effect"): {PREFER_NO_SCHEDULE},
}
every_query = pytest.mark.parametrize("asked", [*queries()], ids=lambda query: query.by)


CONTROLLER = ControllerStatus(profile="main", name="C", running=True, figures={"waiting": 1})


def exposed() -> dict[str, set[str]]:
    """The labels of every name that a run exposes once it has evicted and balanced."""
    metrics = RunMetrics()

    async def run_scenario() -> None:
        full = node("n1").holding(pod("a", age="3h"))
        objects = [full.node, node("n2").node, *full.pods]
        document = policy()
        lines = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
        document["profiles"][0]["pluginConfig"].append({"name": LOW.name, "args": lines})
        document["profiles"][0]["plugins"]["balance"] = {"enabled": [LOW.name]}
        watched = {"observers": [metrics.observe_cycle], "run_observer": metrics}
        async with running(objects, document, **watched) as stage:  # type: ignore[arg-type]
            await stage.cycles(1)
            status = stage.runner.status()
            metrics.update(structs.replace(status, controllers=(CONTROLLER,)))

    asyncio.run(run_scenario())
    samples: list[Reading] = readings(metrics.text())
    return {sample.name: set(sample.labels) for sample in samples}


@pytest.fixture(scope="module")
def there() -> dict[str, set[str]]:
    """What there is to ask for: what a run exposes, what rules record, what others expose."""
    records = {name: {"instance", "node"} for name in recorded()}
    return {**exposed(), **records, **OF_OTHERS}


@every_query
def test_every_metric_that_is_asked_for_is_exposed(
    asked: Asked, there: dict[str, set[str]]
) -> None:
    asked_for = read(asked.expr).metrics

    assert asked_for
    assert asked_for <= there.keys()


@every_query
def test_every_label_that_is_asked_for_is_one_of_its_metric(
    asked: Asked, there: dict[str, set[str]]
) -> None:
    query = read(asked.expr)

    for metric, matcher in query.matchers:
        assert matcher.label in there[metric] | OF_THE_TARGET
    known = OF_THE_TARGET.union(*(there[metric] for metric in query.metrics))
    assert query.groupings <= known
    assert asked.shown_labels <= (query.groupings or known)


@every_query
def test_every_value_that_is_asked_for_is_one_that_the_label_can_have(asked: Asked) -> None:
    for metric, matcher in read(asked.expr).matchers:
        if matcher.label in OF_THE_TARGET:
            continue
        values = VALUES[metric, matcher.label]
        words = matcher.value.split("|") if matcher.operator == "=~" else [matcher.value]
        assert {*words} <= values


def test_every_metric_of_ours_is_shown_or_watched() -> None:
    asked_for = {metric for asked in queries() for metric in read(asked.expr).metrics}
    names = {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in asked_for}

    ours = {item.name for item in RUN_CATALOGUE if item.name.startswith("resettle_")}
    unseen = ours - names
    assert unseen <= {
        "resettle_cache_synced",
        "resettle_policy_last_reload_success_timestamp_seconds",
    }


@pytest.mark.parametrize("written", SHIPPED)
def test_the_operators_rules_are_the_same(written: str) -> None:
    name, file = SHIPPED[written]
    text = (MONITORING / written).read_text(encoding="utf-8")

    assert text == manifest(name, file), "run `make rules`"
    document = yaml.safe_load(text)
    assert document["spec"] == yaml.safe_load((MONITORING / file).read_text(encoding="utf-8"))
    assert document["metadata"]["name"] == name


def test_every_alert_says_what_it_is_and_where_to_read_on() -> None:
    for alert in alerts():
        assert {"summary", "description", "runbook"} == alert["annotations"].keys()
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert alert["annotations"]["runbook"].endswith(f"#{alert['alert'].lower()}")


def test_a_dashboard_can_be_imported() -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))

    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    spots = [panel["gridPos"] for panel in board["panels"]]
    for spot in spots:
        assert spot["x"] + spot["w"] <= 24
    cells = [
        (x, y)
        for place in spots
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells), "no panel lies over another"


@pytest.mark.parametrize(
    ("expr", "metrics", "groupings"),
    [
        ('sum by (a, b) (rate(x_total{c="d"}[5m])) > 2 * y', {"x_total", "y"}, {"a", "b"}),
        ("absent(x) and on (job) y == 1 unless z offset 5m", {"x", "y", "z"}, {"job"}),
        ('time() - max(x{a=~"b|c", d="{}"} > 0)', {"x"}, set[str]()),
    ],
)
def test_queries_are_read_as_they_are_meant(
    expr: str, metrics: set[str], groupings: set[str]
) -> None:
    query = read(expr)

    assert (set(query.metrics), set(query.groupings)) == (metrics, groupings)


def test_both_components_are_scraped_each_as_a_job_of_its_own() -> None:
    (monitor,) = documents(MONITORING / "podmonitor.yaml")
    (chosen,) = monitor["spec"]["selector"]["matchExpressions"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]

    jobs = set()
    for file in ("kustomize/process/deployment.yaml", "soft-tainter/deployment.yaml"):
        (workload,) = documents(DEPLOY / file)
        pod = pod_of(workload)
        (port,) = pod["spec"]["containers"][0]["ports"]
        assert port["name"] == endpoint["port"]
        jobs.add(pod["metadata"]["labels"][monitor["spec"]["jobLabel"]])
    assert jobs == set(chosen["values"])
    assert chosen["key"] == monitor["spec"]["jobLabel"]
