"""The alerts that are shipped, judged by promtool: each fires when it should, and not before.

Time is promtool's own, which begins at zero and passes at once.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.deploy.monitoring import RULES, alerts

from .watchmen import prometheus

MINUTES = 30 * 60
"""As long as a day is looked back, and an hour more."""
ONE = 'job="resettle", instance="one"'
ROLE = f'resettle_role{{{ONE}, role="%s"}}'
RESULT = f'resettle_last_cycle_result{{{ONE}, result="%s"}}'
AGE = f'resettle_cache_age_seconds{{{ONE}, kind="Pod"}}'
LAST = f"resettle_last_cycle_timestamp_seconds{{{ONE}}}"
INTERVAL = f"resettle_cycle_interval_seconds{{{ONE}}}"
POLICY = f"resettle_policy_last_reload_successful{{{ONE}}}"
BUILD = f'resettle_build_info{{{ONE}, version="0.1.0"}}'
PODS = f"resettle_plan_pods{{{ONE}}}"
MOVES = f'resettle_moves_total{{{ONE}, profile="p", plugin="q", outcome="evicted"}}'
EVICTED = f'descheduler_pods_evicted_total{{{ONE}, namespace="n", result="%s"}}'
SECOND = ROLE.replace('"one"', '"two"')

HEALTHY = {
    BUILD: "1",
    ROLE % "leading": "1",
    ROLE % "standby": "0",
    ROLE % "alone": "0",
    RESULT % "done": "1",
    RESULT % "failed": "0",
    RESULT % "plugin-failed": "0",
    RESULT % "cut-short": "0",
    AGE: "30",
    LAST: "0+60",
    INTERVAL: "300",
    POLICY: "1",
    PODS: "100",
    MOVES: "0+0.1",
    EVICTED % "success": "0+0.1",
    EVICTED % "error": "0+0.01",
}
"""One copy that leads, finishes a cycle every minute, and moves a pod now and then."""
STALLED = {LAST: "60+0"}
"""Its last cycle ended after a minute."""
ALONE = {ROLE % "leading": "0", ROLE % "alone": "1"}
STANDBY = {ROLE % "leading": "0", ROLE % "standby": "1"}


class Case(NamedTuple):
    """What differs from a healthy run, and what is told after so many minutes."""

    differs: Mapping[str, str | None]
    after: int
    fires: set[str]


def case(after: int, *fires: str, **named: Mapping[str, str | None]) -> tuple[str, Case]:
    ((name, differs),) = named.items()
    title = f"{name.replace('_', ' ')}, after {after} min"
    return title, Case(differs, after, set(fires))


CASES = dict(
    [
        case(29 * 60, all_is_well={}),
        case(14, no_metrics=dict.fromkeys(HEALTHY)),
        case(16, "ResettleGone", no_metrics=dict.fromkeys(HEALTHY)),
        case(9, all_on_standby=STANDBY),
        case(11, "ResettleNobodyActs", all_on_standby=STANDBY),
        case(30, another_on_standby={SECOND % "leading": "0", SECOND % "standby": "1"}),
        case(4, another_leads={SECOND % "leading": "1"}),
        case(6, "ResettleSeveralAct", another_leads={SECOND % "leading": "1"}),
        case(6, "ResettleSeveralAct", another_is_alone={SECOND % "alone": "1"}),
        case(60, as_old_as_may_be={AGE: "180"}),
        case(7, deaf={AGE: "0+60"}),
        case(10, "ResettleClusterNotHeard", deaf={AGE: "0+60"}),
        case(25, no_cycle_ends={**STALLED, MOVES: "0"}),
        case(28, "ResettleCyclesOverdue", no_cycle_ends={**STALLED, MOVES: "0"}),
        case(60, a_long_cycle_that_still_moves_pods={**STALLED, MOVES: "0+1"}),
        case(60, a_single_cycle={**STALLED, MOVES: "0", INTERVAL: "0"}),
        case(60, "ResettleCyclesOverdue", alone_and_stalled={**STALLED, MOVES: "0", **ALONE}),
        case(60, "ResettleNobodyActs", a_standby_that_led_once={**STALLED, MOVES: "0", **STANDBY}),
        case(60, no_cycle_yet={LAST: "0", MOVES: "0"}),
        case(14, cycles_fail={RESULT % "done": "0", RESULT % "failed": "1"}),
        case(16, "ResettleCyclesFail", cycles_fail={RESULT % "done": "0", RESULT % "failed": "1"}),
        case(16, "ResettleCyclesFail", a_plugin_fails={RESULT % "plugin-failed": "1"}),
        case(16, "ResettleCyclesFail", cut_short={RESULT % "cut-short": "1"}),
        case(9, bad_policy={POLICY: "0"}),
        case(11, "ResettlePolicyNotTaken", bad_policy={POLICY: "0"}),
        case(60, "ResettleEvictionsFail", most_fail={EVICTED % "error": "0+1"}),
        case(60, some_fail={EVICTED % "error": "0+1", EVICTED % "success": "0+2"}),
        case(60, few_fail={EVICTED % "error": "0+0.3", EVICTED % "success": "0"}),
        case(29 * 60, "ResettleMovesWithoutEnd", round_and_round={MOVES: "0+0.2"}),
        case(29 * 60, once_around={MOVES: "0+0.13"}),
    ]
)


def series(case: Case) -> list[dict[str, str]]:
    """A healthy run, but for what differs, as promtool takes it."""
    given = {**HEALTHY, **case.differs}
    return [
        {"series": name, "values": f"{value if '+' in value else value + '+0'}x{MINUTES}"}
        for name, value in given.items()
        if value is not None
    ]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_alert_fires_when_it_should_and_no_other_does(case: Case, tmp_path: Path) -> None:
    told = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(case.fires)]
    asked = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{case.after}m",
        "exp_samples": told,
    }
    test = {"interval": "1m", "input_series": series(case), "promql_expr_test": [asked]}
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(document))

    done = promtool("test", "rules", file)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_seen_to_fire() -> None:
    seen = {name for it in CASES.values() for name in it.fires}

    assert seen == {alert["alert"] for alert in alerts()}


def test_the_rules_are_in_order() -> None:
    done = promtool("check", "rules", RULES)

    assert done.returncode == 0, done.stdout + done.stderr


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """How promtool ends."""
    command = [prometheus()["promtool"], *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
