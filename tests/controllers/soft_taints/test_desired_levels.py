"""How far over its line a node is, in steps."""

from __future__ import annotations

import pytest

from resettle.controllers.soft_taints.desired import excess, level_of


@pytest.mark.parametrize(
    ("line", "used", "linear", "exponential"),
    [
        pytest.param(50, 50, 0, 0, id="on the line"),
        pytest.param(50, 51, 1, 1, id="just above it"),
        pytest.param(50, 75, 2, 2, id="half of the room above it"),
        pytest.param(50, 84, 3, 2, id="two thirds and a little"),
        pytest.param(50, 88, 3, 3, id="three quarters and a little"),
        pytest.param(50, 100, 3, 3, id="all of it"),
        pytest.param(50, 130, 3, 3, id="more than there is"),
        pytest.param(100, 100, 0, 0, id="no room above, and not over"),
        pytest.param(100, 101, 3, 3, id="no room above, and over"),
        pytest.param(0, 1, 1, 1, id="a line at zero"),
    ],
)
def test_three_levels(line: float, used: float, linear: int, exponential: int) -> None:
    r = excess({"cpu": used}, {"cpu": line})

    assert (level_of(r, 3, "Linear"), level_of(r, 3, "Exponential")) == (linear, exponential)


@pytest.mark.parametrize("scale", ["Linear", "Exponential"])
@pytest.mark.parametrize(("used", "reached"), [(51, 1), (74, 1), (75, 2), (100, 2)])
def test_of_two_levels_the_second_begins_at_half_of_the_room(
    scale: str, used: float, reached: int
) -> None:
    assert level_of(excess({"cpu": used}, {"cpu": 50}), 2, scale) == reached  # type: ignore[arg-type]


def test_with_one_level_all_that_is_over_is_alike() -> None:
    assert [level_of(r, 1, "Linear") for r in (0.01, 0.5, 1.0, 7.0)] == [1, 1, 1, 1]


def test_the_resource_that_is_farthest_over_its_line_counts() -> None:
    lines = {"cpu": 50.0, "memory": 80.0}

    assert excess({"cpu": 60, "memory": 95}, lines) == 0.75
    assert excess({"cpu": 60, "memory": 10}, lines) == 0.2
    assert excess({"cpu": 60}, lines) == 0.2, "what is not measured has no say"
    assert excess({}, lines) < 0


def test_points_ahead_are_added_to_what_is_used() -> None:
    assert excess({"cpu": 60}, {"cpu": 50}, ahead=15) == 0.5
