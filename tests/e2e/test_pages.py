"""Blocks of the pages that need kubectl, run with the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.harness import follow, sitting_down
from tests.docs.page import Page, pages
from tools.go_programs.build import Programs

KUBECTL = frozenset({"kubectl"})
WITH_KUBECTL = [page for page in pages() if any(block.needs in KUBECTL for block in page.blocks)]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in WITH_KUBECTL])
def test_a_page_can_be_followed_with_kubectl(
    page: Page, programs: Programs, tmp_path: Path
) -> None:
    with sitting_down(tmp_path, programs.folder) as reader:
        assert follow(page, reader, KUBECTL) > 0
