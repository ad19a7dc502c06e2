"""docs/policy/soft-taints.md keeps its word: keys, flags, taints, levels and the example."""

from __future__ import annotations

import re

import yaml
from msgspec import structs

from resettle.cli.commands.controllers.soft_tainter import taint_settings
from resettle.cli.main import build_parser
from resettle.controllers.soft_taints.desired import TaintScheme, excess, level_of
from resettle.controllers.soft_taints.reconcile import Mode, task_of
from resettle.framework import default_registry, load_policy
from resettle.framework.descheduler import build_descheduler
from resettle.policy.document import SoftTaints
from tests.deploy.values import CHART, read

from .page import doc
from .reference import DOCS, ROOT

PAGE = "policy/soft-taints.md"
TEXT = (DOCS / PAGE).read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "soft-taints" / "policy.yaml"


def test_every_key_of_the_section_is_listed_with_its_default() -> None:
    rows = {row[0].strip("`"): row[2] for row in doc(PAGE).table("`softTaints` in the policy")}
    unsaid = SoftTaints()

    assert set(rows) == {field.encode_name for field in structs.fields(SoftTaints)}
    assert rows["style"] == f"`{unsaid.style}`"
    assert rows["scale"] == f"`{unsaid.scale}`"
    assert rows["levels"] == str(unsaid.levels)
    assert rows["releaseMargin"] == f"{unsaid.release_margin:g}"
    assert rows["prefix"].startswith(f"`{unsaid.domain}`")
    assert rows["prefix"].endswith(f"`{SoftTaints(style='OpenShift').domain}`")


def test_every_value_of_the_chart_is_listed_with_its_default() -> None:
    rows = {row[0].strip("`"): row[1].strip("`") for row in doc(PAGE).table("With Helm")}
    unsaid = read(CHART / "values.yaml")["softTainter"]

    assert set(rows) == set(unsaid)
    for name in set(rows) - {"resources"}:
        assert yaml.safe_load(rows[name] or "''") == unsaid[name], name


def test_every_flag_that_is_listed_exists() -> None:
    flags = re.findall(r"^\| `(--[a-z-]+)(?: ([^`]*))?`", TEXT, re.M)

    for flag, value in flags:
        given = f"{flag}={value}" if value and value != "…" else flag
        assert build_parser().parse_args(["soft-tainter", "--policy=p", given]).policy == "p"
    assert {"--interval", "--once", "--dry-run", "--remove-only"} <= {flag for flag, _ in flags}


def test_the_commands_of_the_page_are_understood() -> None:
    for line in re.findall(r"^\$ resettle (soft-tainter .*?)(?:  +#.*)?$", TEXT, re.M):
        assert taint_settings(build_parser().parse_args(line.split()))


def test_the_taints_of_the_page_are_those_that_are_set() -> None:
    over = {row[0]: row[1:] for row in doc(PAGE).table("The taints") if row[0] == "over"}["over"]

    graded = TaintScheme(SoftTaints(levels=2)).over(2)
    two = TaintScheme(SoftTaints(style="OpenShift")).over(1)
    assert re.findall(r"`(.*?)`", over[0]) == [_short(taint.key, taint.value) for taint in graded]
    assert re.findall(r"`(.*?)`", over[1]) == [_short(taint.key, taint.value) for taint in two]


def _short(key: str, value: str) -> str:
    return f"{key.rpartition('/')[2]}={value}"


def test_the_levels_of_the_page_are_those_that_are_reached() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| ([\d.]+) \| (\d) \| (\d) \|$", TEXT, re.M)

    assert len(rows) == 4
    for line, used, share, linear, exponential in rows:
        r = excess({"cpu": float(used)}, {"cpu": float(line)})
        assert f"{r:.2f}" == share
        assert (level_of(r, 3, "Linear"), level_of(r, 3, "Exponential")) == (
            int(linear),
            int(exponential),
        )


def test_the_example_is_a_policy_without_mistakes_that_has_nodes_tainted() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")

    policy = load_policy(text, name="example", plugins=default_registry())

    assert policy.warnings == ()
    task = task_of(build_descheduler(policy, default_registry()), Mode.TAINT)
    assert task.thresholds is not None
    assert task.kinds == {"Node"}
    assert doc(PAGE).first_column("`softTaints` in the policy") >= {"levels", "releaseMargin"}
