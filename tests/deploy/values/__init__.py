"""Values that the chart is tried with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests import ROOT

CHART = ROOT / "deploy" / "helm" / "resettle"
VALUES = sorted(Path(__file__).parent.glob("*.yaml"))


def read(file: Path) -> dict[str, Any]:
    """What the file says."""
    values: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return values


def values(name: str) -> Path:
    """The file of this name."""
    return Path(__file__).parent / f"{name}.yaml"
