"""The shipped alerts, tested with promtool: each fires when it should, and not before.

Time is simulated by promtool, from zero on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.deploy.monitoring import LOAD_RULES, RULES, alerts
from tests.e2e.servers.alerting_prometheus import promtool

MINUTES = 30 * 60
"""A day, as far as rules look back, and some hours more."""
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
SHOWN = MOVES.replace("evicted", "shown")
BACKGROUND = MOVES.replace("evicted", "background")
OVER = f'resettle_nodes{{{ONE}, profile="p", plugin="q", band="over"}}'
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
    OVER: "0",
}
"""One replica that leads, finishes a cycle every minute and moves a pod from time to time."""
STALLED = {LAST: "60+0"}
"""Its last cycle ended after a minute."""
HOURLY = {
    OVER: "3+0x60 2+0x60 1+0x60 0+0x60 1+0x60 0+0x600",
    MOVES: "0+0x60 5+0x60 10+0x60 15+0x120 20+0x600",
}
"""A cycle every hour, each of which relieves a node."""
NO_BACKGROUND_EVICTIONS = {ROLE % "leading": "0", ROLE % "alone": "1"}
STANDBY = {ROLE % "leading": "0", ROLE % "standby": "1"}


class Case(NamedTuple):
    """What differs from a healthy run, and which alerts fire after so many minutes."""

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
        case(60, oldest_allowed_cache={AGE: "180"}),
        case(7, broken_watch={AGE: "0+60"}),
        case(10, "ResettleClusterNotHeard", broken_watch={AGE: "0+60"}),
        case(25, no_cycle_ends={**STALLED, MOVES: "0"}),
        case(28, "ResettleCyclesOverdue", no_cycle_ends={**STALLED, MOVES: "0"}),
        case(60, a_long_cycle_that_still_moves_pods={**STALLED, MOVES: "0+1"}),
        case(60, a_single_cycle={**STALLED, MOVES: "0", INTERVAL: "0"}),
        case(
            60,
            "ResettleCyclesOverdue",
            alone_and_stalled={**STALLED, MOVES: "0", **NO_BACKGROUND_EVICTIONS},
        ),
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
        case(29 * 60, "ResettleMovesWithoutEnd", pods_moved_again_and_again={MOVES: "0+0.2"}),
        case(29 * 60, each_pod_moved_once={MOVES: "0+0.13"}),
        case(360, slowly_fewer={OVER: "2000-1"}),
        case(362, "ResettleBalancingTakesLong", slowly_fewer={OVER: "2000-1"}),
        case(239, no_fewer={OVER: "3"}),
        case(241, "ResettleBalancingDoesNotHelp", no_fewer={OVER: "3"}),
        case(241, "ResettleBalancingDoesNotHelp", more_and_more={OVER: "3+1"}),
        case(
            241,
            "ResettleBalancingDoesNotHelp",
            moved_in_background={OVER: "3", MOVES: "0", BACKGROUND: "0+0.1"},
        ),
        case(59, nothing_done={OVER: "3", MOVES: "0"}),
        case(61, "ResettleHotNodesLeft", nothing_done={OVER: "3", MOVES: "0"}),
        case(61, "ResettleHotNodesLeft", never_done={OVER: "3", MOVES: None}),
        case(600, a_dry_run={OVER: "3", MOVES: "0", SHOWN: "0+0.1"}),
        *(case(after, a_cycle_an_hour=HOURLY) for after in (119, 179, 239, 299, 359, 419)),
    ]
)


def series(case: Case) -> list[dict[str, str]]:
    """The series of a healthy run with the differences of the case, for promtool."""
    given = {**HEALTHY, **case.differs}
    return [
        {"series": name, "values": _values(value)}
        for name, value in given.items()
        if value is not None
    ]


def _values(value: str) -> str:
    """Values for every minute in the notation of promtool."""
    if "x" in value:
        return value
    return f"{value}x{MINUTES}" if {*"+-"} & {*value} else f"{value}+0x{MINUTES}"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_alert_fires_when_it_should_and_no_other_does(case: Case, tmp_path: Path) -> None:
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(case.fires)]
    expectation = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{case.after}m",
        "exp_samples": samples,
    }
    test = {"interval": "1m", "input_series": series(case), "promql_expr_test": [expectation]}
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(document))

    done = promtool("test", "rules", file)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_in_some_case() -> None:
    seen = {name for case in CASES.values() for name in case.fires}

    assert seen == {alert["alert"] for alert in alerts(RULES)}


@pytest.mark.parametrize("file", [RULES, LOAD_RULES], ids=lambda file: file.name)
def test_promtool_finds_no_problem_in_the_rules(file: Path) -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", file)

    assert done.returncode == 0, done.stdout + done.stderr
