"""A policy as it was written: the tree of YAML nodes, each of which knows its line and column.

Paths lead into the tree by key and index. JSON is read the same way, being YAML already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from yaml import MappingNode, Node, ScalarNode, SequenceNode

from resettle.policy.problem import Path
from resettle.policy.scalars import PLAIN

Place = tuple[int, int]
MERGE = "<<"


class Entry(NamedTuple):
    """One `key: value` of a mapping."""

    name: str
    key: Node
    value: Node


class Source(NamedTuple):
    """A named document and its tree."""

    name: str
    root: Node

    def find(self, path: Path) -> Node | None:
        """The node at the end of the path, or None when the path leads nowhere."""
        node: Node | None = self.root
        for step in path:
            node = node and child(node, step)
        return node

    def place(self, path: Path) -> Place:
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

    def place_of_key(self, path: Path) -> Place | None:
        """Line and column of the key that the path ends with."""
        holder = self.find(path[:-1])
        if not isinstance(holder, MappingNode):
            return None
        keys = (entry.key for entry in entries(holder) if entry.name == path[-1])
        return next(map(place_of, keys), None)


def place_of(node: Node) -> Place | None:
    """Line and column of a node, counted from one; None for a node nobody wrote."""
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


def entries(node: MappingNode) -> Iterator[Entry]:
    """What a mapping holds, in order; keys it writes itself win over keys it merges with `<<`.

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
            yield Entry(key.value, key, value)
    for donor in merged:
        for key, value in _shallow(donor):
            if key.value not in own:
                own.add(key.value)
                yield Entry(key.value, key, value)


def is_merge(key: Node) -> bool:
    """Whether this key is a bare `<<`."""
    return key.tag == PLAIN and key.value == MERGE


def _donors(value: Node) -> list[MappingNode]:
    """The mappings that a `<<` names: one, or a list of them; none when it names anything else."""
    found = value.value if isinstance(value, SequenceNode) else [value]
    if all(isinstance(donor, MappingNode) for donor in found):
        return list(found)
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
