"""Metrics as somebody reads them who has only the text."""

from __future__ import annotations

import re
from typing import NamedTuple

from resettle.serving.instruments import Instruments

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


def read(meters: Instruments, name: str, **labels: str) -> float:
    """The value of all lines with this name and these labels together."""
    found = [it for it in readings(meters.text()) if it.name == name]
    return sum(it.value for it in found if labels.items() <= it.labels.items())
