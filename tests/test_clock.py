from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from resettle.clock import to_the_second

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
PARIS = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("later", "text"),
    [
        pytest.param(timedelta(), "2026-01-31T12:00:00", id="on the second"),
        pytest.param(timedelta(microseconds=999_999), "2026-01-31T12:00:00", id="within it"),
        pytest.param(timedelta(seconds=1), "2026-01-31T12:00:01", id="the next"),
        pytest.param(timedelta(seconds=-1), "2026-01-31T11:59:59", id="a clock that was set back"),
    ],
)
@pytest.mark.parametrize("zone", [UTC, PARIS])
def test_times_are_written_to_the_second_whatever_was_written_before(
    later: timedelta, text: str, zone: timezone
) -> None:
    assert to_the_second(NOON) == "2026-01-31T12:00:00"

    assert to_the_second((NOON + later).astimezone(zone)) == text
