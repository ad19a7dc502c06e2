"""What a bare word of YAML means: as the reader that Kubernetes uses would take it.

That reader is neither YAML 1.1 nor 1.2: `yes` and `on` are booleans, `010` is eight, `1e3` is a
number, and `1:30` is text. PyYAML has other rules, so its own are switched off and these apply.
"""

from __future__ import annotations

import math
import re

from yaml import ScalarNode

Scalar = None | bool | int | float | str

PLAIN = "tag:resettle,plain"
"""The tag our loader gives to every scalar without quotes and without a tag of its own."""

_CORE = "tag:yaml.org,2002:"
KNOWN_TAGS = {PLAIN, *(_CORE + kind for kind in ("str", "int", "float", "bool", "null"))}

_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLS = {
    spelling: meaning
    for words, meaning in (("y yes true on", True), ("n no false off", False))
    for word in words.split()
    for spelling in (word, word.capitalize(), word.upper())
}
_PREFIXED = re.compile(r"[-+]?0(x[0-9a-f]+|b[01]+|o?[0-7]+)", re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_BROKEN = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES = {"x": 16, "b": 2}
_LONGEST_NUMBER = 100


def meaning(node: ScalarNode) -> Scalar:
    """The value a scalar stands for: text when quoted, else whatever the bare word means."""
    text: str = node.value
    match node.tag.removeprefix(_CORE):
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return _BOOLS.get(text, text)
        case "int" | "float":
            number = as_number(text)
            return text if number is None else number
    return bare_meaning(text)


def bare_meaning(text: str) -> Scalar:
    """The value of a word without quotes."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    number = as_number(text)
    return text if number is None else number


def as_number(text: str) -> int | float | None:
    """The number a word spells, or None when it spells none."""
    if not text or text[0] not in "+-.0123456789":
        return None
    digits = text.replace("_", "")
    if len(digits) <= _LONGEST_NUMBER:
        if _WHOLE.fullmatch(digits):
            return int(digits)
        if prefixed := _PREFIXED.fullmatch(digits):
            return _in_base(digits, prefixed[1].lower())
    if _BROKEN.fullmatch(digits):
        return float(digits)
    match digits.lower():
        case ".inf" | "+.inf":
            return math.inf
        case "-.inf":
            return -math.inf
        case ".nan":
            return math.nan
    return None


def _in_base(digits: str, rest: str) -> int:
    """The number behind a leading zero: `0x1F`, `0b11`, `0o17` or plain octal `017`."""
    base = _BASES.get(rest[0], 8)
    size = int(rest.lstrip("xbo") if base != 16 else rest[1:], base)
    return -size if digits.startswith("-") else size


def quoted(node: ScalarNode) -> bool:
    """Whether the scalar stands in quotes, or is a block of text."""
    return node.style in ("'", '"', "|", ">")
