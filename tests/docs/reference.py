"""What the code itself says: the plugins, their arguments, and every code they answer with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from msgspec import NODEFAULT, inspect

from resettle.framework import Limit, Plugin
from resettle.framework.registry import GROUP

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "resettle"

IN_TREE: dict[str, Plugin] = {
    entry.name: entry.load()
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    if entry.value.startswith("resettle.")
}


def arguments(plugin: Plugin) -> dict[str, Any]:
    """Every key an operator may write for the plugin, nested ones too, with its default."""
    return dict(_keys(inspect.type_info(plugin.args), ""))


def _keys(kind: inspect.Type, prefix: str) -> Iterator[tuple[str, Any]]:
    match kind:
        case inspect.StructType():
            for field in kind.fields:
                path = f"{prefix}.{field.encode_name}".lstrip(".")
                yield path, _default(field)
                yield from _keys(field.type, path)
        case inspect.UnionType():
            for part in kind.types:
                yield from _keys(part, prefix)
        case inspect.VarTupleType():
            yield from _keys(kind.item_type, f"{prefix}[]")


def _default(field: inspect.Field) -> Any:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def calls_of(name: str) -> Iterator[ast.expr]:
    """The first argument of each call of this name anywhere in the source."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name and node.args:
                yield node.args[0]


def refusal_codes() -> set[str]:
    """Every code that some refusal of ours carries."""
    return {code for first in calls_of("Refusal") for code in _codes(first)}


def stopped_codes() -> set[str]:
    """Every code with which a plugin of ours, or the cycle itself, stops."""
    return {code for first in calls_of("Stopped") for code in _codes(first)}


def _codes(first: ast.expr) -> Iterator[str]:
    match first:
        case ast.Constant(value=str(code)):
            yield code
        case ast.JoinedStr(values=[ast.Constant(value=str(start)), ast.FormattedValue()]):
            assert start == "limit-", f"`{ast.unparse(first)}` could be any code"
            yield from (f"{start}{limit}" for limit in Limit)
        case ast.Name(id="code"):
            # A function that wraps the call and hands its own first argument on.
            yield from (code for inner in calls_of("_protects") for code in _codes(inner))
        case ast.Attribute(attr="code"):
            pass  # the code of another one, which is found where that one is made
        case _:
            raise AssertionError(f"cannot tell which code `{ast.unparse(first)}` is")
