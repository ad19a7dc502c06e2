"""Bands: which nodes are under, within and over, and when that is unknown."""

from __future__ import annotations

import pytest

from resettle.model.objects import Node
from resettle.utilization.bands import (
    FROM_MEAN,
    STATIC,
    BandLimits,
    Bands,
    named_limits,
    sort_into_bands,
)

METRIC = "MetricResource"
TEN_OFF = named_limits("Low", [METRIC], from_mean=True)
UP_ONLY = named_limits("AsymmetricLow", [METRIC], from_mean=True)
MEDIUM = named_limits("Medium", [METRIC])


def nodes(*usage: float | None, cordoned: tuple[int, ...] = ()) -> dict[Node, float | None]:
    """Nodes n0, n1, … with these shares; None for a node without a measurement."""
    return {Node(f"n{i}", {}, unschedulable=i in cordoned): share for i, share in enumerate(usage)}


def sorted_into(shares: dict[Node, float | None], scale: BandLimits, **more: list[str]) -> Bands:
    measured = {node: {METRIC: share} for node, share in shares.items() if share is not None}
    return sort_into_bands(shares, measured, scale, **more)


def words(
    shares: dict[Node, float | None], scale: BandLimits, **more: list[str]
) -> list[str | None]:
    bands = sorted_into(shares, scale, **more)
    return [bands.of(node) for node in shares]


@pytest.mark.parametrize(
    ("shares", "scale", "bands"),
    [
        pytest.param(nodes(10, 50, 90), TEN_OFF, ["under", "within", "over"], id="ten off"),
        pytest.param(nodes(10, 50, 90), UP_ONLY, ["under", "under", "over"], id="up only"),
        pytest.param(nodes(10, 50, 90), MEDIUM, ["under", "within", "over"], id="static"),
        pytest.param(
            nodes(10, 50, 90, cordoned=(0,)),
            TEN_OFF,
            ["within", "within", "over"],
            id="a cordoned node is never under",
        ),
        pytest.param(
            nodes(90, 10, 20, cordoned=(0,)), MEDIUM, ["over", "under", "under"], id="but over"
        ),
        pytest.param(nodes(10, 10, 10), TEN_OFF, ["within"] * 3, id="all alike and empty"),
        pytest.param(nodes(90, 90, 90), TEN_OFF, ["within"] * 3, id="all alike and full"),
        pytest.param(nodes(95, 97, 99), TEN_OFF, ["within"] * 3, id="no line above 100"),
        pytest.param(
            nodes(0, 0, 30),
            named_limits("Medium", [METRIC], from_mean=True),
            ["under", "under", "within"],
            id="nor below 0",
        ),
        pytest.param(nodes(90), MEDIUM, ["over"], id="the only node"),
        pytest.param(nodes(36, 35, 0), UP_ONLY, ["over", "over", "under"], id="both above"),
        pytest.param(nodes(20, 50), MEDIUM, ["under", "within"], id="on the lines"),
        pytest.param(nodes(20.1, 50.1), MEDIUM, ["within", "over"], id="just above them"),
        pytest.param(nodes(None, 50, 90), MEDIUM, ["unknown", "within", "over"], id="not measured"),
        pytest.param(
            nodes(0, None, 30, 90),
            TEN_OFF,
            ["under", "unknown", "under", "over"],
            id="the mean is over the others",
        ),
        pytest.param(nodes(None, None), TEN_OFF, ["unknown"] * 2, id="no node is measured"),
    ],
)
def test_nodes_are_sorted_by_the_lines(
    shares: dict[Node, float | None], scale: BandLimits, bands: list[str]
) -> None:
    assert words(shares, scale) == bands


def test_every_resource_must_be_low_for_under_and_one_is_enough_for_over() -> None:
    scale = named_limits("Medium", ["cpu", "memory"])
    low, mixed, high = Node("low", {}), Node("mixed", {}), Node("high", {})
    measured = {
        low: {"cpu": 10.0, "memory": 20.0},
        mixed: {"cpu": 10.0, "memory": 30.0},
        high: {"cpu": 10.0, "memory": 60.0},
    }

    bands = sort_into_bands(measured, measured, scale)

    assert (bands.under, bands.within, bands.over) == ([low], [mixed], [high])


def test_nodes_that_may_take_pods_are_open_and_in_order() -> None:
    shares = nodes(30, 90, 10, 40, None, cordoned=(3,))

    assert [node.name for node in sorted_into(shares, MEDIUM).possible_targets] == ["n0", "n2"]


@pytest.mark.parametrize(
    ("share", "before", "band"),
    [
        pytest.param(55, [], "over", id="above the line"),
        pytest.param(45, [], "within", id="below the line"),
        pytest.param(45, ["n0"], "over", id="was over, and has not fallen far enough"),
        pytest.param(40, ["n0"], "within", id="has fallen by the margin"),
        pytest.param(15, ["n0"], "under", id="has fallen all the way"),
        pytest.param(45, ["n1"], "within", id="it was another that was over"),
    ],
)
def test_a_node_that_was_over_stays_so_until_it_falls_by_the_margin(
    share: float, before: list[str], band: str
) -> None:
    scale = BandLimits(low={METRIC: 20.0}, high={METRIC: 50.0}, margin=10.0)

    assert words(nodes(share), scale, over_before=before) == [band]


def test_a_node_that_was_not_sorted_is_in_no_band() -> None:
    assert sorted_into(nodes(10, 90), MEDIUM).of(Node("stranger", {})) is None


@pytest.mark.parametrize(
    ("word", "from_mean", "pair"),
    [
        *((word, False, pair) for word, pair in STATIC.items()),
        *((word, True, pair) for word, pair in FROM_MEAN.items()),
    ],
)
def test_a_word_stands_for_the_same_pair_on_every_resource(
    word: str, from_mean: bool, pair: tuple[float, float]
) -> None:
    scale = named_limits(word, ["cpu", "memory"], from_mean=from_mean)

    assert (scale.low, scale.high) == (
        {"cpu": pair[0], "memory": pair[0]},
        {"cpu": pair[1], "memory": pair[1]},
    )
    assert scale.from_mean is from_mean


@pytest.mark.parametrize(
    ("word", "from_mean", "low", "high"),
    [
        ("Low", False, 10, 30),
        ("High", False, 40, 70),
        ("High", True, 30, 30),
        ("AsymmetricHigh", True, 0, 30),
    ],
)
def test_words_mean_what_operators_know_them_for(
    word: str, from_mean: bool, low: float, high: float
) -> None:
    scale = named_limits(word, [METRIC], from_mean=from_mean)

    assert (scale.low[METRIC], scale.high[METRIC]) == (low, high)
