"""The page about controllers is true: its snippet runs, its lists are whole, its text is shown."""

from __future__ import annotations

import re
from typing import Any

import pytest

from resettle.cli.main import build_parser
from resettle.testing import controllers
from resettle.testing.controllers.kubelet import CRASHES_EVERY, SILENT, TAKES
from tests import ROOT
from tests.testing.controllers.harness import Living

PAGE = (ROOT / "docs" / "extend" / "test-controllers.md").read_text(encoding="utf-8")
TRANSCRIPT = (ROOT / "tests" / "cli" / "transcripts" / "demo.txt").read_text(encoding="utf-8")


def first_column(heading: str) -> list[str]:
    """The first cells of the tables of a section."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows]


def test_the_snippet_runs() -> None:
    [snippet] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    namespace: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(snippet, "docs/extend/test-controllers.md", "exec"), namespace)

    [test] = [obj for name, obj in namespace.items() if name.startswith("test_")]
    test()


def test_what_is_shown_of_the_demo_is_printed() -> None:
    [shown] = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)

    assert shown in TRANSCRIPT


def test_everybody_who_acts_is_listed() -> None:
    assert set(Living().life.controllers) <= set(first_column("Controllers"))


def test_every_flag_of_the_demo_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["demo", "--help"])

    flags = set(re.findall(r"^  (--\w+)", capsys.readouterr().out, re.M))
    assert flags <= {re.findall(r"--\w+", cell)[0] for cell in first_column("The demo")[1:]}


@pytest.mark.parametrize("annotation", [TAKES, CRASHES_EVERY, SILENT])
def test_every_annotation_is_listed(annotation: str) -> None:
    assert any(annotation in cell for cell in first_column("Controllers"))


@pytest.mark.parametrize("name", [item for item in controllers.__all__ if item.islower()])
def test_every_builder_is_mentioned(name: str) -> None:
    assert name == "observe" or f"`{name}`" in PAGE
