"""Counts and long names as text for people."""

from __future__ import annotations


def shortened(text: str, room: int) -> str:
    """The text, with `…` in its middle where it is longer than the room."""
    if len(text) <= room:
        return text
    kept = max(room - 1, 2)
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


def counted(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
