"""Reads metrics from their text."""

from __future__ import annotations

import re
from typing import NamedTuple

from resettle.telemetry.metrics.registry import ComponentMetrics

_LINE = re.compile(r"^(\w+)(?:{(.*)})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Reading(NamedTuple):
    """One line of the text."""

    name: str
    labels: dict[str, str]
    value: float


def readings(text: bytes) -> list[Reading]:
    """Every line that has a value."""
    return [
        Reading(name, dict(_LABEL.findall(labels)), float(value))
        for name, labels, value in _LINE.findall(text.decode())
    ]


def read(metrics: ComponentMetrics, name: str, **labels: str) -> float:
    """The value of all lines with this name and these labels together."""
    lines = [line for line in readings(metrics.text()) if line.name == name]
    return sum(line.value for line in lines if labels.items() <= line.labels.items())
