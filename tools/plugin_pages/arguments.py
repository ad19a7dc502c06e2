"""What an operator may write for a plugin, as its `Args` declares it and says of it."""

from __future__ import annotations

import ast
import inspect as python
import re
from collections.abc import Iterator
from functools import cache
from textwrap import dedent
from typing import Any, NamedTuple

from msgspec import NODEFAULT, Struct, inspect

from resettle.framework.plugin import Plugin
from resettle.policy.document import RESETTLE_V1, is_resettle_only
from resettle.policy.profiles import default_problems

DURATION = "duration such as `10m`"
PERCENTAGE = "percentage such as `10%`"
IN_EFFECT = {
    ("DefaultEvictor", "minPodAge"): f"none; `10m` in `{RESETTLE_V1}`",
    ("DefaultEvictor", "minReplicas"): f"`0`; `2` in `{RESETTLE_V1}`",
    ("DefaultEvictor", "nodeFit"): f"`false`; `true` in `{RESETTLE_V1}`",
    ("RemoveFailedPods", "minPodLifetimeSeconds"): "`3600`",
    ("RemovePodsViolatingNodeTaints", "minTaintAge"): "`10m`",
    ("RemovePodsViolatingTopologySpreadConstraint", "constraints"): "`[DoNotSchedule]`",
    ("RemovePodsViolatingTopologySpreadConstraint", "topologyBalanceNodeFit"): "`true`",
}
"""What holds where nothing is written, for arguments whose struct leaves it open."""


class Argument(NamedTuple):
    """One key, nested ones with a dot, items of a list with `[]`."""

    key: str
    kind: str
    default: str
    meaning: str


def arguments(plugin: Plugin) -> list[Argument]:
    """Every key there is for the plugin, in the order of its struct."""
    needed = {problem.at[0] for problem in default_problems(plugin) if problem.at}
    return list(_of_struct(inspect.type_info(plugin.args), "", plugin.name, needed))


def _of_struct(
    kind: inspect.Type, prefix: str, plugin: str, needed: set[Any]
) -> Iterator[Argument]:
    match kind:
        case inspect.StructType():
            for field in kind.fields:
                key = f"{prefix}.{field.encode_name}".lstrip(".")
                default = IN_EFFECT.get((plugin, key)) or _default(field)
                meaning = meanings(kind.cls).get(field.name, "")
                if is_resettle_only(field.type):
                    meaning = f"`{RESETTLE_V1}` only: {meaning}"
                required = not prefix and field.encode_name in needed
                shown_default = "required" if required else default
                yield Argument(key, words_for(field.type), shown_default, meaning)
                yield from _of_struct(field.type, key, plugin, needed)
        case inspect.Metadata(type=inner):
            yield from _of_struct(inner, prefix, plugin, needed)
        case inspect.UnionType():
            for part in kind.types:
                yield from _of_struct(part, prefix, plugin, needed)
        case inspect.VarTupleType():
            yield from _of_struct(kind.item_type, f"{prefix}[]", plugin, needed)


def words_for(kind: inspect.Type) -> str:
    """What to write for a type, in a few words."""
    match kind:
        case inspect.Metadata(type=inner, extra_json_schema=schema):
            described = (schema or {}).get("description", "")
            if "duration" in described:
                return DURATION
            return PERCENTAGE if "percentage" in described else words_for(inner)
        case inspect.UnionType(types=types):
            real = (part for part in types if not isinstance(part, inspect.NoneType))
            return " or ".join(map(words_for, real))
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=least):
            return (
                "whole number" if least is None or least < 0 else f"whole number, {least} or more"
            )
        case inspect.FloatType():
            return "number"
        case inspect.LiteralType(values=values):
            return " or ".join(f"`{value}`" for value in values if value)
        case inspect.StrType():
            return "text"
        case inspect.VarTupleType(item_type=item):
            if isinstance(item, inspect.StructType):
                return "list"
            return f"list of {words_for(item).replace('whole number', 'whole numbers')}"
        case inspect.DictType(value_type=value):
            return f"map of text to {words_for(value)}"
        case inspect.StructType(cls=cls):
            return "label selector" if cls.__name__ == "LabelSelector" else "map"
    raise TypeError(f"there is no word for {kind}")


def _default(field: inspect.Field) -> str:
    default = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if default is NODEFAULT:
        return "required"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, (int, str)) and default != "":
        return f"`{default}`"
    return "none"


@cache
def meanings(struct: type[Struct]) -> dict[str, str]:
    """What stands below each field of a struct, as part of a sentence."""
    found: dict[str, str] = {}
    for owner in reversed(struct.__mro__):
        if owner is not Struct and issubclass(owner, Struct) and owner.__module__ != "msgspec":
            found |= dict(_below_fields(owner))
    return found


def _below_fields(struct: type[Struct]) -> Iterator[tuple[str, str]]:
    (body,) = ast.parse(dedent(python.getsource(struct))).body
    assert isinstance(body, ast.ClassDef)
    for line, below in zip(body.body, body.body[1:], strict=False):
        match line, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield name, in_a_row(said)


def in_a_row(said: str) -> str:
    """The sentence without its capital and its full stop, on one line."""
    text = " ".join(said.split()).removesuffix(".")
    return re.sub(r"^[A-Z](?=[a-z]* )", lambda first: first[0].lower(), text)
