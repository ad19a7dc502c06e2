"""The files of `deploy/monitoring`, and the queries in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from .manifests import DEPLOY

MONITORING = DEPLOY / "monitoring"
RULES = MONITORING / "rules.yaml"
DASHBOARD = MONITORING / "dashboard.json"
_LEGEND = re.compile(r"{{\s*([\w.$]+)[^}]*}}")
_VARIABLE = re.compile(r"label_values\((.*), (\w+)\)$")


class Asked(NamedTuple):
    """A query, who asks it, and which labels its result is told by."""

    by: str
    expr: str
    told_by: frozenset[str]


def alerts() -> list[dict[str, Any]]:
    """Every alert."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    """Every panel that shows something."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries() -> Iterator[Asked]:
    """Every query of the alerts and of the dashboard."""
    for alert in alerts():
        words = " ".join(alert["annotations"].values())
        told = {it.removeprefix("$labels.") for it in _LEGEND.findall(words) if "$labels." in it}
        yield Asked(alert["alert"], alert["expr"], frozenset(told))
    for panel in panels():
        for target in panel["targets"]:
            told = set(_LEGEND.findall(target["legendFormat"]))
            yield Asked(panel["title"], target["expr"], frozenset(told))
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for variable in board["templating"]["list"]:
        if found := _VARIABLE.match(variable.get("definition", "")):
            yield Asked(f"${variable['name']}", found[1], frozenset({found[2]}))
