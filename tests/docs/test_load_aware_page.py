"""The page about load-aware balancing shows what the commands print, and policies that load."""

from __future__ import annotations

import pytest

from resettle.framework import default_registry, load_policy
from tests.docs.commands import commands, printed

from .reference import DOCS, ROOT

PAGE = (DOCS / "policy" / "load-aware.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "load-aware"
SHOWN = commands(PAGE)


@pytest.mark.parametrize(("words", "shown"), SHOWN, ids=[words for words, _ in SHOWN])
def test_a_command_prints_what_the_page_shows(words: str, shown: str) -> None:
    assert printed(words, EXAMPLE) == shown


def test_the_page_shows_every_example() -> None:
    named = {file.name for file in EXAMPLE.glob("*.yaml")} - {"cluster.yaml"}

    assert {name for name in named if any(name in words for words, _ in SHOWN)} == named


@pytest.mark.parametrize("file", sorted(EXAMPLE.glob("[!c]*.yaml")), ids=lambda file: file.name)
def test_an_example_has_no_problem_and_no_warning(file: object) -> None:
    text = (EXAMPLE / str(getattr(file, "name", ""))).read_text(encoding="utf-8")

    assert load_policy(text, name="example", plugins=default_registry()).warnings == ()
