from __future__ import annotations

from typing import Any

import pytest

from resettle.errors import InputError
from resettle.kube.leader_election.lease import LeaseSettings


def test_the_defaults_are_those_of_the_field() -> None:
    settings = LeaseSettings().validate()

    assert (settings.namespace, settings.name) == ("kube-system", "descheduler")
    assert settings.duration_seconds == 137
    assert settings.renew_deadline_seconds == 107
    assert settings.retry_period_seconds == 26


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"duration_seconds": 107.5}, id="a lease barely longer than the deadline"),
        pytest.param({"renew_deadline_seconds": 31.3}, id="a deadline barely above 1.2 retries"),
        pytest.param({"name": "web.descheduler-2"}, id="a name of one's own"),
    ],
)
def test_settings_that_work(given: dict[str, Any]) -> None:
    assert LeaseSettings(**given).validate() == LeaseSettings(**given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param(
            {"duration_seconds": 107},
            "--leader-elect-lease-duration is 107s; make it longer than "
            "--leader-elect-renew-deadline, which is 107s",
            id="a lease no longer than the deadline",
        ),
        pytest.param(
            {"renew_deadline_seconds": 31.2},
            "--leader-elect-renew-deadline is 31.2s; make it longer than 1.2 times "
            "--leader-elect-retry-period, which is 26s",
            id="a deadline of exactly 1.2 retries",
        ),
        pytest.param(
            {"retry_period_seconds": 0},
            "--leader-elect-retry-period is 0s; give it a time above zero",
            id="no pause between tries",
        ),
        pytest.param(
            {"name": ""},
            "--leader-elect-resource-name is empty; give it a name like `descheduler`",
            id="no name",
        ),
        pytest.param(
            {"namespace": ""},
            "--leader-elect-resource-namespace is empty; give it a name like `kube-system`",
            id="no namespace",
        ),
        pytest.param(
            {"name": "../pods"},
            "--leader-elect-resource-name is `../pods`, which no object can be called; "
            "give it a name like `descheduler`",
            id="a name that leads elsewhere",
        ),
    ],
)
def test_settings_that_cannot_work_say_what_to_change(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as met:
        LeaseSettings(**given).validate()

    assert str(met.value) == f"leader election cannot work so: {problem}"


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InputError) as met:
        LeaseSettings(duration_seconds=-1, renew_deadline_seconds=0, name="").validate()

    problems = str(met.value).split("; --")
    assert [problem.split()[0].removeprefix("leader-elect-") for problem in problems[1:]] == [
        "renew-deadline",
        "lease-duration",
        "renew-deadline",
        "resource-name",
    ]
