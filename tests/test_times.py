"""Lengths of time and amounts, in words short enough for a table."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resettle.model.resources import format_amount
from resettle.times import format_duration, policy_duration


@pytest.mark.parametrize(
    ("span", "words", "exact"),
    [
        pytest.param(timedelta(), "0s", "0s", id="no time"),
        pytest.param(timedelta(seconds=-5), "0s", "0s", id="the future counts as now"),
        pytest.param(timedelta(seconds=59.9), "59s", "59s", id="whole seconds that have passed"),
        pytest.param(timedelta(minutes=40), "40m", "40m", id="minutes"),
        pytest.param(timedelta(minutes=90), "1h 30m", "1h30m", id="two units"),
        pytest.param(timedelta(hours=1, seconds=5), "1h", "1h5s", id="the third unit is cut off"),
        pytest.param(timedelta(days=3, hours=4, minutes=5), "3d 4h", "76h5m", id="days"),
    ],
)
def test_a_span_has_a_short_and_an_exact_form(span: timedelta, words: str, exact: str) -> None:
    assert (format_duration(span), policy_duration(span)) == (words, exact)


@pytest.mark.parametrize(
    ("resource", "amount", "words"),
    [
        pytest.param("cpu", 250, "250m", id="part of a cpu"),
        pytest.param("cpu", 3000, "3", id="whole cpus"),
        pytest.param("memory", 3 * 2**30, "3Gi", id="the largest unit that is exact"),
        pytest.param("memory", 3 * 2**30 + 2**20, "3073Mi", id="a smaller unit where it is not"),
        pytest.param("memory", 1001, "1001", id="bytes where nothing else is exact"),
        pytest.param("memory", 0, "0", id="nothing"),
        pytest.param("vendor.example/gpu", 2048, "2048", id="pieces are counted"),
    ],
)
def test_an_amount_is_written_as_people_write_it(resource: str, amount: int, words: str) -> None:
    assert format_amount(resource, amount) == words
