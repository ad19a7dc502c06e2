"""Times as the API writes them, and lengths of time as people do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from resettle.errors import InputError
from resettle.policy.args import parse_duration


def told_as(instant: datetime, seconds: float = 0) -> str:
    """An instant, or so many seconds after it, as the API writes it."""
    later = instant.astimezone(UTC) + timedelta(seconds=seconds)
    return later.isoformat(timespec="seconds").replace("+00:00", "Z")


def read_as(text: str) -> datetime:
    """The instant that the API wrote."""
    return datetime.fromisoformat(text)


def span(annotations: dict[str, str] | None, name: str) -> timedelta | None:
    """The length of time an annotation tells, if it is there."""
    text = (annotations or {}).get(name)
    if text is None:
        return None
    length = parse_duration(text)
    if length <= timedelta():
        raise InputError(f"the annotation {name} says `{text}`; write a time such as 30s or 5m")
    return length
