"""Links lead somewhere, to the heading they name, and every page of the docs can be found."""

from __future__ import annotations

import pytest

from .page import DOCS, ROOT, Page, doc, pages


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in pages()])
def test_links_lead_somewhere(page: Page) -> None:
    lost = [
        (path.name, anchor)
        for path, anchor in page.links
        if not path.exists() or (anchor and anchor not in Page(path).anchors)
    ]

    assert lost == []


def test_every_page_of_the_docs_is_in_their_list() -> None:
    listed = {path for path, _ in doc("README.md").links}
    plugins = {path for path, _ in doc("reference/plugins.md").links}

    assert {*DOCS.rglob("*.md")} - {DOCS / "README.md"} <= listed | plugins


def test_the_front_page_leads_to_the_list() -> None:
    assert DOCS / "README.md" in {path for path, _ in Page(ROOT / "README.md").links}
