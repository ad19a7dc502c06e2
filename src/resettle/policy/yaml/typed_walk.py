"""Walks a tree of YAML beside the type it should have, and notes every difference.

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

from resettle.policy.document import CONVERT, OURS, is_ours
from resettle.policy.problems import Report, did_you_mean, nearest
from resettle.policy.yaml.messages import (
    Hints,
    contrast,
    expected,
    fix_for,
    found,
    in_range,
    is_list,
    range_fix,
    way_home,
)
from resettle.policy.yaml.source import (
    KNOWN_TAGS,
    Entry,
    KeyPath,
    entries,
    is_merge,
    meaning,
    place_of,
)

BAD = object()
"""What the walker returns for a value that was reported and is to be left out."""

_CORE_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", *KNOWN_TAGS}


@cache
def shape_of(struct: type[Struct]) -> inspect.StructType:
    """What msgspec knows of a struct's fields."""
    shape = inspect.type_info(struct)
    if not isinstance(shape, inspect.StructType):
        raise TypeError(f"{struct} is not a struct")
    return shape


class Walker:
    """Reads nodes for one report; `hints` say where a misplaced key belongs.

    `improved` is whether the document is of `resettle/v1` and may have the keys of its own. With
    `strict`, the original tells of keys that it does not know, as it does in plugins' arguments.
    """

    def __init__(
        self, report: Report, hints: Hints, *, improved: bool, strict: bool = False
    ) -> None:
        self.report = report
        self.hints = hints
        self.improved = improved
        self.forgiving = report.forgiving and not strict

    def read(self, node: Node, kind: inspect.Type, path: KeyPath, called: str = "") -> Any:
        """The plain value of a node that should be of this kind, or BAD."""
        if node.tag not in _CORE_TAGS:
            self.report.error(path, f"the tag `{node.tag}` is not understood", "remove the tag")
            return BAD
        match kind:
            case inspect.Metadata(type=inner) if is_ours(kind):
                return self.read(node, inner, path, called)
            case inspect.Metadata(type=inner, extra_json_schema=extra):
                return self.read(node, inner, path, (extra or {}).get("description", called))
            case inspect.UnionType(types=kinds):
                if is_null(node) and any(isinstance(one, inspect.NoneType) for one in kinds):
                    return None
                return self.read(node, _most_fitting(node, kinds), path, called)
            case inspect.StructType():
                return self.struct(node, kind, path)
            case inspect.DictType():
                return self.mapping(node, kind, path)
        if is_list(kind):
            return self.sequence(node, kind.item_type, path, kind)  # type: ignore[attr-defined]
        return self.scalar(node, kind, path, called)

    def struct(
        self, node: Node, kind: inspect.StructType, path: KeyPath, also: Collection[str] = ()
    ) -> Any:
        """A mapping whose keys are fields; an empty value counts as a key not written."""
        if not isinstance(node, MappingNode):
            return self.mismatch(node, kind, path)
        fields = {field.encode_name: field for field in kind.fields}
        value: dict[str, Any] = {}
        written: set[str] = set()
        for entry in self.entries(node, path):
            at = (*path, entry.name)
            field = fields.get(entry.name)
            if field is None:
                if entry.name not in also:
                    written |= self.unknown_key(entry, fields, path)
            elif is_ours(field.type) and not self.improved and not is_null(entry.value):
                self.too_new(entry, at)
            elif not is_null(entry.value):
                written.add(entry.name)
                plain = self.read(entry.value, field.type, at)
                if plain is not BAD:
                    value[entry.name] = plain
        required = {field.encode_name for field in kind.fields if field.required}
        for name in sorted(required - written):
            self.report.error((*path, name), f"`{name}` is missing", f"add `{name}`")
        return value if required <= value.keys() else BAD

    def mapping(self, node: Node, kind: inspect.DictType, path: KeyPath) -> Any:
        """A mapping whose keys are the author's own."""
        if not isinstance(node, MappingNode):
            return self.mismatch(node, kind, path)
        value: dict[str, Any] = {}
        for entry in self.entries(node, path):
            at = (*path, entry.name)
            if not self.is_choice(entry.name, kind.key_type, at, entry.key):
                continue
            plain = self.read(entry.value, kind.value_type, at)
            if plain is not BAD:
                value[entry.name] = plain
        return value

    def sequence(self, node: Node, item: inspect.Type, path: KeyPath, kind: inspect.Type) -> Any:
        """A list; None stands for each item that was left out."""
        if not isinstance(node, SequenceNode):
            return self.mismatch(node, kind, path)
        value = []
        for index, element in enumerate(node.value):
            at = (*path, index)
            plain = self.blank(item, at) if is_null(element) else self.read(element, item, at)
            value.append(None if plain is BAD else plain)
        return value

    def blank(self, item: inspect.Type, path: KeyPath) -> Any:
        """A `-` with nothing behind it, which the original takes for an item that says nothing."""
        item = _without_none(item)
        harmless = isinstance(item, inspect.StructType) and not any(
            field.required for field in item.fields
        )
        note = self.report.warn if harmless and self.forgiving else self.report.error
        note(path, "nothing stands behind this `-`", "remove the line")
        return {} if harmless and self.forgiving else BAD

    def scalar(self, node: Node, kind: inspect.Type, path: KeyPath, called: str) -> Any:
        """A single value: text, number, boolean, or one of a few words."""
        match kind:
            case inspect.StrType():
                return self.text(node, kind, path, called)
            case inspect.IntType() | inspect.FloatType():
                return self.number(node, kind, path, called)
            case inspect.BoolType():
                value = meaning(node) if isinstance(node, ScalarNode) else None
                return value if isinstance(value, bool) else self.mismatch(node, kind, path)
            case inspect.LiteralType() | inspect.EnumType():
                if not isinstance(node, ScalarNode):
                    return self.mismatch(node, kind, path)
                choice = meaning(node)
                return choice if self.is_choice(choice, kind, path, node) else BAD
        return plain_value(node)

    def text(self, node: Node, kind: inspect.StrType, path: KeyPath, called: str) -> Any:
        if name := _only_a_name(node):
            self.report.error(path, "a mapping is not a name", f"write the bare name `- {name}`")
            return name
        value = meaning(node) if isinstance(node, ScalarNode) else None
        if not isinstance(value, str):
            return self.mismatch(node, kind, path)
        if kind.pattern and not re.search(kind.pattern, value):
            what = called or f"text of the form `{kind.pattern}`"
            self.report.error(path, f"{found(node)} is not {what}")
            return BAD
        return value

    def number(
        self, node: Node, kind: inspect.IntType | inspect.FloatType, path: KeyPath, called: str
    ) -> Any:
        value = meaning(node) if isinstance(node, ScalarNode) else None
        if isinstance(value, (bool, str)) or value is None or not math.isfinite(value):
            return self.mismatch(node, kind, path)
        whole = isinstance(kind, inspect.IntType)
        if whole and value != int(value):
            return self.mismatch(node, kind, path)
        if not in_range(value, kind):
            what = f"is not {called}" if called else "is out of range"
            self.report.error(path, f"{found(node)} {what}", range_fix(kind))
            return BAD
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
        what = f"{found(node)} is not one of the words known here"
        self.report.error(path, what, hint, place=place_of(node))
        return False

    def mismatch(self, node: Node, kind: inspect.Type, path: KeyPath) -> Any:
        """Reports a node of the wrong kind."""
        if is_null(node):
            self.report.error(path, f"nothing stands here, not {expected(kind)}", "write a value")
        else:
            self.report.error(path, contrast(node, kind), fix_for(node, kind))
        return BAD

    def entries(self, node: MappingNode, path: KeyPath) -> Iterator[Entry]:
        """The usable entries of a mapping, each key once; the rest is reported."""
        for key, _ in node.value:
            if not isinstance(key, ScalarNode):
                what = f"{found(key)} cannot be a key here"
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

    def too_new(self, entry: Entry, path: KeyPath) -> None:
        """Reports a key that policies of the descheduler do not have."""
        what = f"`{entry.name}` belongs to `apiVersion: {OURS}`"
        fix = f"remove it, or convert the policy: `{CONVERT}`"
        self.not_a_key(path, what, fix, entry)

    def not_a_key(self, path: KeyPath, what: str, fix: str, entry: Entry) -> None:
        """Notes a key that counts for nothing here."""
        note = self.report.warn if self.forgiving else self.report.error
        note(path, what, fix, place=place_of(entry.key))

    def unknown_key(self, entry: Entry, known: Collection[str], path: KeyPath) -> set[str]:
        """Reports a key that means nothing here; returns the key that was meant, if one is near."""
        name = entry.name
        near = nearest(name, known)
        what, fix = f"`{name}` is not a key known here", did_you_mean(name, known)
        home = way_home(name, path, self.hints)
        if home and not (near and near.lower() == name.lower()):
            near, what, fix = None, f"{home}, not here", ""
        self.not_a_key((*path, name), what, fix, entry)
        if near is None or self.forgiving:
            return set()
        self.report.blame((*path, near))
        return {near}


def is_null(node: Node) -> bool:
    """Whether nothing stands there: `key:`, `key: null` or `key: ~`."""
    return isinstance(node, ScalarNode) and meaning(node) is None


def _without_none(kind: inspect.Type) -> inspect.Type:
    """The other member of `X | None`."""
    if isinstance(kind, inspect.UnionType):
        return next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    return kind


def plain_value(node: Node) -> Any:
    """The value of a node whose type has no say."""
    if isinstance(node, MappingNode):
        return {entry.name: plain_value(entry.value) for entry in entries(node)}
    if isinstance(node, SequenceNode):
        return [plain_value(item) for item in node.value]
    return meaning(node) if isinstance(node, ScalarNode) else None


def _only_a_name(node: Node) -> str:
    """X of `{name: X}`, which people write where a bare X belongs; empty otherwise."""
    if isinstance(node, MappingNode):
        match list(entries(node)):
            case [Entry(name="name", value=ScalarNode(value=str(name)))]:
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
    fitting = (kind for kind in members if expected(kind) in wanted)
    return next(fitting, members[0])
