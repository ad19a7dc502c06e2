"""Shares of what a node offers, limits around an average, and what a limit allows."""

from __future__ import annotations

import pytest

from resettle.model.objects import Node
from resettle.model.resources import parse_quantity
from resettle.utilization.bands import (
    allowance,
    average,
    is_within,
    node_capacity,
    offset_from_mean,
    shares,
)

Amounts = dict[str, str]


def nano(amounts: Amounts) -> dict[str, int]:
    return {name: parse_quantity(text) for name, text in amounts.items()}


@pytest.mark.parametrize(
    ("allocatable", "capacity", "offer"),
    [
        pytest.param({"cpu": "3"}, {"cpu": "4"}, {"cpu": "3"}, id="allocatable counts"),
        pytest.param({}, {"cpu": "4"}, {"cpu": "4"}, id="capacity where nothing is allocatable"),
        pytest.param({}, {}, {}, id="a node that offers nothing"),
    ],
)
def test_a_node_offers_what_it_allocates(
    allocatable: Amounts, capacity: Amounts, offer: Amounts
) -> None:
    node = Node("n", {}, allocatable=nano(allocatable), capacity=nano(capacity))

    assert node_capacity(node) == nano(offer)


@pytest.mark.parametrize(
    ("used", "offer", "percent"),
    [
        pytest.param({"cpu": "1"}, {"cpu": "4"}, {"cpu": 25.0}, id="a quarter"),
        pytest.param(
            {"cpu": "100u"}, {"cpu": "1"}, {"cpu": 0.1}, id="cpu rounds up to a thousandth"
        ),
        pytest.param(
            {"memory": "0.5"}, {"memory": "10"}, {"memory": 10.0}, id="others to a whole unit"
        ),
        pytest.param({"cpu": "6"}, {"cpu": "4"}, {"cpu": 150.0}, id="over the offer"),
        pytest.param({}, {"cpu": "4"}, {"cpu": 0.0}, id="nothing used"),
        pytest.param({"cpu": "1"}, {"cpu": "0"}, {"cpu": 0.0}, id="an offer of nothing"),
        pytest.param({"gpu": "1"}, {"cpu": "4"}, {"cpu": 0.0}, id="not on offer, so left out"),
    ],
)
def test_a_share_is_percent_of_the_offer(
    used: Amounts, offer: Amounts, percent: dict[str, float]
) -> None:
    measured = shares(nano(used), nano(offer), ["cpu", "memory", "gpu"])

    assert measured == pytest.approx(percent)


def test_only_the_resources_asked_for_are_measured() -> None:
    assert shares({}, nano({"cpu": "4", "memory": "1Gi"}), ["memory"]) == {"memory": 0.0}


@pytest.mark.parametrize(
    ("measured", "limits", "inside"),
    [
        pytest.param({"cpu": 19.0}, {"cpu": 20}, True, id="below"),
        pytest.param({"cpu": 20.0}, {"cpu": 20}, True, id="exactly at the limit"),
        pytest.param({"cpu": 20.001}, {"cpu": 20}, False, id="just above"),
        pytest.param(
            {"cpu": 10.0, "memory": 30.0}, {"cpu": 20, "memory": 20}, False, id="one above"
        ),
        pytest.param(
            {"cpu": 10.0}, {"cpu": 20, "gpu": 0}, True, id="not on offer counts as unused"
        ),
        pytest.param({"cpu": 90.0, "memory": 5.0}, {"memory": 20}, True, id="no limit, no matter"),
        pytest.param({"cpu": 90.0}, {}, True, id="no limits at all"),
        pytest.param({}, {"cpu": 0}, True, id="nothing measured"),
    ],
)
def test_a_node_is_within_limits_when_no_resource_is_above_its_own(
    measured: dict[str, float], limits: dict[str, float], inside: bool
) -> None:
    assert is_within(measured, limits) is inside


@pytest.mark.parametrize(
    ("name", "offer", "percent", "allowed"),
    [
        pytest.param("cpu", "4", 50, "2", id="half of the cpu"),
        pytest.param("cpu", "999m", 50, "499m", id="cpu is cut to a thousandth"),
        pytest.param("pods", "9", 50, "4", id="others are cut to a whole unit"),
        pytest.param("pods", "100", 29, "28", id="29% of 100 is 28 in floating point"),
        pytest.param("pods", "10", 100, "10", id="all of it"),
        pytest.param("pods", "10", 37.96, "3", id="a fraction of a percent"),
        pytest.param("memory", "1000", 0, "0", id="nothing of it"),
    ],
)
def test_a_limit_allows_its_part_of_the_offer(
    name: str, offer: str, percent: float, allowed: str
) -> None:
    assert allowance(name, nano({name: offer}), {name: percent}) == parse_quantity(allowed)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        pytest.param("memory", "3000", id="without a limit, all that is on offer"),
        pytest.param("gpu", "0", id="not on offer, nothing"),
    ],
)
def test_where_no_limit_applies(name: str, allowed: str) -> None:
    assert allowance(name, nano({"memory": "3000"}), {"gpu": 50}) == parse_quantity(allowed)


@pytest.mark.parametrize(
    ("rows", "mean"),
    [
        pytest.param(
            [{"cpu": 80.0}, {"cpu": 10.0}, {"cpu": 0.0}], {"cpu": 30.0}, id="all report it"
        ),
        pytest.param(
            [{"cpu": 10.0, "gpu": 50.0}, {"cpu": 20.0}],
            {"cpu": 15.0, "gpu": 50.0},
            id="over those that report it",
        ),
        pytest.param([{"cpu": 10.0}], {"cpu": 10.0}, id="what no node reports drops out"),
        pytest.param([{}, {}], {}, id="nothing is reported"),
        pytest.param([], {}, id="no nodes"),
        pytest.param([{"cpu": 1.0, "memory": 7.0}], {"cpu": 1.0}, id="only what is asked for"),
    ],
)
def test_the_average_is_over_the_nodes_that_offer_the_resource(
    rows: list[dict[str, float]], mean: dict[str, float]
) -> None:
    assert average(rows, ["cpu", "gpu"]) == mean


@pytest.mark.parametrize(
    ("mean", "deviation", "low", "high"),
    [
        pytest.param({"cpu": 30.0}, {"cpu": 5}, {"cpu": 25.0}, {"cpu": 35.0}, id="both sides"),
        pytest.param({"cpu": 3.0}, {"cpu": 5}, {"cpu": 0.0}, {"cpu": 8.0}, id="not below 0"),
        pytest.param({"cpu": 98.0}, {"cpu": 5}, {"cpu": 93.0}, {"cpu": 100.0}, id="not above 100"),
        pytest.param({"cpu": 150.0}, {"cpu": 5}, {"cpu": 100.0}, {"cpu": 100.0}, id="is_over"),
        pytest.param({"cpu": 30.0}, {}, {}, {}, id="without a deviation there is no limit"),
        pytest.param({}, {"cpu": 5}, {}, {}, id="without an average there is none either"),
    ],
)
def test_deviations_lie_around_the_average_and_between_0_and_100(
    mean: dict[str, float],
    deviation: dict[str, float],
    low: dict[str, float],
    high: dict[str, float],
) -> None:
    assert offset_from_mean(mean, deviation, -1) == low
    assert offset_from_mean(mean, deviation, +1) == high
