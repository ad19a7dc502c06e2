"""Each plugin has a page, and what code can say of it there is what the code says."""

from __future__ import annotations

import re

import pytest

from resettle.framework import Plugin
from tools.plugin_pages.arguments import IN_EFFECT, arguments
from tools.plugin_pages.page import IN_TREE, INDEX, PAGES, index_of, page_of

from .reference import stopped_codes

WRITE = "`make plugin-pages` writes it again"
each_plugin = pytest.mark.parametrize(
    ("name", "plugin"), [pytest.param(name, plugin, id=name) for name, plugin in IN_TREE.items()]
)


def text_of(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def test_every_in_tree_plugin_has_a_page_and_nothing_else_has() -> None:
    assert sorted(file.stem for file in PAGES.glob("*.md")) == sorted(IN_TREE)


@each_plugin
def test_a_page_says_what_the_code_says_and_prints(name: str, plugin: Plugin) -> None:
    assert page_of(name, text_of(name)) == text_of(name), WRITE


def test_the_list_of_plugins_says_what_the_code_says() -> None:
    text = INDEX.read_text(encoding="utf-8")

    assert index_of(text) == text, WRITE
    assert all(text.count(f"(plugins/{name}.md)") == 1 for name in IN_TREE)


@each_plugin
def test_every_argument_says_what_it_is_for(name: str, plugin: Plugin) -> None:
    assert [argument.key for argument in arguments(plugin) if not argument.meaning.strip()] == []


def test_only_arguments_there_are_have_a_default_of_their_own() -> None:
    known = {
        (name, argument.key) for name, plugin in IN_TREE.items() for argument in arguments(plugin)
    }

    assert IN_EFFECT.keys() <= known


@each_plugin
def test_a_page_stops_only_with_codes_that_exist(name: str, plugin: Plugin) -> None:
    (stops,) = re.findall(r"^## When it stops\n\n(.+?)\n\n", text_of(name), re.M | re.S)
    codes = {code for code in re.findall(r"`([a-z-]+)`", stops) if "-" in code}

    assert codes <= stopped_codes()
    assert bool(codes) is bool(plugin.deschedule or plugin.balance)
