"""Columns for lines of any width: names shortened in the middle where they do not fit.

Lines that fit the terminal: what is said of something, wrapped beside or below who says it.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from resettle.cli.text.plan import Paint


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


NARROW = 40
"""With less room than this for a sentence, it goes below the name instead of beside it."""


class Row(NamedTuple):
    """What was done, by whom, and in which words."""

    verb: str
    who: str
    what: str


def width() -> int:
    """Columns of the terminal, or 80."""
    return max(shutil.get_terminal_size((80, 24)).columns, 60)


def rows(said: Sequence[Row], paint: Paint, columns: int, indent: int = 2) -> Iterator[str]:
    """Rows in three columns where they fit, else with the words below the name."""
    if not said:
        return
    verbs = max(len(row.verb) for row in said) + 2
    longest = max(len(row.who) for row in said)
    names = longest + 2 if longest else 0
    beside = columns - indent - verbs - names >= NARROW
    for row in said:
        verb = " " * indent + row.verb.ljust(verbs)
        if beside or not row.who:
            yield from _wrapped(verb + (row.who.ljust(names) if beside else ""), row.what, columns)
        else:
            yield verb + paint("bold", row.who)
            yield from _wrapped(" " * (indent + verbs), row.what, columns)


def _wrapped(start: str, text: str, columns: int) -> Iterator[str]:
    lines = textwrap.wrap(
        text,
        max(columns - len(start), 20),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
    yield (start + lines[0]).rstrip()
    for line in lines[1:]:
        yield " " * len(start) + line


def hints(said: Iterable[str], paint: Paint, columns: int) -> Iterator[str]:
    """What would help, each on lines of its own."""
    for hint in said:
        first, *rest = _wrapped("hint: ", hint, columns)
        yield first.replace("hint:", paint("stays", "hint:"), 1)
        yield from rest
