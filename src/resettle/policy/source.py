"""A policy as it was written: the tree of YAML nodes, each of which knows its line and column.

Paths lead into the tree by key and index. JSON is read the same way, being YAML already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from resettle.policy.bounds import UnboundedError, check_aliases, check_nesting
from resettle.policy.problem import Located, Path
from resettle.policy.scalars import PLAIN

Place = tuple[int, int]
MERGE = "<<"


class UnreadableError(Exception):
    """The text is no YAML document at all; carries the one problem that says so."""

    def __init__(self, problem: Located) -> None:
        super().__init__(str(problem))
        self.problem = problem


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


_PLAIN_ONLY: dict[Any, Any] = {None: [(PLAIN, re.compile(""))]}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML without its own ideas of what a bare word means."""

    yaml_implicit_resolvers = _PLAIN_ONLY


def read_source(text: str | bytes, name: str) -> Source:
    """The tree of the one document in this text; raises `UnreadableError` when it has none."""
    if isinstance(text, bytes):
        text = _decoded(text, name)
    text = text.removeprefix("\ufeff")
    try:
        check_nesting(yaml.parse(text, Loader=_Loader))
        loader = _Loader(text)
        documents: list[Node] = []
        while loader.check_node():
            documents.append(loader.get_node())
            check_aliases(documents[-1])
    except yaml.YAMLError as error:
        raise UnreadableError(_syntax_problem(error, text, name)) from None
    except UnboundedError as error:
        raise UnreadableError(_located(name, error.mark, error.what, error.fix)) from None
    except UnicodeError:
        raise UnreadableError(_odd_character(name)) from None
    written = [node for node in documents if not _is_blank(node)]
    if not written:
        fix = "start with `apiVersion: descheduler/v1alpha2` and `kind: DeschedulerPolicy`"
        raise UnreadableError(Located(file=name, what="the document is empty", fix=fix))
    if len(written) > 1:
        what = "a second document starts here, and a policy is one document"
        fix = "remove it and the `---` before it, or give it a file of its own"
        raise UnreadableError(_located(name, written[1].start_mark, what, fix))
    return Source(name, written[0])


def _located(name: str, mark: Any, what: str, fix: str) -> Located:
    return Located(file=name, line=mark.line + 1, column=mark.column + 1, what=what, fix=fix)


def _is_blank(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == PLAIN and node.value == ""


def _decoded(text: bytes, name: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        column = error.start - (text.rfind(b"\n", 0, error.start) + 1) + 1
        what, fix = "this is not UTF-8 text", "save the file as UTF-8"
        problem = Located(file=name, line=line, column=column, what=what, fix=fix)
        raise UnreadableError(problem) from None


def _odd_character(name: str) -> Located:
    what = "the text has characters that cannot be written as UTF-8"
    return Located(file=name, what=what, fix="remove them")


def _syntax_problem(error: yaml.YAMLError, text: str, name: str) -> Located:
    """What the YAML parser stumbled over, told with its place."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        at = getattr(error, "position", 0)
        before = text[: at if isinstance(at, int) else 0]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        what, fix = "a control character stands here", "remove it"
        return Located(file=name, line=line, column=column, what=what, fix=fix)
    lines = text.splitlines()
    at_fault = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in at_fault[: mark.column + 1]:
        what, fix = "YAML does not indent with tabs", "replace the tab by spaces"
    else:
        context = getattr(error, "context", None)
        said = ", ".join(part for part in (context, getattr(error, "problem", "")) if part)
        what, fix = f"this is not YAML: {said}", "compare this line with the one before it"
    return _located(name, mark, what, fix)
