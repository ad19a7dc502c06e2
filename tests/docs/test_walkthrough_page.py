"""CONTRIBUTING and the walkthrough agree with the code: modules, layers, where to start reading."""

from __future__ import annotations

import ast
import re
import tomllib

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


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/extend/walkthrough.md"])
def test_every_name_said_to_be_in_a_module_is_there(name: str) -> None:
    section = Page(name).text.partition("## Where to find")[2].partition("\n##")[0]
    rows = [row for row in section.splitlines() if "(planned)" not in row]
    named = re.findall(
        r"((?:`[\w.]+`(?:, | and )?)+)[^`|]* in `([a-z_0-9/]+\.py)`", "\n".join(rows)
    )
    absent = [
        (attribute, path)
        for names, path in named
        for dotted in re.findall(r"`([\w.]+)`", names)
        for attribute in dotted.split(".")
        if not re.search(rf"\b{attribute}\b", (SOURCE / path).read_text())
    ]

    assert named
    assert absent == []


def test_the_table_of_packages_starts_where_each_package_says() -> None:
    rows = Page("CONTRIBUTING.md").table("Packages")
    listed = {row[0].strip("`/"): row[2].strip("`") for row in rows if row[0].endswith("/`")}
    expected = {}
    for package in listed:
        text = ast.get_docstring(ast.parse((SOURCE / package / "__init__.py").read_text())) or ""
        first = re.search(r"Start with `([\w.]+)`", " ".join(text.split()))
        assert first, package
        expected[package] = f"{package}/{first[1].replace('.', '/')}.py"

    assert listed == expected


def test_the_drawing_of_layers_is_the_contract() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [
        "utilization (without sources)" if layer.startswith("utilization.bands") else layer
        for layer in contract["contracts"][0]["layers"]
    ]
    section = Page("CONTRIBUTING.md").text.partition("## Layers")[2]
    drawing = section.split("```")[1].strip().splitlines()

    assert [line for line in drawing if not line.startswith("~")] == layers
