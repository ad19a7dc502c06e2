"""Messages of the typed walk: what a node is, what its type expects, and the fix.

A key at the wrong level gets a hint where it belongs, for every key of the document's types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import Struct, inspect
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from resettle.policy.args import KnownPlugins
from resettle.policy.document import RESETTLE_V1, is_resettle_only
from resettle.policy.problems import format_path
from resettle.policy.yaml.source import KeyPath, as_number, is_quoted, scalar_value, unquoted_value

_LONGEST_QUOTE = 60
_MOST = 2**63


def describe_node(node: Node) -> str:
    """The node in words: `a list`, `a mapping`, a number as it is, or a word in back-ticks."""
    if isinstance(node, SequenceNode):
        return "a list"
    if isinstance(node, MappingNode):
        return "a mapping"
    if not isinstance(node, ScalarNode):
        return "something else"
    text = " ".join(str(node.value).split())
    if len(text) > _LONGEST_QUOTE:
        text = text[:_LONGEST_QUOTE] + "…"
    value = scalar_value(node)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return text
    return f'`"{text}"`' if is_quoted(node) and unquoted_value(text) != text else f"`{text}`"


def type_name(kind: inspect.Type) -> str:
    """What a value of this type is called."""
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number"
        case inspect.FloatType():
            return "a number"
        case inspect.StructType() | inspect.DictType():
            return "a mapping"
        case inspect.LiteralType() | inspect.EnumType() | inspect.StrType():
            return "text"
        case inspect.Metadata(type=inner):
            return type_name(inner)
    return "a list" if is_list(kind) else "what belongs here"


def contrast(node: Node, kind: inspect.Type) -> str:
    """The sentence for a node that is not of the kind expected."""
    value = scalar_value(node) if isinstance(node, ScalarNode) else None
    if isinstance(value, bool) and type_name(kind) == "text":
        return f"{describe_node(node)} without quotes means {str(value).lower()} and is not text"
    return f"{describe_node(node)} is not {type_name(kind)}"


def is_list(kind: inspect.Type) -> bool:
    """Whether a list is expected, whatever collection it becomes."""
    lists = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
    return isinstance(kind, lists)


def fix_for(node: Node, kind: inspect.Type) -> str:
    """What to write in place of a node that does not fit."""
    scalar = node if isinstance(node, ScalarNode) else None
    match kind:
        case inspect.BoolType():
            if scalar and is_quoted(scalar) and isinstance(unquoted_value(scalar.value), bool):
                return "remove the quotes"
            return "write `true` or `false`"
        case inspect.IntType() | inspect.FloatType():
            if scalar and is_quoted(scalar) and as_number(scalar.value) is not None:
                return "remove the quotes"
            return f"write {number_range(kind)}"
        case inspect.StructType() | inspect.DictType():
            return "write lines of `key: value`"
        case inspect.StrType() | inspect.LiteralType() | inspect.EnumType():
            if scalar and not is_quoted(scalar):
                return f'put it in quotes: `"{scalar.value}"`'
            return "write a single word or text in quotes"
    if is_list(kind) and scalar:
        return f"write it as a list: `[{scalar.value}]`"
    return "write one `- item` a line" if is_list(kind) else ""


def number_range(kind: inspect.IntType | inspect.FloatType) -> str:
    """The numbers a type takes: `a whole number from 0 to 100`."""
    name = type_name(kind)
    low, high = kind.ge, kind.le if kind.le is not None else kind.lt
    if kind.gt is not None:
        return f"{name} above {kind.gt}" + (f" and up to {high}" if high is not None else "")
    if low is not None and high is not None:
        return f"{name} from {low} to {high}"
    if low is not None:
        return f"{name} of {low} or more"
    return f"{name} of at most {high}" if high is not None else name


def range_fix(kind: inspect.IntType | inspect.FloatType) -> str:
    """What to write in place of a number that the type does not take."""
    bounds = (kind.ge, kind.gt, kind.le, kind.lt)
    return "write a smaller number" if bounds == (None,) * 4 else f"write {number_range(kind)}"


def in_range(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    """Whether a number is one of those the type takes, and fits in 64 bits when whole."""
    if isinstance(kind, inspect.IntType) and not -_MOST <= value < _MOST:
        return False
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
    )


_ARGS = "profiles[].pluginConfig[].args"
_FEW = 3


class KeyPlace(NamedTuple):
    """A place where a key may be written, and the sentence that names it."""

    place: str
    sentence: str


Hints = Callable[[], Mapping[str, list[KeyPlace]]]
"""Computed only once a key is at the wrong place: most policies never need it."""
_shape = cache(inspect.type_info)


def where_key_belongs(key: str, path: KeyPath, hints: Hints) -> str | None:
    """The sentence that names the nearest place where the key may be written."""
    here = format_path(tuple("[]" if isinstance(step, int) else step for step in path))
    steps = here.replace(".[]", "[]").split(".")

    def in_common(known: KeyPlace) -> int:
        return sum(1 for a, b in zip(steps, known.place.split("."), strict=False) if a == b)

    places = hints().get(key)
    return max(places, key=in_common).sentence if places else None


def document_hints(document: type[Struct], plugins: KnownPlugins) -> dict[str, list[KeyPlace]]:
    """The places of each key of a document and of all plugins' arguments."""
    hints: dict[str, list[KeyPlace]] = {}
    for key, place in _keys(_shape(document), ""):
        hints.setdefault(key, []).append(KeyPlace(place, f"`{key}` belongs {_under(place)}"))
    for key, owners in _argument_owners(plugins).items():
        whose = f" of {list_names(owners)}" if len(owners) <= _FEW else ""
        hints.setdefault(key, []).append(KeyPlace(_ARGS, f"`{key}` belongs {_under(_ARGS)}{whose}"))
    for plugin in plugins.values():
        for key, place in _keys(_shape(plugin.args), _ARGS):
            hints.setdefault(key, []).append(KeyPlace(place, f"`{key}` belongs {_under(place)}"))
    return hints


def args_hints(document: type[Struct], plugins: KnownPlugins) -> dict[str, list[KeyPlace]]:
    """The hints for a key that was found inside the arguments of a plugin."""
    hints = document_hints(document, plugins)
    for key, owners in _argument_owners(plugins).items():
        hints[key] = [KeyPlace(_ARGS, f"`{key}` is an argument of {list_names(owners)}")]
    return hints


def resettle_only_hints(document: type[Struct], plugins: KnownPlugins) -> dict[str, list[KeyPlace]]:
    """The hints for keys of `resettle/v1` in a document of an older apiVersion."""
    structs = [document, *(plugin.args for plugin in plugins.values())]
    return {
        field.encode_name: [
            KeyPlace("", f"`{field.encode_name}` belongs to `apiVersion: {RESETTLE_V1}`")
        ]
        for struct in structs
        for field in _fields(_shape(struct))
        if is_resettle_only(field.type)
    }


def list_names(names: Iterable[str]) -> str:
    """Names in back-ticks, with an `and` before the last."""
    ticked = [f"`{name}`" for name in names]
    return " and ".join(filter(None, [", ".join(ticked[:-1]), *ticked[-1:]])) or "nothing"


def _argument_owners(plugins: KnownPlugins) -> dict[str, list[str]]:
    """The plugins that take each argument."""
    owners: dict[str, list[str]] = {}
    for name in sorted(plugins):
        for field in _fields(_shape(plugins[name].args)):
            owners.setdefault(field.encode_name, []).append(name)
    return owners


def _under(place: str) -> str:
    return f"under `{place.removeprefix('profiles[].')}`" if place else "at the top level"


def _keys(
    kind: inspect.Type, place: str, inside: tuple[type, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Each key that may be written at a place or below it, with its place; the nearest first."""
    deeper: list[tuple[inspect.Type, str]] = []
    for field in _fields(kind):
        yield field.encode_name, place
        deeper.append((field.type, f"{place}.{field.encode_name}" if place else field.encode_name))
    below = (*inside, kind.cls) if isinstance(kind, inspect.StructType) else inside
    for inner, at in deeper:
        for struct, suffix in _structs(inner):
            if struct.cls not in below:
                yield from _keys(struct, at + suffix, below)


def _structs(kind: inspect.Type) -> Iterator[tuple[inspect.StructType, str]]:
    """The structs a value of this type holds, with how a path would lead to them."""
    match kind:
        case inspect.StructType():
            yield kind, ""
        case inspect.Metadata(type=inner):
            yield from _structs(inner)
        case inspect.UnionType(types=members):
            for member in members:
                yield from _structs(member)
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            for struct, suffix in _structs(inner):
                yield struct, f"[]{suffix}"
        case inspect.DictType(value_type=inner):
            for struct, suffix in _structs(inner):
                yield struct, f".<name>{suffix}"


def _fields(kind: inspect.Type) -> tuple[inspect.Field, ...]:
    return kind.fields if isinstance(kind, inspect.StructType) else ()
