"""Every module that CONTRIBUTING and the walkthrough name exists, but for planned ones."""

from __future__ import annotations

import re

import pytest

from .page import ROOT, Page

SOURCE = ROOT / "src" / "resettle"


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/extend/walkthrough.md"])
def test_every_module_that_is_named_exists(name: str) -> None:
    text = Page(name).text.partition("### Planned parts")[0]
    lines = [line for line in text.splitlines() if "(planned)" not in line]
    paths = re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", "\n".join(lines))
    modules = [path for path in paths if not path.startswith(("tests/", "src/", "tools/"))]

    assert modules
    assert [path for path in modules if not (SOURCE / path).exists()] == []
