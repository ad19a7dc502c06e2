"""Times that flags name."""

from __future__ import annotations

from datetime import datetime

from resettle.errors import InputError


def named_time(text: str | None, flag: str = "--now") -> datetime | None:
    """The time a flag names, if it is there."""
    from resettle.model.parts import parse_time

    if text is None:
        return None
    try:
        named = parse_time(text)
    except InputError as error:
        raise InputError(f"{flag}: {error}") from None
    if named is None:
        raise InputError(f"{flag} is empty; write a time such as 2026-01-31T12:00:00Z")
    return named
