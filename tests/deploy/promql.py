"""As much of PromQL as it takes to see which metrics and labels a query speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_STRING = r'"(?:[^"\\]|\\.)*"'
_WORDS = re.compile(_STRING)
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(rf"\b([a-zA-Z_:][\w:]*)\s*{{((?:[^{{}}\"]|{_STRING})*)}}")
_MATCHER = re.compile(rf"\s*(\w+)\s*(=~|!~|!=|=)\s*({_STRING})\s*,?")
_RANGE = re.compile(r"\[[^]]*\]")
_WORD = re.compile(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()")
_OPERATORS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


class Matcher(NamedTuple):
    """A condition on a label."""

    label: str
    operator: str
    value: str


class Query(NamedTuple):
    """What a query speaks of."""

    metrics: frozenset[str]
    matchers: tuple[tuple[str, Matcher], ...]
    """Each with the metric it is about."""
    groupings: frozenset[str]
    """Labels that results are grouped or joined by."""


def read(expr: str) -> Query:
    """The metrics and labels of a query; raises if there is a selector it cannot read."""
    groupings = set(" ".join(_GROUPING.findall(expr)).replace(",", " ").split())
    rest = _GROUPING.sub(" ", expr)
    matchers = tuple(_matchers(rest))
    rest = _WORDS.sub(" ", _SELECTOR.sub(r" \1 ", rest))
    assert "{" not in rest, f"cannot read {expr}"
    words = _WORD.findall(_RANGE.sub(" ", rest))
    metrics = {word for word in words if word.lower() not in _OPERATORS}
    return Query(frozenset(metrics), matchers, frozenset(groupings))


def _matchers(expr: str) -> Iterator[tuple[str, Matcher]]:
    for metric, listed in _SELECTOR.findall(expr):
        assert not _MATCHER.sub("", listed).strip(), f"cannot read {{{listed}}}"
        for label, operator, value in _MATCHER.findall(listed):
            yield metric, Matcher(label, operator, value[1:-1])
