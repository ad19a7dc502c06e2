"""Health checks: alive or not, ready or not, and the text that says so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from resettle.runtime.status import ComponentStatus, ControllerStatus, Role
from resettle.telemetry.routes import ALIVE, OVERDUE_SECONDS, READY, run_checks

WELL = ComponentStatus(
    role=Role.ALONE,
    policy_taken_at=datetime(2026, 1, 31, tzinfo=UTC),
    policy_usable=True,
    ages={"Node": 2.0, "Pod": 1.0},
    interval=300.0,
)
STANDBY = structs.replace(WELL, role=Role.STANDBY, ages=None)


WORKS = ControllerStatus(profile="main", name="Tidy", running=True)
FAILED = ControllerStatus(
    profile="main", name="Jobs", running=False, restarts=3, failure="ValueError: no"
)


def failing(checks: Any, status: ComponentStatus) -> list[str]:
    return [name for name, check in checks.items() if check(status)]


def so(status: ComponentStatus = WELL, **more: Any) -> ComponentStatus:
    return structs.replace(status, **more)


@pytest.mark.parametrize(
    ("status", "not_alive", "not_ready"),
    [
        pytest.param(WELL, [], [], id="all is well"),
        pytest.param(so(role=Role.LEADING), [], [], id="leading"),
        pytest.param(STANDBY, [], [], id="a standby that sees the lease is ready"),
        pytest.param(
            so(STANDBY, lease_silence=200.0),
            [],
            ["leaderElection"],
            id="a standby that cannot read the lease could not take over",
        ),
        pytest.param(
            so(STANDBY, quiet_for=1e6), [], [], id="a standby need not work, however long"
        ),
        pytest.param(
            so(role=Role.LOST), ["leaderElection"], ["leaderElection"], id="the lease was lost"
        ),
        pytest.param(
            so(policy_taken_at=None, ages=None), [], ["policy", "cache"], id="just starting"
        ),
        pytest.param(so(policy_usable=False), [], [], id="the last good policy is in force"),
        pytest.param(so(ages={"Node": 2.0, "Pod": 180.0}), [], [], id="as old as may be"),
        pytest.param(
            so(ages={"Node": 2.0, "Pod": 181.0}),
            [],
            ["cache"],
            id="an API server that is away is no reason to restart",
        ),
        pytest.param(so(quiet_for=300 + OVERDUE_SECONDS), [], [], id="a cycle is late"),
        pytest.param(
            so(quiet_for=301 + OVERDUE_SECONDS), ["cycle"], [], id="a cycle is late beyond reason"
        ),
        pytest.param(
            so(interval=0.0, quiet_for=601.0), ["cycle"], [], id="a single cycle that hangs"
        ),
        pytest.param(so(controllers=(WORKS,)), [], [], id="a controller runs"),
        pytest.param(
            so(controllers=(WORKS, FAILED)),
            [],
            ["controllers"],
            id="a controller that failed is no reason to restart",
        ),
        pytest.param(so(stopping=True), [], ["shutdown"], id="on its way out"),
    ],
)
def test_alive_and_ready(
    status: ComponentStatus, not_alive: list[str], not_ready: list[str]
) -> None:
    assert failing(ALIVE, status) == not_alive
    assert failing(READY, status) == not_ready


def test_all_well_is_one_word_unless_more_is_asked_for() -> None:
    assert run_checks("livez", ALIVE, WELL) == (True, "ok")
    assert run_checks("livez", ALIVE, WELL, verbose=True) == (
        True,
        "[+]ping ok\n[+]cycle ok\n[+]leaderElection ok\nlivez check passed\n",
    )


def test_a_failed_check_is_listed_with_its_reason_even_if_verbose_is_not_asked_for() -> None:
    healthy, text = run_checks("readyz", READY, so(ages={"Pod": 200.4, "Node": 1.0}))

    assert not healthy
    assert "[+]policy ok\n[-]cache failed: Pod is 3m 20s old\n[+]leaderElection ok\n" in text
    assert text.endswith("readyz check failed\n")


def test_a_controller_that_failed_is_named_with_the_reason() -> None:
    _, text = run_checks("readyz", READY, so(controllers=(WORKS, FAILED)))

    assert "[-]controllers failed: Jobs of profile main is not running: ValueError: no\n" in text


def test_a_check_can_be_left_out() -> None:
    healthy, text = run_checks(
        "readyz", READY, so(ages=None), exclude=["cache", "cash"], verbose=True
    )

    assert healthy
    assert "[+]cache excluded: ok\n" in text
    assert "no check to exclude with the name cash" in text
