from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from moving_day.moving_hours import Args, closed, parse_hours

from resettle.testing import Planned, World, cluster, node, plan_policy, pod

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def world_at(now: datetime, **labels: str) -> World:
    return cluster(
        node("old", labels={"pool": "blue"}).holding(pod("a", labels=labels)),
        node("new"),
        now=now,
    )


def refusal_code(world: World, args: Args) -> str | None:
    view = world.view()
    (only,) = view.pods
    refusal = closed(args, view, only)
    return refusal.code if refusal else None


@pytest.mark.parametrize(
    ("hours", "at", "code"),
    [
        pytest.param("08-17", "12:00", None, id="within the day"),
        pytest.param("08-17", "08:00", None, id="the first minute is in"),
        pytest.param("08-17", "17:00", "outside-hours", id="the end itself is out"),
        pytest.param("22-05", "23:30", None, id="before midnight"),
        pytest.param("22-05", "04:59", None, id="after midnight"),
        pytest.param("22-05", "12:00", "outside-hours", id="a night does not reach noon"),
        pytest.param("20-24", "23:59", None, id="until midnight"),
        pytest.param("always", "12:00", "hours-unreadable", id="a word is no hours"),
        pytest.param("08-08", "08:00", "hours-unreadable", id="an empty span is no hours"),
        pytest.param("8-17", "12:00", "hours-unreadable", id="one digit is no hour"),
        pytest.param("22-25", "23:00", "hours-unreadable", id="a day has no hour 25"),
    ],
)
def test_a_pod_moves_only_within_its_hours(hours: str, at: str, code: str | None) -> None:
    now = datetime.fromisoformat(f"2026-01-31T{at}:00+00:00")

    assert refusal_code(world_at(now, **{"move-hours": hours}), Args()) == code


def test_hours_are_those_of_utc_wherever_the_clock_stands() -> None:
    tokyo = timezone(timedelta(hours=9))
    noon_there = datetime(2026, 1, 31, 12, tzinfo=tokyo)

    assert refusal_code(world_at(noon_there, **{"move-hours": "03-04"}), Args()) is None


@pytest.mark.parametrize(
    ("labels", "args", "code"),
    [
        pytest.param({}, Args(), None, id="no label, any time"),
        pytest.param(
            {}, Args(default="22-05"), "outside-hours", id="no label, hours of the policy"
        ),
        pytest.param({"move-hours": "08-17"}, Args(default="22-05"), None, id="the label wins"),
        pytest.param(
            {"move-hours": "22-05"}, Args(label="when"), None, id="another label is asked"
        ),
    ],
)
def test_a_pod_without_the_label_follows_the_policy(
    labels: dict[str, str], args: Args, code: str | None
) -> None:
    assert refusal_code(world_at(NOON, **labels), args) == code


@pytest.mark.parametrize("point", ["filter", "preevictionfilter"])
@pytest.mark.parametrize(
    ("hours", "evicts", "refused"),
    [
        pytest.param("22-05", [], {"outside-hours": 1}, id="closed"),
        pytest.param("08-17", ["a"], {}, id="open"),
    ],
)
def test_the_guard_decides_over_what_a_strategy_proposes(
    point: str, hours: str, evicts: list[str], refused: dict[str, int]
) -> None:
    planned = plan_behind_guard(world_at(NOON, **{"move-hours": hours}), point)

    assert planned.evicts == evicts
    assert planned.refused == refused


def test_a_refusal_says_when_the_pod_may_move() -> None:
    world = world_at(NOON, **{"move-hours": "22-05"})

    (note,) = plan_behind_guard(world, "filter", watching=["default/a"]).plan.notes

    assert note.says.endswith("but may move from 22:00 to 05:00 UTC only, and it is 12:00")


def plan_behind_guard(world: World, point: str, watching: list[str] | None = None) -> Planned:
    """The plan for an emptied pool with the guard at one of the filter points."""
    profile = {
        "name": "test",
        "pluginConfig": [
            {"name": "RemovePodsFromRetiredPools", "args": {"retired": ["blue"]}},
            {"name": "MovingHours"},
        ],
        "plugins": {
            "deschedule": {"enabled": ["RemovePodsFromRetiredPools"]},
            point: {"enabled": ["MovingHours"]},
        },
    }
    return plan_policy({"profiles": [profile]}, world, watching=watching or [])


@pytest.mark.parametrize(
    ("args", "places"),
    [
        pytest.param(Args(), [], id="nothing said"),
        pytest.param(Args(default="22-05"), [], id="readable hours"),
        pytest.param(Args(default="nights"), [("default",)], id="unreadable hours"),
        pytest.param(Args(label=""), [("label",)], id="no label"),
        pytest.param(Args(label="", default="9-5"), [("label",), ("default",)], id="both at once"),
    ],
)
def test_arguments_that_cannot_be_meant_are_a_problem(
    args: Args, places: list[tuple[str, ...]]
) -> None:
    assert [problem.at for problem in args.problems()] == places


def test_hours_are_read_as_numbers() -> None:
    assert parse_hours("22-05") == (22, 5)
