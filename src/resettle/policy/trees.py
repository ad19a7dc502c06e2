"""From text to trees of YAML nodes; or the one problem that keeps it from being read."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml import MappingNode, Node, ScalarNode

from resettle.policy.bounds import UnboundedError, check_aliases, check_nesting
from resettle.policy.problem import Located
from resettle.policy.scalars import PLAIN
from resettle.policy.source import Source

_EMPTY = MappingNode("tag:yaml.org,2002:map", [])


class UnreadableError(Exception):
    """The text is not one YAML document; carries the one problem that says so.

    `instead` is what the original takes for the policy all the same, where it does.
    """

    def __init__(self, problem: Located, instead: Source | None = None) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.instead = instead


_PLAIN_ONLY: dict[Any, Any] = {None: [(PLAIN, re.compile(""))]}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML without its own ideas of what a bare word means."""

    yaml_implicit_resolvers = _PLAIN_ONLY


def read_source(text: str | bytes, name: str) -> Source:
    """The tree of the one document in this text; raises `UnreadableError` when it has none."""
    return Source(name, _only_one(read_documents(text, name), name))


def read_documents(text: str | bytes, name: str) -> list[Node]:
    """The trees of all documents in this text, blank ones too; raises `UnreadableError`."""
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
    return documents


def _only_one(documents: list[Node], name: str) -> Node:
    """The one document that is more than blank, if it is the first; the original sees no other."""
    written = [node for node in documents if not is_blank(node)]
    if len(written) == 1 and written[0] is documents[0]:
        return written[0]
    if not written:
        fix = "start with `apiVersion: descheduler/v1alpha2` and `kind: DeschedulerPolicy`"
        problem = Located(file=name, what="the document is empty", fix=fix)
    elif len(written) > 1:
        what = "a second document starts here, and a policy is one document"
        fix = "remove it and the `---` before it, or give it a file of its own"
        problem = _located(name, written[1].start_mark, what, fix)
    else:
        what = "an empty document stands before this one, and only the first counts"
        problem = _located(name, written[0].start_mark, what, "remove the `---` before it")
    first = written[0] if written and written[0] is documents[0] else _EMPTY
    raise UnreadableError(problem, instead=Source(name, first))


def _located(name: str, mark: Any, what: str, fix: str) -> Located:
    return Located(file=name, line=mark.line + 1, column=mark.column + 1, what=what, fix=fix)


def is_blank(node: Node) -> bool:
    """Whether a document says nothing at all."""
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
