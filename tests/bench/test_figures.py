"""Figures are kept, and a later run replaces what it measured again."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.figures import EMPTY, TABLES, Book, Section
from bench.measure import Cost
from bench.report import Case
from tests import ROOT


def case(nodes: int, cpu: float, fit: str = "on", taken: str = "today") -> Case:
    ours = Cost(cpu, cpu, 40 + nodes / 100, {"A": 1}, {"start": 10.0})
    return Case(nodes, nodes * 30, fit, (ours,), (Cost(9.0, 9.0, 900.0, {"A": 1}),), taken=taken)


def section(*cases: Case) -> Section:
    return EMPTY.updated("on a machine", cases)


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    book = Book(tmp_path / "figures.json")
    book.add("compare", section(case(100, 0.3), case(1000, 1.1)))
    book.save()

    assert Book(tmp_path / "figures.json").sections == book.sections


def test_a_case_measured_again_replaces_itself_and_no_other() -> None:
    before = section(case(100, 0.3, taken="then"), case(1000, 1.1, taken="then"))

    after = before.updated("on another machine", [case(1000, 0.9, taken="now")])

    assert [(case.nodes, case.our.cpu, case.taken) for case in after.cases] == [
        (100, 0.3, "then"),
        (1000, 0.9, "now"),
    ]
    assert after.foot() == "on another machine\n\n- then\n- now"


def test_cases_are_sorted_by_size_whatever_was_measured_first() -> None:
    sizes = [entry.nodes for entry in section(case(5000, 5), case(100, 0.3), case(1000, 1)).cases]

    assert sizes == [100, 1000, 5000]


def test_the_page_gets_every_table_and_the_plot(tmp_path: Path) -> None:
    page, plot = tmp_path / "page.md", tmp_path / "growth.svg"
    page.write_text((ROOT / "docs" / "reference" / "performance.md").read_text())
    book = Book(tmp_path / "figures.json")
    cases = [case(100, 0.3), case(1000, 1.0), case(10_000, 10.0)]
    for name in TABLES:
        book.add(name, section(*cases))

    book.fill(page, plot)
    once = page.read_text()
    book.fill(page, plot)

    assert page.read_text() == once
    assert "CPU time grows with the 1.00th power" in once
    assert "9.0×" in once
    assert plot.read_text().startswith("<svg")


@pytest.mark.parametrize("name", [made.__name__ for tables in TABLES.values() for made in tables])
def test_the_page_about_performance_has_room_for_each_table(name: str) -> None:
    page = (ROOT / "docs" / "reference" / "performance.md").read_text()

    assert page.count(f"<!-- bench:{name} -->") == page.count(f"<!-- /bench:{name} -->") == 1


def test_the_page_shows_the_figures_that_are_kept(tmp_path: Path) -> None:
    page, plot = tmp_path / "page.md", tmp_path / "growth.svg"
    shown = (ROOT / "docs" / "reference" / "performance.md").read_text()
    page.write_text(shown)

    Book(ROOT / "bench" / "figures.json").fill(page, plot)

    assert page.read_text() == shown
    assert plot.read_text() == (ROOT / "docs" / "reference" / "growth.svg").read_text()
