"""The files of `deploy/monitoring`, and the queries in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .manifests import DEPLOY

MONITORING = DEPLOY / "monitoring"
RULES = MONITORING / "rules.yaml"
LOAD_RULES = MONITORING / "load-rules.yaml"
DASHBOARD = MONITORING / "dashboard.json"
_LEGEND = re.compile(r"{{\s*([\w.$]+)[^}]*}}")
_VARIABLE = re.compile(r"label_values\((.*), (\w+)\)$")


class Asked(NamedTuple):
    """A query, who asks it, and which labels its result is shown with."""

    by: str
    expr: str
    shown_labels: frozenset[str]


def rules(*files: Path) -> list[dict[str, Any]]:
    """Every rule of these files, in order; of all files that are shipped if none is named."""
    texts = (file.read_text(encoding="utf-8") for file in files or (RULES, LOAD_RULES))
    groups = (group for text in texts for group in yaml.safe_load(text)["groups"])
    return [rule for group in groups for rule in group["rules"]]


def alerts(*files: Path) -> list[dict[str, Any]]:
    """Every alert of these files, or of all."""
    return [rule for rule in rules(*files) if "alert" in rule]


def recorded() -> dict[str, str]:
    """What each record is worked out from."""
    return {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def panels() -> list[dict[str, Any]]:
    """Every panel that shows something."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries() -> Iterator[Asked]:
    """Every query of the rules and of the dashboard."""
    for record, expr in recorded().items():
        yield Asked(record, expr, frozenset())
    for alert in alerts():
        words = " ".join(alert["annotations"].values())
        labels = {
            label.removeprefix("$labels.")
            for label in _LEGEND.findall(words)
            if "$labels." in label
        }
        yield Asked(alert["alert"], alert["expr"], frozenset(labels))
    for panel in panels():
        for target in panel["targets"]:
            labels = set(_LEGEND.findall(target["legendFormat"]))
            yield Asked(panel["title"], target["expr"], frozenset(labels))
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for variable in board["templating"]["list"]:
        if match := _VARIABLE.match(variable.get("definition", "")):
            yield Asked(f"${variable['name']}", match[1], frozenset({match[2]}))
