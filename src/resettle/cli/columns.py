"""Columns for lines of any width: names shortened in the middle where they do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta


def shortened(text: str, room: int) -> str:
    """The text, with `…` in its middle where it is longer than the room."""
    if len(text) <= room:
        return text
    kept = max(room - 1, 2)
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


def aligned(rows: Sequence[Sequence[str]], indent: int = 2) -> Iterator[str]:
    """Rows of plain cells, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield (" " * indent + "  ".join(cells)).rstrip()


def padded(cells: Iterable[str], plain: Iterable[str], widths: Iterable[int]) -> str:
    """A row of painted cells, each as wide as its column; `plain` are the cells without paint."""
    together = (
        cell + " " * (width - len(bare))
        for cell, bare, width in zip(cells, plain, widths, strict=True)
    )
    return "  ".join(together).rstrip()


def widest(rows: Sequence[Sequence[str]], indent: int = 2) -> int:
    """How many columns of the terminal these rows take."""
    return max((len(line) for line in aligned(rows, indent)), default=0)


def span(length: timedelta) -> str:
    """`5m`, `1h30m`, `90s`: a length of time as people write it."""
    seconds = round(length.total_seconds())
    parts = [(seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"
