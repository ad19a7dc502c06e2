"""Quantities: every way Kubernetes writes a number, exactly."""

from __future__ import annotations

import pytest

from resettle.errors import InputError
from resettle.model.resources import NANO, in_resource_unit, milli, parse_quantity, units


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("0", 0),
        ("1", NANO),
        ("+1", NANO),
        ("007", 7 * NANO),
        ("1.5", 1_500_000_000),
        ("1.", NANO),
        (".5", 500_000_000),
        ("0.000000001", 1),
        ("1n", 1),
        ("1u", 10**3),
        ("1m", 10**6),
        ("1k", 10**3 * NANO),
        ("1M", 10**6 * NANO),
        ("1G", 10**9 * NANO),
        ("1T", 10**12 * NANO),
        ("1P", 10**15 * NANO),
        ("1E", 10**18 * NANO),
        ("1Ki", 2**10 * NANO),
        ("1Mi", 2**20 * NANO),
        ("1Gi", 2**30 * NANO),
        ("1Ti", 2**40 * NANO),
        ("1Pi", 2**50 * NANO),
        ("1Ei", 2**60 * NANO),
        ("1.5Gi", 3 * 2**29 * NANO),
        ("0.1Ki", 102_400_000_000),
        ("2.5m", 2_500_000),
        ("1e3", 10**3 * NANO),
        ("1E3", 10**3 * NANO),
        ("1e+3", 10**3 * NANO),
        ("12e-1", 1_200_000_000),
        ("1.5e3", 1500 * NANO),
        ("5e-9", 5),
        ("0e30", 0),
    ],
)
def test_a_quantity_is_read_in_whole_billionths(text: str, nano: int) -> None:
    assert parse_quantity(text) == nano


@pytest.mark.parametrize(
    ("text", "nano"),
    [("0.1n", 1), ("1.1n", 2), ("1e-10", 1), ("0.0000000001", 1), ("0.0n", 0), ("1e-30", 1)],
)
def test_what_is_finer_than_a_billionth_is_rounded_up(text: str, nano: int) -> None:
    assert parse_quantity(text) == nano


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1e3", "1k"),
        ("0.5", "500m"),
        ("1000n", "1u"),
        ("1E", "1e18"),
    ],
)
def test_the_same_amount_may_be_written_in_several_ways(first: str, other: str) -> None:
    assert parse_quantity(first) == parse_quantity(other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "m",
        "Gi",
        ".",
        "+",
        "1 Gi",
        " 1",
        "1 ",
        "1gi",
        "1GI",
        "1K",
        "1ki",
        "1mi",
        "1g",
        "1e",
        "e3",
        "1.2.3",
        "1e3k",
        "1ke3",
        "1e1.5",
        "1e999",
        "0x10",
        "1_000",
        "1,5",
        "--1",
        "NaN",
        "inf",
        "１",
    ],
)
def test_an_invalid_quantity_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["-1", "-0.5", "-1Gi", "-1e3", "-1n"])
def test_a_resource_is_never_negative(text: str) -> None:
    with pytest.raises(InputError, match="negative"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["-0", "-0.0", "-0Gi"])
def test_less_than_nothing_of_nothing_is_nothing(text: str) -> None:
    assert parse_quantity(text) == 0


@pytest.mark.parametrize(
    ("text", "in_units", "in_milli"),
    [
        pytest.param("0", 0, 0, id="nothing"),
        pytest.param("1", 1, 1000, id="whole"),
        pytest.param("1m", 1, 1, id="a thousandth is a unit"),
        pytest.param("1n", 1, 1, id="a billionth is a unit"),
        pytest.param("1000m", 1, 1000, id="exactly one"),
        pytest.param("1001m", 2, 1001, id="just above one"),
        pytest.param("1000001u", 2, 1001, id="above a thousandth"),
        pytest.param("1.5Ki", 1536, 1_536_000, id="no rounding needed"),
    ],
)
def test_units_and_thousandths_round_up(text: str, in_units: int, in_milli: int) -> None:
    nano = parse_quantity(text)

    assert (units(nano), milli(nano)) == (in_units, in_milli)


@pytest.mark.parametrize(
    ("nano", "in_units", "in_milli"), [(-1, 0, 0), (-NANO, -1, -1000), (-NANO - 1, -1, -1000)]
)
def test_a_shortfall_rounds_up_towards_zero(nano: int, in_units: int, in_milli: int) -> None:
    assert (units(nano), milli(nano)) == (in_units, in_milli)


@pytest.mark.parametrize(
    ("resource", "count"), [("cpu", 1500), ("memory", 2), ("pods", 2), ("example.com/gpu", 2)]
)
def test_cpu_is_counted_in_thousandths_and_all_else_in_units(resource: str, count: int) -> None:
    assert in_resource_unit(resource, parse_quantity("1.5")) == count


def test_amounts_add_up_without_rounding() -> None:
    assert sum(parse_quantity("0.1") for _ in range(10)) == parse_quantity("1")
    assert 3 * parse_quantity("333333333n") == parse_quantity("999999999n")
