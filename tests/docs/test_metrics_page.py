"""The pages about metrics and monitoring keep their word."""

from __future__ import annotations

import re

import pytest

from resettle.cli.main import build_parser
from resettle.controllers.soft_taints.runner import RoundResult
from resettle.eviction.in_flight import MoveStage
from resettle.framework.mover import MoveResult
from resettle.runtime.status import Result, Role
from resettle.telemetry.metrics.catalogue import RUN_CATALOGUE, SOFT_TAINTER_CATALOGUE
from resettle.telemetry.metrics.moves import IMMEDIATE_RESULTS
from resettle.telemetry.metrics.run import LIMIT_RESULTS, RunMetrics
from resettle.telemetry.metrics.soft_tainter import SoftTainterMetrics, Write
from resettle.telemetry.routes import ALIVE, READY
from resettle.utilization.bands import OVER, UNDER, UNKNOWN, WITHIN
from tests.deploy.monitoring import MONITORING, alerts
from tools.metrics_page import PAGE, VALUES, page

from .page import doc


def test_the_page_of_metrics_is_what_the_catalogue_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tools.metrics_page`"


@pytest.mark.parametrize(
    ("heading", "values"),
    [
        ("`result` of evictions", {*IMMEDIATE_RESULTS.values(), *LIMIT_RESULTS.values()}),
        ("`result` of cycles", {*Result}),
        ("`outcome`", {*MoveResult}),
        ("`stage`", {*MoveStage}),
        ("`role`", {*Role}),
        ("`result` of rounds", {*RoundResult}),
        ("`outcome` of writes", {*Write}),
        ("`band`", {UNDER, WITHIN, OVER, UNKNOWN}),
    ],
)
def test_every_value_of_a_label_is_explained(heading: str, values: set[str]) -> None:
    assert set(VALUES[heading]) == values


def test_every_metric_that_is_exposed_is_on_the_page() -> None:
    text = RunMetrics().text() + SoftTainterMetrics().text()
    exposed = set(re.findall(r"^# TYPE (\S+)", text.decode(), re.MULTILINE))

    listed = set(re.findall(r"`((?:descheduler|resettle|process)_\w+)`", page()))
    assert exposed <= listed
    assert {metric.name for metric in (*RUN_CATALOGUE, *SOFT_TAINTER_CATALOGUE)} <= listed


def test_every_alert_has_a_section_that_says_what_to_do() -> None:
    sections = doc("operate/monitoring.md").anchors

    for alert in alerts():
        place, _, anchor = alert["annotations"]["runbook"].partition("#")
        assert place == "docs/operate/monitoring.md"
        assert anchor in sections


def test_every_check_of_health_is_explained() -> None:
    assert doc("operate/monitoring.md").first_column("Health") == {*ALIVE, *READY}


@pytest.mark.parametrize("command", ["run", "soft-tainter"])
def test_every_flag_of_serving_is_explained(command: str) -> None:
    words = build_parser().parse_args([command, "--policy=p"])
    flags = {name.replace("_", "-") for name in vars(words)}
    serving = {flag for flag in flags if flag.startswith("tls-")} - {"tls-curve-preferences"}
    serving |= {"secure-port", "bind-address", "cert-dir", "disable-metrics", "protect-metrics"}

    assert serving <= flags
    assert {f"--{flag}" for flag in serving} == doc("operate/monitoring.md").first_column("Flags")


def test_every_file_that_is_shipped_is_named() -> None:
    shipped = {file.name for file in MONITORING.iterdir()}

    assert doc("operate/monitoring.md").first_column("What is shipped") == shipped


def test_the_alerts_are_listed() -> None:
    listed = {row[0].strip("`") for row in doc("operate/monitoring.md").table("Alerts")}

    assert listed == {alert["alert"] for alert in alerts()}
