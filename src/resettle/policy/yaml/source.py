"""A document as it was written: the tree of YAML nodes with lines and columns, and their values.

Paths lead into the tree by key and index. JSON is read as YAML. Unquoted words have the value that
sigs.k8s.io/yaml gives them, which is neither YAML 1.1 nor 1.2: `yes` and `on` are booleans, `010`
is eight, `1e3` is a number, and `1:30` is text. PyYAML's own rules are switched off.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from yaml import MappingNode, Node, ScalarNode, SequenceNode

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


def scalar_value(node: ScalarNode) -> Scalar:
    """The value a scalar stands for: text when quoted, else what the unquoted word means."""
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
    return unquoted_value(text)


def unquoted_value(text: str) -> Scalar:
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


def is_quoted(node: ScalarNode) -> bool:
    """Whether the scalar stands in quotes, or is a block of text."""
    return node.style in ("'", '"', "|", ">")


Place = tuple[int, int]
MERGE = "<<"


class MappingEntry(NamedTuple):
    """One `key: value` of a mapping."""

    name: str
    key: Node
    value: Node


class Source(NamedTuple):
    """A named document and its tree."""

    name: str
    root: Node

    def find(self, path: KeyPath) -> Node | None:
        """The node at the end of the path, or None when the path leads nowhere."""
        node: Node | None = self.root
        for step in path:
            node = node and child(node, step)
        return node

    def place(self, path: KeyPath) -> Place:
        """Line and column of the deepest node along the path that exists.

        A block of lines under a key is pointed at by its key, which is where a reader looks.
        """
        node = self.root
        depth = 0
        for step in path:
            deeper = child(node, step)
            if deeper is None:
                break
            node, depth = deeper, depth + 1
        under_a_key = depth > 0 and isinstance(path[depth - 1], str)
        key = self.place_of_key(path[:depth]) if under_a_key and is_block(node) else None
        return key or place_of(node) or (1, 1)

    def place_of_key(self, path: KeyPath) -> Place | None:
        """Line and column of the key that the path ends with."""
        holder = self.find(path[:-1])
        if not isinstance(holder, MappingNode):
            return None
        keys = (entry.key for entry in entries(holder) if entry.name == path[-1])
        return next(map(place_of, keys), None)


def place_of(node: Node) -> Place | None:
    """Line and column of a node, counted from one; None for a node without a place."""
    mark = node.start_mark
    return None if mark is None else (mark.line + 1, mark.column + 1)


def is_block(node: Node) -> bool:
    """Whether a mapping or list is spread over lines rather than set in brackets."""
    return isinstance(node, MappingNode | SequenceNode) and not node.flow_style


def child(node: Node, step: str | int) -> Node | None:
    """The value under a key of a mapping, or the item of a list."""
    if isinstance(node, MappingNode):
        return next((entry.value for entry in entries(node) if entry.name == step), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        item: Node = node.value[step]
        return item
    return None


def entries(node: MappingNode) -> Iterator[MappingEntry]:
    """The entries of a mapping, in order; its own keys win over keys merged with `<<`.

    A key that is no scalar is left out, a `<<` that merges no mapping is kept as a key.
    """
    own: set[str] = set()
    merged: list[MappingNode] = []
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            continue
        donors = _donors(value) if is_merge(key) else []
        if donors:
            merged += donors
        else:
            own.add(key.value)
            yield MappingEntry(key.value, key, value)
    for donor in merged:
        for key, value in _shallow(donor):
            if key.value not in own:
                own.add(key.value)
                yield MappingEntry(key.value, key, value)


def is_merge(key: Node) -> bool:
    """Whether this key is a bare `<<`."""
    return key.tag == PLAIN and key.value == MERGE


def _donors(value: Node) -> list[MappingNode]:
    """The mappings that a `<<` names: one, or a list of them; none when it names anything else."""
    sources = value.value if isinstance(value, SequenceNode) else [value]
    if all(isinstance(donor, MappingNode) for donor in sources):
        return list(sources)
    return []


def _shallow(donor: MappingNode) -> Iterator[tuple[ScalarNode, Node]]:
    """A donor's keys, with those it merges itself; a donor that merges itself ends there."""
    seen: set[int] = set()
    waiting = [donor]
    while waiting:
        node = waiting.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        for key, value in node.value:
            if is_merge(key):
                waiting += _donors(value)
            elif isinstance(key, ScalarNode):
                yield key, value


KeyPath = tuple[str | int, ...]
