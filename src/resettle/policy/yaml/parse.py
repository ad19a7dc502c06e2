"""Parses text into trees of YAML nodes, or reports the one problem that prevents it.

A few hundred bytes of YAML with aliases can expand to an endless tree, so nesting, aliases and size
are checked; after that, plain recursion over the tree is safe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from resettle.policy.problems import Located, ProblemCollector
from resettle.policy.yaml.source import PLAIN, KeyPath, Source, is_merge, place_of

_DEEPEST = 100
_LARGEST = 1_000_000


class UnboundedError(Exception):
    """The document is too deep or too large; carries the place and the fix."""

    def __init__(self, mark: Any, what: str, fix: str) -> None:
        super().__init__(what)
        self.mark, self.what, self.fix = mark, what, fix


def check_nesting(events: Iterable[yaml.Event]) -> None:
    """Raise on nesting so deep that composing the tree would exhaust the stack."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise _too_deep(event.start_mark)


def check_aliases(root: Node) -> None:
    """Raise on a tree that its aliases make endless, too deep or too large."""
    sizes: dict[int, int] = {}
    depths: dict[int, int] = {}
    open_nodes: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting[-1]
        children = _children(node)
        fresh = [child for child in children if id(child) not in sizes]
        if fresh and id(node) not in open_nodes:
            open_nodes.add(id(node))
            for child in fresh:
                if id(child) in open_nodes:
                    what = "an alias in here refers to a mapping or list that contains it"
                    raise UnboundedError(child.start_mark, what, "write the inner part out")
            waiting += fresh
            continue
        waiting.pop()
        open_nodes.discard(id(node))
        sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children)
        depths[id(node)] = 1 + max((depths[id(child)] for child in children), default=0)
        if sizes[id(node)] > _LARGEST:
            what = f"its aliases make this larger than {_LARGEST:,} values"
            raise UnboundedError(node.start_mark, what, "use fewer aliases")
        if depths[id(node)] > _DEEPEST + 1:
            raise _too_deep(node.start_mark)


def _children(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def _too_deep(mark: Any) -> UnboundedError:
    what = f"this is nested deeper than {_DEEPEST} levels"
    return UnboundedError(mark, what, "nest less deeply")


_EMPTY = MappingNode("tag:yaml.org,2002:map", [])


class UnreadableError(Exception):
    """The text is not one YAML document; carries the one problem that says so.

    `fallback` is what upstream reads as the policy in spite of that, if anything.
    """

    def __init__(self, problem: Located, fallback: Source | None = None) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.fallback = fallback


_PLAIN_ONLY: dict[Any, Any] = {None: [(PLAIN, re.compile(""))]}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML without its own rules for unquoted words."""

    yaml_implicit_resolvers = _PLAIN_ONLY


def read_source(text: str | bytes, name: str) -> Source:
    """The tree of the one document in this text; raises `UnreadableError` when it has none."""
    return Source(name, _single_document(read_documents(text, name), name))


def read_documents(text: str | bytes, name: str) -> list[Node]:
    """The trees of all documents in this text, blank ones too; raises `UnreadableError`."""
    if isinstance(text, bytes):
        text = _decode(text, name)
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
        raise UnreadableError(_problem_at(name, error.mark, error.what, error.fix)) from None
    except UnicodeError:
        raise UnreadableError(_odd_character(name)) from None
    return documents


def _single_document(documents: list[Node], name: str) -> Node:
    """The one document that is more than blank, if it is the first; upstream reads no other."""
    written = [node for node in documents if not is_blank(node)]
    if len(written) == 1 and written[0] is documents[0]:
        return written[0]
    if not written:
        fix = "start with `apiVersion: descheduler/v1alpha2` and `kind: DeschedulerPolicy`"
        problem = Located(file=name, what="the document is empty", fix=fix)
    elif len(written) > 1:
        what = "a second document starts here, and a policy is one document"
        fix = "remove it and the `---` before it, or give it a file of its own"
        problem = _problem_at(name, written[1].start_mark, what, fix)
    else:
        what = "an empty document comes before this one, and only the first is read"
        problem = _problem_at(name, written[0].start_mark, what, "remove the `---` before it")
    first = written[0] if written and written[0] is documents[0] else _EMPTY
    raise UnreadableError(problem, fallback=Source(name, first))


def _problem_at(name: str, mark: Any, what: str, fix: str) -> Located:
    return Located(file=name, line=mark.line + 1, column=mark.column + 1, what=what, fix=fix)


def is_blank(node: Node) -> bool:
    """Whether a document is empty."""
    return isinstance(node, ScalarNode) and node.tag == PLAIN and node.value == ""


def _decode(text: bytes, name: str) -> str:
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
    """The error of the YAML parser, with its place."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        at = getattr(error, "position", 0)
        before = text[: at if isinstance(at, int) else 0]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        what, fix = "there is a control character here", "remove it"
        return Located(file=name, line=line, column=column, what=what, fix=fix)
    lines = text.splitlines()
    at_fault = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in at_fault[: mark.column + 1]:
        what, fix = "YAML does not indent with tabs", "replace the tab by spaces"
    else:
        context = getattr(error, "context", None)
        message = ", ".join(part for part in (context, getattr(error, "problem", "")) if part)
        what, fix = f"this is not YAML: {message}", "compare this line with the one before it"
    return _problem_at(name, mark, what, fix)


def keep_last_of_duplicates(report: ProblemCollector) -> None:
    """Remove earlier duplicates of a key from the tree, as upstream does, and warn of each."""
    seen: set[int] = set()
    waiting: list[tuple[Node, KeyPath]] = [(report.source.root, ())]
    while waiting:
        node, path = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            waiting += [(item, (*path, index)) for index, item in enumerate(node.value)]
        elif isinstance(node, MappingNode):
            _remove_duplicates(node, path, report)
            waiting += [(value, (*path, str(key.value))) for key, value in node.value]


def _remove_duplicates(node: MappingNode, path: KeyPath, report: ProblemCollector) -> None:
    """Keep only the last of each key in one mapping."""
    last = {key.value: key for key, _ in node.value if isinstance(key, ScalarNode)}
    kept = []
    for key, value in node.value:
        counts = not isinstance(key, ScalarNode) or is_merge(key) or last[key.value] is key
        if counts:
            kept.append((key, value))
            continue
        line = last[key.value].start_mark.line + 1
        what = f"`{key.value}` is written twice, and the one on line {line} counts"
        report.warn((*path, key.value), what, "keep one of the two", place=place_of(key))
    node.value = kept


_CORE = "tag:yaml.org,2002:"


def as_node(value: Any) -> Node:
    """A plain value as a YAML node, without a place."""
    match value:
        case dict():
            pairs = [(as_node(str(key)), as_node(inner)) for key, inner in value.items()]
            return MappingNode(f"{_CORE}map", pairs)
        case list() | tuple():
            return SequenceNode(f"{_CORE}seq", [as_node(item) for item in value])
        case None:
            return ScalarNode(f"{_CORE}null", "null")
        case bool():
            return ScalarNode(f"{_CORE}bool", "true" if value else "false")
        case int() | float():
            return ScalarNode(f"{_CORE}{type(value).__name__}", str(value))
    return ScalarNode(f"{_CORE}str", str(value), style='"')
