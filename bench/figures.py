"""Figures that were measured, kept beside the page whose tables are made of them.

A later run replaces the cases it measured again and leaves the others as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.measure import Cost
from bench.plot import Panel, svg
from bench.report import (
    ACTING_GOALS,
    Case,
    comparison,
    eviction_table,
    ours_table,
    phase_table,
    within_markers,
)

FIT_FROM = 1000
"""Nodes from which on growth is fitted: below, starting Python is most of the cost."""


@dataclass(frozen=True)
class Section:
    """The cases of one table, and the machine and versions of the last run."""

    setting: str
    cases: tuple[Case, ...]

    def updated(self, setting: str, cases: Iterable[Case]) -> Section:
        """The section after another run."""
        by_key = {case.key: case for case in (*self.cases, *cases)}
        return Section(setting, tuple(by_key[key] for key in sorted(by_key)))

    def foot(self) -> str:
        """When and how the figures were taken."""
        taken = dict.fromkeys(case.taken for case in self.cases)
        return "\n".join([self.setting, "", *(f"- {line}" for line in taken)])


EMPTY = Section("", ())


def compared(section: Section) -> str:
    """The table of both programs."""
    return f"{comparison(section.cases)}\n\n{section.foot()}"


def acted(section: Section) -> str:
    """The table of both programs where they really evict."""
    return f"{comparison(section.cases, ACTING_GOALS)}\n\n{section.foot()}"


def phased(section: Section) -> str:
    """Where our time goes, in the same runs."""
    return phase_table(section.cases)


def agreed(section: Section) -> str:
    """What both decide, in the same runs."""
    return eviction_table(section.cases)


def grown(section: Section) -> str:
    """How cost grows with the number of nodes."""
    cpu, memory = growth_panels(section)
    sentence = (
        f"From {FIT_FROM:,} nodes on, CPU time grows with the {cpu.exponent:.2f}th power of the "
        f"number of nodes and peak memory with the {memory.exponent:.2f}th."
    )
    return f"{sentence}\n\n{ours_table(section.cases, 'cluster')}\n\n{section.foot()}"


def worst(section: Section) -> str:
    """What hard clusters cost."""
    return f"{ours_table(section.cases, 'what is hard')}\n\n{section.foot()}"


def growth_panels(section: Section) -> tuple[Panel, Panel]:
    """CPU and memory by number of nodes."""
    return (
        Panel("CPU seconds", [(case.nodes, case.our.cpu) for case in section.cases], FIT_FROM),
        Panel(
            "peak memory, MiB", [(case.nodes, case.our.peak) for case in section.cases], FIT_FROM
        ),
    )


TABLES = {
    "compare": (compared, agreed, phased),
    "act": (acted,),
    "growth": (grown,),
    "worst": (worst,),
}
"""The tables that come of each section."""


class Book:
    """All sections, in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        kept = json.loads(file.read_text()) if file.exists() else {}
        self.sections = {name: _section(value) for name, value in kept.items()}

    def add(self, name: str, run: Section) -> None:
        """Takes the cases of a run into a section."""
        known = self.sections.get(name, EMPTY)
        self.sections[name] = known.updated(run.setting, run.cases)

    def save(self) -> None:
        """Writes the file."""
        kept = {name: asdict(section) for name, section in sorted(self.sections.items())}
        self._file.write_text(json.dumps(kept, indent=1) + "\n")

    def fill(self, page: Path, plot: Path) -> None:
        """Writes every table into the page, and the plot beside it."""
        text = page.read_text()
        for name, section in self.sections.items():
            for made in TABLES[name]:
                text = within_markers(text, made.__name__, made(section))
        page.write_text(text)
        if "growth" in self.sections:
            plot.write_text(svg(growth_panels(self.sections["growth"])))


def _section(value: Mapping[str, Any]) -> Section:
    return Section(value["setting"], tuple(_case(case) for case in value["cases"]))


def _case(value: Mapping[str, Any]) -> Case:
    costs = {side: tuple(Cost(**cost) for cost in value[side]) for side in ("ours", "upstream")}
    return Case(**{**value, **costs})
