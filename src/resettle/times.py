"""Parses times, and formats durations for people: `40m`, `1h 30m`, `3d 4h`."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from resettle.errors import InputError

DURATION = r"^[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$"
"""A duration as Go and policies write it, such as `1h30m`, as a regular expression."""

_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def parse_duration(text: str) -> timedelta:
    """The length of time that `1h30m` names."""
    seconds = sum(float(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(text))
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def format_duration(span: timedelta, units: int = 2) -> str:
    """The largest units of a duration, two by default, such as `22d 9h`; the rest is cut off."""
    left = max(span // timedelta(seconds=1), 0)
    parts: list[tuple[int, str]] = []
    for name, seconds in _UNITS:
        count, left = divmod(left, seconds)
        if count or parts:
            parts.append((count, name))
    return " ".join(f"{count}{name}" for count, name in parts[:units] if count) or "0s"


def format_seconds(seconds: float) -> str:
    """A number of seconds as `format_duration` writes it; an infinite one as `infinitely`."""
    return format_duration(timedelta(seconds=seconds)) if math.isfinite(seconds) else "infinitely"


def policy_duration(span: timedelta) -> str:
    """The whole seconds of a duration as policies write it: `26h`, `1h5s`."""
    hours, rest = divmod(max(span // timedelta(seconds=1), 0), 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{name}" for count, name in parts if count) or "0s"


def exact_duration(span: timedelta) -> str:
    """A duration that `parse_duration` reads back exactly: `5m`, `1h5s`, `0.25s`."""
    if span % timedelta(seconds=1):
        return f"{span.total_seconds():.6f}".rstrip("0") + "s"
    return policy_duration(span)


def parse_time_flag(text: str | None, flag: str = "--now") -> datetime | None:
    """The time that a flag names; None if the flag is not set."""
    if text is None:
        return None
    try:
        named = parse_time(text)
    except InputError as error:
        raise InputError(f"{flag}: {error}") from None
    if named is None:
        raise InputError(f"{flag} is empty; write a time such as 2026-01-31T12:00:00Z")
    return named


def parse_time(text: str | None) -> datetime | None:
    """The time that an RFC 3339 text names; None for no text."""
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"`{text}` is not a time", "write one such as `2026-01-31T12:00:00Z`"
        ) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def format_time(instant: datetime) -> str:
    """A time as the API writes it, to the second: `2026-01-31T12:00:00Z`."""
    return instant.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def format_interval(length: timedelta) -> str:
    """The whole seconds of an interval in hours, minutes and seconds: `5m`, `1h 30m`."""
    seconds = round(length.total_seconds())
    parts = [(seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    return " ".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"
