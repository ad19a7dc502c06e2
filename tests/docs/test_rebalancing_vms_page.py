"""policy/rebalancing-vms.md shows what the commands print, the policy as it is, true figures."""

from __future__ import annotations

import re

import pytest

from bench.machines import PICTURE, SEEDS, SETTINGS, builder, drawn, story_of, written
from bench.report import within_markers
from tests.docs.commands import commands, printed

from .page import doc
from .reference import DOCS, ROOT

NAME = "policy/rebalancing-vms.md"
PAGE = (DOCS / NAME).read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "load-aware-vms"
SHOWN = commands(PAGE)


@pytest.mark.parametrize(("words", "shown"), SHOWN, ids=[words for words, _ in SHOWN])
def test_a_command_prints_what_the_page_shows(words: str, shown: str) -> None:
    assert printed(words, EXAMPLE) == shown


def test_every_command_was_tried() -> None:
    assert len(SHOWN) == len(re.findall(r"^\$ resettle", PAGE, re.M)) == 3


def test_the_page_shows_the_policy_as_it_is() -> None:
    (shown,) = doc(NAME).files.values()

    assert shown == (EXAMPLE / "policy.yaml").read_text(encoding="utf-8")


def test_the_table_is_what_the_simulations_come_to() -> None:
    results = {
        name: [story_of(setting, seed) for seed in range(1, SEEDS + 1)]
        for name, setting in SETTINGS.items()
    }

    assert within_markers(PAGE, "machines", written(results)) == PAGE


def test_the_picture_is_of_the_example() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn()


def test_the_figures_in_the_text_are_those_of_the_example() -> None:
    result = story_of(SETTINGS["`resettle/v1`, OpenShift's two"], builder().SEED)
    moves, cycles = result.move_count, result.settled_after
    sentence = f"With taints {moves} machines move in {cycles} cycles, each one once"

    assert sentence in PAGE
    assert max(result.evictions_by_workload.values()) == 1
