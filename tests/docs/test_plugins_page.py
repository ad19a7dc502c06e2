"""The page about the plugins says what the plugins are, no more and no less."""

from __future__ import annotations

import re
import textwrap
from typing import Any, NamedTuple

import pytest
from msgspec import NODEFAULT

from resettle.framework import Plugin, default_registry
from resettle.policy.load import load_policy

from .reference import DOCS, IN_TREE, arguments, stopped_codes

PAGE = (DOCS / "plugins.md").read_text(encoding="utf-8")
SECTIONS = {
    name.strip(): body for name, body in re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", PAGE, re.M)
}
WHOLE = "apiVersion:"
HEAD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles:\n  - name: main\n"

# Arguments that may be left out by type but not in effect, or that mean something when they are.
IN_EFFECT = {
    ("DefaultEvictor", "minPodAge"): "none; `10m` in `resettle/v1`",
    ("DefaultEvictor", "minReplicas"): "`0`; `2` in `resettle/v1`",
    ("DefaultEvictor", "nodeFit"): "`false`; `true` in `resettle/v1`",
    ("HighNodeUtilization", "thresholds"): "required",
    ("LowNodeUtilization", "targetThresholds"): "required",
    ("LowNodeUtilization", "thresholds"): "required",
    ("RemoveFailedPods", "minPodLifetimeSeconds"): "`3600`",
    ("RemovePodsHavingTooManyRestarts", "podRestartThreshold"): "required",
    ("RemovePodsViolatingNodeAffinity", "nodeAffinityType"): "required",
    ("RemovePodsViolatingNodeTaints", "minTaintAge"): "`10m`",
    ("RemovePodsViolatingTopologySpreadConstraint", "constraints"): "`[DoNotSchedule]`",
    ("RemovePodsViolatingTopologySpreadConstraint", "topologyBalanceNodeFit"): "`true`",
}
each_plugin = pytest.mark.parametrize(
    ("name", "plugin"), [pytest.param(name, plugin, id=name) for name, plugin in IN_TREE.items()]
)


class Row(NamedTuple):
    keys: list[str]
    default: str


def rows(section: str) -> list[Row]:
    """The rows of a section's table of arguments."""
    table = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [Row(re.findall(r"`([^`]+)`", row[0]), row[2].strip()) for row in table[2:]]


def snippet(section: str) -> str:
    """The section's example as a whole policy."""
    (found,) = re.findall(r"^```yaml\n(.*?)^```$", section, re.M | re.S)
    text: str = found
    return text if text.startswith(WHOLE) else HEAD + textwrap.indent(text, "    ")


def written(default: Any) -> str:
    """How the page writes the default that a struct declares."""
    if default is NODEFAULT:
        return "required"
    match default:
        case bool():
            return f"`{str(default).lower()}`"
        case int() | str() if default != "":
            return f"`{default}`"
    empty = default is None or default == type(default)()
    assert empty, f"the page has no way to write {default!r}"
    return "none"


def test_every_plugin_of_the_house_has_a_section_and_nothing_else_has() -> None:
    assert sorted(SECTIONS) == sorted(IN_TREE)


@each_plugin
def test_a_section_lists_exactly_the_arguments_there_are(name: str, plugin: Plugin) -> None:
    listed = [key for row in rows(SECTIONS[name]) for key in row.keys]

    assert sorted(listed) == sorted(arguments(plugin))


@each_plugin
def test_a_section_tells_the_default_of_each_argument(name: str, plugin: Plugin) -> None:
    known = arguments(plugin)
    told = {key: row.default for row in rows(SECTIONS[name]) for key in row.keys if key in known}

    assert told == {
        key: IN_EFFECT.get((name, key), written(default))
        for key, default in known.items()
        if key in told
    }


@each_plugin
def test_a_section_names_the_extension_points(name: str, plugin: Plugin) -> None:
    (line,) = re.findall(r"^\*\*Extension points:\*\* (.+)$", SECTIONS[name], re.M)

    assert set(re.findall(r"`(\w+)`", line)) == plugin.points


@each_plugin
def test_an_example_loads_without_a_problem_or_warning(name: str, plugin: Plugin) -> None:
    policy = load_policy(snippet(SECTIONS[name]), name="example", plugins=default_registry())

    assert policy.warnings == ()
    assert [profile for profile in policy.profiles if name in profile.args]


@each_plugin
def test_a_section_stops_only_with_codes_that_exist(name: str, plugin: Plugin) -> None:
    (stops,) = re.findall(r"^\*\*Stops:\*\* (.+?)\n\n", SECTIONS[name], re.M | re.S)
    codes = {code for code in re.findall(r"`([a-z-]+)`", stops) if "-" in code}

    assert codes <= stopped_codes()
    assert bool(codes) is bool(plugin.deschedule or plugin.balance)
