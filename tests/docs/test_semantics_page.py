"""The page about `resettle/v1` names every habit, default and taint as the code has them."""

from __future__ import annotations

import re

import pytest

from resettle.model import Semantics
from resettle.plugins.remove_pods_violating_node_taints import KEYS, PREFIXES
from resettle.policy.versions.upstream_differences import SAFE_DEFAULTS, UPSTREAM_BEHAVIOURS

from .reference import DOCS

PAGE = (DOCS / "policy" / "semantics.md").read_text(encoding="utf-8")
FLAGS = {
    name: " ".join(body.split())
    for name, body in re.findall(r"^### `(\w+)`\n((?:(?!^##).*\n)*)", PAGE, re.M)
}
each_flag = pytest.mark.parametrize("flag", Semantics.__struct_fields__)


def section(heading: str) -> str:
    (body,) = re.findall(rf"^## {heading}\n((?:(?!^## ).*\n)*)", PAGE, re.M)
    text: str = body
    return text


def test_every_flag_has_a_section_and_nothing_else_has() -> None:
    assert list(FLAGS) == list(Semantics.__struct_fields__)


@each_flag
def test_a_section_says_what_upstream_does_and_what_we_do_instead(flag: str) -> None:
    habit = UPSTREAM_BEHAVIOURS[flag]

    assert f"**kubernetes-sigs/descheduler:** {habit.upstream}" in FLAGS[flag]
    assert f"**`resettle/v1`:** {habit.resettle}" in FLAGS[flag]


@each_flag
def test_a_section_says_what_it_affects_and_then_why(flag: str) -> None:
    plugins = ", ".join(UPSTREAM_BEHAVIOURS[flag].plugins) or "every plugin that proposes pods"
    _, _, why = FLAGS[flag].partition(UPSTREAM_BEHAVIOURS[flag].resettle)

    assert FLAGS[flag].startswith(f"Touches {plugins}.")
    assert len(why.split()) > 10


def test_the_safe_defaults_are_those_of_the_code() -> None:
    rows = [line for line in section("Safe defaults").splitlines() if line.startswith("|")]

    assert rows[2:] == [
        f"| {default.plugin or 'top level'} | {default.says} | {default.remedy} |"
        for default in SAFE_DEFAULTS
    ]


def test_the_taints_of_the_life_cycle_are_those_of_the_code() -> None:
    listed = re.findall(r"^- `(.+)`$", section("Node lifecycle taints"), re.M)

    assert sorted(listed) == sorted([*KEYS, *(f"{prefix}…" for prefix in PREFIXES)])
