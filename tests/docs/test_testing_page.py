"""The page about testing keeps its word: its snippets run, and its lists are whole."""

from __future__ import annotations

import re
from inspect import signature
from typing import Any

import pytest

from resettle import testing
from resettle.testing import strategies
from resettle.testing.api_server.objects.kinds import BUILT_IN
from tests import ROOT
from tests.conformance.checks import listed

DOCS = ROOT / "docs"
PAGE = (DOCS / "extend" / "testing.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def defined_in(snippet: str) -> dict[str, Any]:
    """The test functions that a snippet defines."""
    namespace: dict[str, Any] = {"__name__": "snippet"}
    # A name that is no file's: Hypothesis reads the source of what it runs, and a page is none.
    exec(compile(snippet, "<docs/extend/testing.md>", "exec"), namespace)
    return {name: obj for name, obj in namespace.items() if name.startswith("test_")}


@pytest.mark.parametrize(
    "snippet",
    [pytest.param(item, id=re.findall(r"^def test_(\w+)", item, re.M)[0]) for item in SNIPPETS],
)
def test_a_snippet_of_the_page_passes(snippet: str) -> None:
    tests = defined_in(snippet)

    assert len(tests) == 1
    for test in tests.values():
        test()


def test_the_page_lists_the_checks_of_the_conformance_suite() -> None:
    (section,) = re.findall(r"^### What both servers agree on\n\n(.*?)\n###", PAGE, re.M | re.S)

    assert section == listed(), "write it again: python -m tests.conformance.checks"


def test_the_page_names_each_kind_that_is_served() -> None:
    (section,) = re.findall(r"^## What is served\n(.*?)\n## ", PAGE, re.M | re.S)
    rows = section.split("|---|---|")[1]

    assert {kind.kind for kind in BUILT_IN} == set(re.findall(r"\b[A-Z]\w+[a-z]\b", rows))


@pytest.mark.parametrize(
    "name", ["ObjectChange", "Fault", "ManualClock", "ApiServer", "definition"]
)
def test_what_a_snippet_needs_is_promised(name: str) -> None:
    assert name in testing.__all__
    assert any(re.search(rf"\b{name}\b", snippet) for snippet in SNIPPETS)


def explained(table: str) -> list[str]:
    """What stands in backticks in the first column of the table with this head."""
    (rows,) = re.findall(rf"^\| {re.escape(table)} \|.*\n\|---.*\n((?:\|.*\n)+)", PAGE, re.M)
    return [name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_every_part_of_a_fault_is_explained() -> None:
    assert sorted(explained("of a fault")) == sorted(testing.Fault.__struct_fields__)


@pytest.mark.parametrize("name", strategies.__all__)
def test_every_argument_of_a_strategy_is_explained(name: str) -> None:
    arguments = signature(getattr(strategies, name)).parameters

    assert explained(f"of `{name}`") == list(arguments)
