"""A page about one plugin, and the list of all pages.

Between `<!-- made:NAME -->` and `<!-- /made:NAME -->` stands what is made here; the words around it
are written by hand and stay.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path

from resettle.framework.plugin import Plugin
from resettle.framework.registry import GROUP
from resettle.policy.args import ExtensionPoint
from tools.plugin_pages.arguments import arguments
from tools.plugin_pages.examples import EXAMPLES
from tools.plugin_pages.worked import worked

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "reference" / "plugins.md"
PAGES = ROOT / "docs" / "reference" / "plugins"

IN_TREE: dict[str, Plugin] = {}
MODULES: dict[str, str] = {}
for _entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
    if _entry.value.startswith("resettle."):
        IN_TREE[_entry.name] = _entry.load()
        MODULES[_entry.name] = _entry.module

_KINDS = {
    "Strategies that look at each pod": {"deschedule"},
    "Strategies that compare nodes": {"balance"},
    "Filters": {"filter", "preevictionfilter"},
    "Sorters": {"presort", "sort"},
    "Movers": {"evict"},
}


def within(text: str, part: str, made: str) -> str:
    """The text with what is made between the marks of one part."""
    begin, end = f"<!-- made:{part} -->\n", f"<!-- /made:{part} -->"
    pattern = re.compile(f"({re.escape(begin)}).*?({re.escape(end)})", re.DOTALL)
    assert len(pattern.findall(text)) == 1, f"the marks of `{part}` are not there, or twice"
    return pattern.sub(lambda marks: f"{marks[1]}{made}\n{marks[2]}", text)


def page_of(name: str, text: str) -> str:
    """The page with its made parts as the code would have them now."""
    plugin = IN_TREE[name]
    for part, made in (
        ("summary", f"> {summary(name)}"),
        ("points", f"**Extension points:** {_listed(plugin.points)}"),
        ("arguments", _arguments(plugin)),
        ("example", worked(EXAMPLES[name])),
    ):
        text = within(text, part, made)
    return text


def index_of(text: str) -> str:
    """The list of pages with what each plugin is for."""
    blocks = []
    for heading, points in _KINDS.items():
        rows = [
            f"| [{name}](plugins/{name}.md) | {_listed(it.points)} | {summary(name)} |"
            for name, it in IN_TREE.items()
            if it.points & points
        ]
        head = f"### {heading}\n\n| plugin | extension points | what it is for |\n|---|---|---|"
        blocks.append("\n".join([head, *rows]))
    return within(text, "index", "\n\n".join(blocks))


def summary(name: str) -> str:
    """What the plugin is for, in the first sentence that its module or its function says."""
    said = sys.modules[MODULES[name]].__doc__ or ""
    if said.startswith(f"{name}: "):
        said = said.removeprefix(f"{name}: ")
    else:
        plugin = IN_TREE[name]
        said = next(filter(None, map(plugin.function, ExtensionPoint))).__doc__ or ""
    first = " ".join(said.split("\n\n")[0].split())
    return first[0].upper() + first[1:]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{point}`" for point in ExtensionPoint if point in words)


def _arguments(plugin: Plugin) -> str:
    rows = [f"| `{it.key}` | {it.kind} | {it.default} | {it.meaning} |" for it in arguments(plugin)]
    if not rows:
        return "It has no arguments."
    return "\n".join(["| argument | type | default | meaning |", "|---|---|---|---|", *rows])
