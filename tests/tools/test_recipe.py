"""What the control plane is built from is pinned, and its place in the cache says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.control_plane import recipe
from tools.control_plane.recipe import SOURCES, Source, key

each_source = pytest.mark.parametrize("source", SOURCES, ids=lambda it: it.name)


@each_source
def test_every_program_is_a_tool_of_its_module(source: Source) -> None:
    text = (source.folder / "go.mod").read_text()
    tools = re.findall(r"^(?:tool|\t)\s*(\S+)$", text, re.MULTILINE)

    assert set(source.packages.values()) <= set(tools)


@each_source
def test_the_key_tells_each_version(source: Source) -> None:
    assert f"{source.name}-{source.version}" in key()


def test_the_parts_of_kubernetes_are_all_of_one_release() -> None:
    (kubernetes,) = (source for source in SOURCES if source.name == "kubernetes")
    text = (kubernetes.folder / "go.mod").read_text()
    parts = set(re.findall(r"=> k8s\.io/\S+ v0\.(\S+)", text))

    assert {f"v1.{version}" for version in parts} == {kubernetes.version}


def test_another_version_has_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key()
    for source in SOURCES:
        (tmp_path / source.name).mkdir()
        for file in ("go.mod", "go.sum"):
            pinned = (source.folder / file).read_text()
            (tmp_path / source.name / file).write_text(pinned + "\n")
    monkeypatch.setattr(recipe, "MODULES", tmp_path)

    assert key().rpartition("_")[0] == before.rpartition("_")[0]
    assert key() != before
