"""What programs are built from is pinned, and their place in the cache says so."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tools.control_plane.recipe import RECIPE as CONTROL_PLANE
from tools.go_programs.recipe import Recipe, Source
from tools.installers.recipe import RECIPE as INSTALLERS

RECIPES = (CONTROL_PLANE, INSTALLERS)
each_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.cache)
each_source = pytest.mark.parametrize(
    ("recipe", "source"),
    [
        pytest.param(recipe, source, id=f"{recipe.cache}-{source.name}")
        for recipe in RECIPES
        for source in recipe.sources
    ],
)


@each_source
def test_every_program_is_a_tool_of_its_module(recipe: Recipe, source: Source) -> None:
    text = (recipe.folder(source) / "go.mod").read_text()
    tools = re.findall(r"^(?:tool|\t)\s*(\S+)$", text, re.MULTILINE)

    assert set(source.packages.values()) <= set(tools)


@each_source
def test_the_key_differs_for_each_version(recipe: Recipe, source: Source) -> None:
    assert f"{source.name}-{recipe.version(source)}" in recipe.key


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        pytest.param(CONTROL_PLANE, "kubernetes", id="control plane"),
        pytest.param(INSTALLERS, "kubectl", id="kubectl"),
    ],
)
def test_the_parts_of_kubernetes_are_all_of_one_release(recipe: Recipe, name: str) -> None:
    (kubernetes,) = (source for source in CONTROL_PLANE.sources if source.name == "kubernetes")
    text = (recipe.modules / name / "go.mod").read_text()
    parts = set(re.findall(r"=> k8s\.io/\S+ v0\.(\S+)", text))

    assert {f"v1.{version}" for version in parts} == {CONTROL_PLANE.version(kubernetes)}


@each_recipe
def test_another_version_has_another_key(recipe: Recipe, tmp_path: Path) -> None:
    for source in recipe.sources:
        (tmp_path / source.name).mkdir()
        for file in ("go.mod", "go.sum"):
            pinned = (recipe.folder(source) / file).read_text()
            (tmp_path / source.name / file).write_text(pinned + "\n")
    other = replace(recipe, modules=tmp_path)

    assert other.key.rpartition("_")[0] == recipe.key.rpartition("_")[0]
    assert other.key != recipe.key


def test_each_has_a_place_of_its_own_in_the_cache() -> None:
    assert len({recipe.cache for recipe in RECIPES}) == len(RECIPES)
