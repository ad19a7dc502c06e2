"""Dashboard and alerts speak of metrics and labels that there are, and alerts of a page to read."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
import yaml

from resettle.evict.ledger import Stage
from resettle.framework.mover import Ending
from resettle.loop.status import Result, Role
from resettle.serving.catalogue import CATALOGUE
from resettle.serving.meters import Meters
from resettle.testing import node, pod
from tests.running import running
from tests.serving.readings import Reading, readings

from .monitoring import DASHBOARD, MONITORING, RULES, Asked, alerts, panels, queries
from .promql import read

OF_THE_TARGET = {"job", "instance"}
"""Labels that Prometheus adds."""
VALUES: dict[tuple[str, str], set[str]] = {
    ("resettle_role", "role"): {*Role},
    ("resettle_cycles_total", "result"): {*Result},
    ("resettle_last_cycle_result", "result"): {*Result},
    ("resettle_moves_in_flight", "stage"): {*Stage},
    ("resettle_moves_total", "outcome"): {*Ending},
    ("resettle_verdicts_total", "verdict"): {"admitted", "moving", "refused"},
    ("resettle_extension_point_runs_total", "result"): {"done", "stopped", "failed"},
    ("descheduler_pods_evicted_total", "result"): {"success", "error", "background"},
}
every_query = pytest.mark.parametrize("asked", [*queries()], ids=lambda it: it.by)


def exposed() -> dict[str, set[str]]:
    """The labels of every name that a run exposes once it has evicted somebody."""
    meters = Meters()

    async def story() -> None:
        full = node("n1").holding(pod("a", age="3h"))
        objects = [full.node, node("n2").node, *full.pods]
        watched = {"witnesses": [meters.reported], "onlooker": meters}
        async with running(objects, **watched) as stage:  # type: ignore[arg-type]
            await stage.cycles(1)
            meters.look(stage.runner.status())

    asyncio.run(story())
    told: list[Reading] = readings(meters.text())
    return {it.name: set(it.labels) for it in told}


@pytest.fixture(scope="module")
def there() -> dict[str, set[str]]:
    """What there is to ask for."""
    return exposed()


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
    assert asked.told_by <= (query.groupings or known)


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

    ours = {it.name for it in CATALOGUE if it.name.startswith("resettle_")}
    unseen = ours - names
    assert unseen <= {
        "resettle_cache_synced",
        "resettle_policy_last_reload_success_timestamp_seconds",
    }


def test_the_operators_alerts_are_the_same() -> None:
    text = (MONITORING / "prometheusrule.yaml").read_text(encoding="utf-8")

    assert yaml.safe_load(text)["spec"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))


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
        for it in spots
        for x in range(it["x"], it["x"] + it["w"])
        for y in range(it["y"], it["y"] + it["h"])
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
