"""A verdict in words and in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from resettle.cli.migration.finding import HEADINGS, Finding, Sort
from resettle.cli.migration.verdict import Verdict


def as_text(verdict: Verdict, next_steps: list[str]) -> Iterator[str]:
    """What a person reads, what has to be done first."""
    for file, title in verdict.found:
        yield f"{file}: {title}"
    for sort in Sort:
        if found := verdict.of(sort):
            yield ""
            yield HEADINGS[sort]
            for one in found:
                yield from _better(one) if sort is Sort.BETTER else _told(one)
    yield ""
    yield "next"
    yield from (f"  {step}" for step in next_steps)


def _told(one: Finding) -> Iterator[str]:
    yield f"  {one.place}: {one.about}" if one.about else f"  {one.place}"
    yield f"    {one.sentence}"


def _better(one: Finding) -> Iterator[str]:
    yield f"  - {one.about}: {one.sentence}" if one.about else f"  - {one.sentence}"


def as_json(verdict: Verdict) -> str:
    """The same for programs."""
    told: dict[str, Any] = {
        "ready": verdict.ready,
        "found": [{"file": file, "title": title} for file, title in verdict.found],
        "findings": [
            {
                "sort": one.sort.value,
                "file": one.file,
                "line": one.line or None,
                "column": one.column or None,
                "about": one.about,
                "says": one.says,
                "fix": one.fix,
            }
            for sort in Sort
            for one in verdict.of(sort)
        ],
    }
    return json.dumps(told, indent=2, ensure_ascii=False)
