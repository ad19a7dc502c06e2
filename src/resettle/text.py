"""Formats counts and long names for people."""

from __future__ import annotations


def shorten(text: str, width: int) -> str:
    """Return the text, with `…` in its middle where it is longer than the width."""
    if len(text) <= width:
        return text
    kept = max(width - 1, 2)
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


def format_count(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
