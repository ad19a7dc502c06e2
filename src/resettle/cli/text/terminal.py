"""Aligned columns and wrapped rows for terminals of any width.

A sentence stands beside the name it belongs to; in a narrow terminal it moves below the name.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from resettle.cli.text.plan import Paint


def align_columns(rows: Sequence[Sequence[str]], indent: int = 2) -> Iterator[str]:
    """Rows of plain cells, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield (" " * indent + "  ".join(cells)).rstrip()


def pad_cells(cells: Iterable[str], plain: Iterable[str], widths: Iterable[int]) -> str:
    """A row of painted cells, each as wide as its column; `plain` are the cells without paint."""
    together = (
        cell + " " * (width - len(bare))
        for cell, bare, width in zip(cells, plain, widths, strict=True)
    )
    return "  ".join(together).rstrip()


def table_width(rows: Sequence[Sequence[str]], indent: int = 2) -> int:
    """How many columns of the terminal these rows take."""
    return max((len(line) for line in align_columns(rows, indent)), default=0)


NARROW = 40
"""With fewer columns than this for a sentence, it goes below the name instead of beside it."""


class TextRow(NamedTuple):
    """A label such as `refused`, the name of a plugin, pod or budget, and a sentence about it."""

    label: str
    name: str
    sentence: str


def terminal_width() -> int:
    """Columns of the terminal, or 80."""
    return max(shutil.get_terminal_size((80, 24)).columns, 60)


def format_rows(
    texts: Sequence[TextRow], paint: Paint, columns: int, indent: int = 2
) -> Iterator[str]:
    """Rows in three columns where they fit, else with the sentence below the name."""
    if not texts:
        return
    label_width = max(len(row.label) for row in texts) + 2
    longest = max(len(row.name) for row in texts)
    names = longest + 2 if longest else 0
    beside = columns - indent - label_width - names >= NARROW
    for row in texts:
        label = " " * indent + row.label.ljust(label_width)
        if beside or not row.name:
            yield from _wrap(
                label + (row.name.ljust(names) if beside else ""), row.sentence, columns
            )
        else:
            yield label + paint("bold", row.name)
            yield from _wrap(" " * (indent + label_width), row.sentence, columns)


def _wrap(start: str, text: str, columns: int) -> Iterator[str]:
    lines = textwrap.wrap(
        text,
        max(columns - len(start), 20),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
    yield (start + lines[0]).rstrip()
    for line in lines[1:]:
        yield " " * len(start) + line


def format_hints(sentences: Iterable[str], paint: Paint, columns: int) -> Iterator[str]:
    """Each hint wrapped, on lines of its own."""
    for hint in sentences:
        first, *rest = _wrap("hint: ", hint, columns)
        yield first.replace("hint:", paint("stays", "hint:"), 1)
        yield from rest
