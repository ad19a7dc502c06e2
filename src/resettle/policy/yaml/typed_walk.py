"""Reads a tree of YAML as a given type, and reports every difference.

What fits comes back as plain values that `msgspec.convert` will take; what does not is reported and
left out. A list keeps None in the place of an item left out, so that indexes stay true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any

from msgspec import Struct, inspect
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from resettle.policy.document import CONVERT_COMMAND, RESETTLE_V1, is_resettle_only
from resettle.policy.problems import ProblemCollector, did_you_mean, nearest
from resettle.policy.yaml.messages import (
    Hints,
    contrast,
    describe_node,
    fix_for,
    in_range,
    is_list,
    range_fix,
    type_name,
    where_key_belongs,
)
from resettle.policy.yaml.source import (
    KNOWN_TAGS,
    KeyPath,
    MappingEntry,
    entries,
    is_merge,
    place_of,
    scalar_value,
)

INVALID = object()
"""Returned for a value that was reported and is to be left out."""

_CORE_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", *KNOWN_TAGS}


@cache
def shape_of(struct: type[Struct]) -> inspect.StructType:
    """What msgspec knows of a struct's fields."""
    shape = inspect.type_info(struct)
    if not isinstance(shape, inspect.StructType):
        raise TypeError(f"{struct} is not a struct")
    return shape


class Walker:
    """Reads nodes for one collector; `hints` say where a misplaced key belongs.

    `improved` is whether the document is of `resettle/v1` and may have the keys of its own. With
    `strict`, unknown keys are errors even if reading is lenient, as upstream does for arguments.
    """

    def __init__(
        self, report: ProblemCollector, hints: Hints, *, improved: bool, strict: bool = False
    ) -> None:
        self.report = report
        self.hints = hints
        self.improved = improved
        self.lenient = report.lenient and not strict

    def read(self, node: Node, kind: inspect.Type, path: KeyPath, called: str = "") -> Any:
        """The plain value of a node that should be of this kind, or INVALID."""
        if node.tag not in _CORE_TAGS:
            self.report.error(path, f"the tag `{node.tag}` is not understood", "remove the tag")
            return INVALID
        match kind:
            case inspect.Metadata(type=inner) if is_resettle_only(kind):
                return self.read(node, inner, path, called)
            case inspect.Metadata(type=inner, extra_json_schema=extra):
                return self.read(node, inner, path, (extra or {}).get("description", called))
            case inspect.UnionType(types=kinds):
                if is_null(node) and any(isinstance(member, inspect.NoneType) for member in kinds):
                    return None
                return self.read(node, _most_fitting(node, kinds), path, called)
            case inspect.StructType():
                return self.read_struct(node, kind, path)
            case inspect.DictType():
                return self.read_mapping(node, kind, path)
        if is_list(kind):
            return self.read_sequence(node, kind.item_type, path, kind)  # type: ignore[attr-defined]
        return self.read_scalar(node, kind, path, called)

    def read_struct(
        self, node: Node, kind: inspect.StructType, path: KeyPath, also: Collection[str] = ()
    ) -> Any:
        """A mapping whose keys are fields; an empty value counts as a key not written."""
        if not isinstance(node, MappingNode):
            return self.report_mismatch(node, kind, path)
        fields = {field.encode_name: field for field in kind.fields}
        value: dict[str, Any] = {}
        written: set[str] = set()
        for entry in self.entries(node, path):
            at = (*path, entry.name)
            field = fields.get(entry.name)
            if field is None:
                if entry.name not in also:
                    written |= self.report_unknown_key(entry, fields, path)
            elif is_resettle_only(field.type) and not self.improved and not is_null(entry.value):
                self.report_too_new(entry, at)
            elif not is_null(entry.value):
                written.add(entry.name)
                plain = self.read(entry.value, field.type, at)
                if plain is not INVALID:
                    value[entry.name] = plain
        required = {field.encode_name for field in kind.fields if field.required}
        for name in sorted(required - written):
            self.report.error((*path, name), f"`{name}` is missing", f"add `{name}`")
        return value if required <= value.keys() else INVALID

    def read_mapping(self, node: Node, kind: inspect.DictType, path: KeyPath) -> Any:
        """A mapping whose keys are the author's own."""
        if not isinstance(node, MappingNode):
            return self.report_mismatch(node, kind, path)
        value: dict[str, Any] = {}
        for entry in self.entries(node, path):
            at = (*path, entry.name)
            if not self.is_choice(entry.name, kind.key_type, at, entry.key):
                continue
            plain = self.read(entry.value, kind.value_type, at)
            if plain is not INVALID:
                value[entry.name] = plain
        return value

    def read_sequence(
        self, node: Node, item: inspect.Type, path: KeyPath, kind: inspect.Type
    ) -> Any:
        """A list; None stands for each item that was left out."""
        if not isinstance(node, SequenceNode):
            return self.report_mismatch(node, kind, path)
        value = []
        for index, element in enumerate(node.value):
            at = (*path, index)
            plain = self.read_blank(item, at) if is_null(element) else self.read(element, item, at)
            value.append(None if plain is INVALID else plain)
        return value

    def read_blank(self, item: inspect.Type, path: KeyPath) -> Any:
        """A `-` with nothing after it, which upstream reads as an empty item."""
        item = _without_none(item)
        harmless = isinstance(item, inspect.StructType) and not any(
            field.required for field in item.fields
        )
        note = self.report.warn if harmless and self.lenient else self.report.error
        note(path, "there is nothing after this `-`", "remove the line")
        return {} if harmless and self.lenient else INVALID

    def read_scalar(self, node: Node, kind: inspect.Type, path: KeyPath, called: str) -> Any:
        """A single value: text, number, boolean, or one of a few words."""
        match kind:
            case inspect.StrType():
                return self.read_text(node, kind, path, called)
            case inspect.IntType() | inspect.FloatType():
                return self.read_number(node, kind, path, called)
            case inspect.BoolType():
                value = scalar_value(node) if isinstance(node, ScalarNode) else None
                return value if isinstance(value, bool) else self.report_mismatch(node, kind, path)
            case inspect.LiteralType() | inspect.EnumType():
                if not isinstance(node, ScalarNode):
                    return self.report_mismatch(node, kind, path)
                choice = scalar_value(node)
                return choice if self.is_choice(choice, kind, path, node) else INVALID
        return plain_value(node)

    def read_text(self, node: Node, kind: inspect.StrType, path: KeyPath, called: str) -> Any:
        if name := _only_a_name(node):
            self.report.error(path, "a mapping is not a name", f"write the bare name `- {name}`")
            return name
        value = scalar_value(node) if isinstance(node, ScalarNode) else None
        if not isinstance(value, str):
            return self.report_mismatch(node, kind, path)
        if kind.pattern and not re.search(kind.pattern, value):
            what = called or f"text of the form `{kind.pattern}`"
            self.report.error(path, f"{describe_node(node)} is not {what}")
            return INVALID
        return value

    def read_number(
        self, node: Node, kind: inspect.IntType | inspect.FloatType, path: KeyPath, called: str
    ) -> Any:
        value = scalar_value(node) if isinstance(node, ScalarNode) else None
        if isinstance(value, (bool, str)) or value is None or not math.isfinite(value):
            return self.report_mismatch(node, kind, path)
        whole = isinstance(kind, inspect.IntType)
        if whole and value != int(value):
            return self.report_mismatch(node, kind, path)
        if not in_range(value, kind):
            what = f"is not {called}" if called else "is out of range"
            self.report.error(path, f"{describe_node(node)} {what}", range_fix(kind))
            return INVALID
        return int(value) if whole else value

    def is_choice(self, value: Any, kind: inspect.Type, path: KeyPath, node: Node) -> bool:
        """Whether a value is among the few that the kind lists; true for kinds that list none."""
        match kind:
            case inspect.LiteralType(values=choices):
                pass
            case inspect.EnumType(cls=members):
                choices = tuple(member.value for member in members)
            case _:
                return True
        if value in choices:
            return True
        hint = did_you_mean(str(value), (str(choice) for choice in choices))
        what = f"{describe_node(node)} is not one of the words known here"
        self.report.error(path, what, hint, place=place_of(node))
        return False

    def report_mismatch(self, node: Node, kind: inspect.Type, path: KeyPath) -> Any:
        """Report a node of the wrong kind."""
        if is_null(node):
            self.report.error(
                path, f"nothing is written here; expected {type_name(kind)}", "write a value"
            )
        else:
            self.report.error(path, contrast(node, kind), fix_for(node, kind))
        return INVALID

    def entries(self, node: MappingNode, path: KeyPath) -> Iterator[MappingEntry]:
        """The usable entries of a mapping, each key once; the rest is reported."""
        for key, _ in node.value:
            if not isinstance(key, ScalarNode):
                what = f"{describe_node(key)} cannot be a key here"
                self.report.error(path, what, "write a word before the `:`", place=place_of(key))
        first: dict[str, Node] = {}
        for entry in entries(node):
            at, place = (*path, entry.name), place_of(entry.key)
            if entry.name in first:
                line = first[entry.name].start_mark.line + 1
                what = f"`{entry.name}` is written twice, first on line {line}"
                self.report.error(at, what, "keep one of the two", place=place)
                continue
            first[entry.name] = entry.key
            if is_merge(entry.key):
                fix = "give it an alias of a mapping, as in `<<: *common`"
                self.report.error(at, "`<<` merges mappings only", fix, place=place)
                continue
            yield entry

    def report_too_new(self, entry: MappingEntry, path: KeyPath) -> None:
        """Report a key that policies of the descheduler do not have."""
        what = f"`{entry.name}` belongs to `apiVersion: {RESETTLE_V1}`"
        fix = f"remove it, or convert the policy: `{CONVERT_COMMAND}`"
        self.report_key(path, what, fix, entry)

    def report_key(self, path: KeyPath, what: str, fix: str, entry: MappingEntry) -> None:
        """Report a key that has no effect here."""
        note = self.report.warn if self.lenient else self.report.error
        note(path, what, fix, place=place_of(entry.key))

    def report_unknown_key(
        self, entry: MappingEntry, known: Collection[str], path: KeyPath
    ) -> set[str]:
        """Report a key that means nothing here; returns the key that was meant, if one is near."""
        name = entry.name
        near = nearest(name, known)
        what, fix = f"`{name}` is not a key known here", did_you_mean(name, known)
        belongs = where_key_belongs(name, path, self.hints)
        if belongs and not (near and near.lower() == name.lower()):
            near, what, fix = None, f"{belongs}, not here", ""
        self.report_key((*path, name), what, fix, entry)
        if near is None or self.lenient:
            return set()
        self.report.mark_faulty((*path, near))
        return {near}


def is_null(node: Node) -> bool:
    """Whether the value is empty: `key:`, `key: null` or `key: ~`."""
    return isinstance(node, ScalarNode) and scalar_value(node) is None


def _without_none(kind: inspect.Type) -> inspect.Type:
    """The other member of `X | None`."""
    if isinstance(kind, inspect.UnionType):
        return next(member for member in kind.types if not isinstance(member, inspect.NoneType))
    return kind


def plain_value(node: Node) -> Any:
    """The value of a node of any type."""
    if isinstance(node, MappingNode):
        return {entry.name: plain_value(entry.value) for entry in entries(node)}
    if isinstance(node, SequenceNode):
        return [plain_value(item) for item in node.value]
    return scalar_value(node) if isinstance(node, ScalarNode) else None


def _only_a_name(node: Node) -> str:
    """X of `{name: X}`, which people write where a bare X belongs; empty otherwise."""
    if isinstance(node, MappingNode):
        match list(entries(node)):
            case [MappingEntry(name="name", value=ScalarNode(value=str(name)))]:
                return name
    return ""


def _most_fitting(node: Node, kinds: tuple[inspect.Type, ...]) -> inspect.Type:
    """The member of a union that a node of this sort is probably meant to be."""
    members = [kind for kind in kinds if not isinstance(kind, inspect.NoneType)]
    if isinstance(node, MappingNode):
        wanted: tuple[str, ...] = ("a mapping",)
    elif isinstance(node, SequenceNode):
        wanted = ("a list",)
    else:
        match plain_value(node):
            case bool():
                wanted = ("true or false",)
            case int() | float():
                wanted = ("a whole number", "a number")
            case _:
                wanted = ("text",)
    fitting = (kind for kind in members if type_name(kind) in wanted)
    return next(fitting, members[0])
