"""Writes the generated parts of all plugin pages: `python -m tools.plugin_pages`."""

from __future__ import annotations

from tools.plugin_pages.page import IN_TREE, INDEX, PAGES, index_of, page_of

for name in IN_TREE:
    file = PAGES / f"{name}.md"
    file.write_text(page_of(name, file.read_text(encoding="utf-8")), encoding="utf-8")
INDEX.write_text(index_of(INDEX.read_text(encoding="utf-8")), encoding="utf-8")
