"""Names that are too long, and lengths of time, as a terminal shows them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resettle.cli.text.terminal import align_columns, table_width
from resettle.text import shorten
from resettle.times import format_interval


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        pytest.param("node-1", 6, "node-1", id="just fits"),
        pytest.param("node-10", 6, "nod…10", id="both ends stay"),
        pytest.param("a-very-long-name", 9, "a-ve…name", id="as much of each as there is room for"),
        pytest.param("node", 1, "n…e", id="never less than both ends"),
    ],
)
def test_a_long_name_loses_its_middle(text: str, room: int, shown: str) -> None:
    assert shorten(text, room) == shown


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        pytest.param(timedelta(minutes=5), "5m", id="minutes"),
        pytest.param(timedelta(hours=1, minutes=30), "1h 30m", id="hours and minutes"),
        pytest.param(timedelta(seconds=90), "1m 30s", id="seconds"),
        pytest.param(timedelta(days=2), "48h", id="days count as hours"),
        pytest.param(timedelta(), "0s", id="nothing"),
    ],
)
def test_a_length_of_time_reads_as_people_write_it(length: timedelta, shown: str) -> None:
    assert format_interval(length) == shown


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    rows = [("a", "bb", "c"), ("aaa", "b", "")]

    assert [*align_columns(rows)] == ["  a    bb  c", "  aaa  b"]
    assert table_width(rows) == 12
    assert table_width([]) == 0
