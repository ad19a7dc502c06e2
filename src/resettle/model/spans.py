"""Lengths of time in words short enough for a table: `40m`, `1h30m`, `3d4h`."""

from __future__ import annotations

from datetime import timedelta

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def spoken(span: timedelta, units: int = 2) -> str:
    """The largest units of a span, two unless told otherwise; what is smaller is cut off."""
    left = max(span // timedelta(seconds=1), 0)
    parts: list[tuple[int, str]] = []
    for name, seconds in _UNITS:
        count, left = divmod(left, seconds)
        if count or parts:
            parts.append((count, name))
    return "".join(f"{count}{name}" for count, name in parts[:units] if count) or "0s"


def as_duration(span: timedelta) -> str:
    """The whole seconds of a span as a policy writes them: `26h`, `1h5s`."""
    hours, rest = divmod(max(span // timedelta(seconds=1), 0), 3600)
    minutes, rest = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{name}" for count, name in parts if count) or "0s"
