"""How the walker speaks: what a node is, what a type expects, and the fix when they differ."""

from __future__ import annotations

from msgspec import inspect
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from resettle.policy.scalars import as_number, bare_meaning, meaning, quoted

_LONGEST_QUOTE = 60
_MOST = 2**63


def found(node: Node) -> str:
    """What stands there: `a list`, `a mapping`, a number as it is, or a word in back-ticks."""
    if isinstance(node, SequenceNode):
        return "a list"
    if isinstance(node, MappingNode):
        return "a mapping"
    if not isinstance(node, ScalarNode):
        return "something else"
    text = " ".join(str(node.value).split())
    if len(text) > _LONGEST_QUOTE:
        text = text[:_LONGEST_QUOTE] + "…"
    value = meaning(node)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return text
    return f'`"{text}"`' if quoted(node) and bare_meaning(text) != text else f"`{text}`"


def expected(kind: inspect.Type) -> str:
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
            return expected(inner)
    return "a list" if is_list(kind) else "what belongs here"


def contrast(node: Node, kind: inspect.Type) -> str:
    """The sentence for a node that is not of the kind expected."""
    value = meaning(node) if isinstance(node, ScalarNode) else None
    if isinstance(value, bool) and expected(kind) == "text":
        return f"{found(node)} without quotes means {str(value).lower()} and is not text"
    return f"{found(node)} is not {expected(kind)}"


def is_list(kind: inspect.Type) -> bool:
    """Whether a list is expected, whatever collection it becomes."""
    lists = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
    return isinstance(kind, lists)


def fix_for(node: Node, kind: inspect.Type) -> str:
    """What to write in place of a node that does not fit."""
    scalar = node if isinstance(node, ScalarNode) else None
    match kind:
        case inspect.BoolType():
            if scalar and quoted(scalar) and isinstance(bare_meaning(scalar.value), bool):
                return "remove the quotes"
            return "write `true` or `false`"
        case inspect.IntType() | inspect.FloatType():
            if scalar and quoted(scalar) and as_number(scalar.value) is not None:
                return "remove the quotes"
            return f"write {number_range(kind)}"
        case inspect.StructType() | inspect.DictType():
            return "write lines of `key: value`"
        case inspect.StrType() | inspect.LiteralType() | inspect.EnumType():
            if scalar and not quoted(scalar):
                return f'put it in quotes: `"{scalar.value}"`'
            return "write a single word or text in quotes"
    if is_list(kind) and scalar:
        return f"write it as a list: `[{scalar.value}]`"
    return "write one `- item` a line" if is_list(kind) else ""


def number_range(kind: inspect.IntType | inspect.FloatType) -> str:
    """The numbers a type takes: `a whole number from 0 to 100`."""
    name = expected(kind)
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
