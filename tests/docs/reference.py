"""What the code itself says: every code that it answers with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from resettle.explain.pod import NO_TURN
from resettle.framework import Limit

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "resettle"


@cache
def calls() -> dict[str, list[ast.expr]]:
    """The first argument of each call anywhere in the source, by the name that is called."""
    arguments: dict[str, list[ast.expr]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[first, *_]):
                    arguments.setdefault(name, []).append(first)
    return arguments


def calls_of(name: str) -> list[ast.expr]:
    """The first argument of each call of this name."""
    return calls().get(name, [])


def refusal_codes() -> set[str]:
    """Every code that some refusal of ours carries."""
    return {code for first in calls_of("Refusal") for code in _codes(first)}


def stopped_codes() -> set[str]:
    """Every code with which a plugin of ours, or the cycle itself, stops."""
    return {code for first in calls_of("Stopped") for code in _codes(first)}


def unwanted_codes() -> set[str]:
    """Every code with which a plugin of ours passes a pod over, in its turn or when asked."""
    asked = {code for first in calls_of("NotProposed") for code in _codes(first)}
    return asked | usage_problem_codes() | {code for code, of_node in _notes() if not of_node}


def noted_codes() -> set[str]:
    """Every code of a remark on a node."""
    return usage_problem_codes() | {code for code, of_node in _notes() if of_node}


def usage_problem_codes() -> set[str]:
    """Every code under which what was measured of a node is not used."""
    return {code for first in calls_of("UsageProblem") for code in _codes(first)}


def _notes() -> Iterator[tuple[str, bool]]:
    """The codes of `draft.note`, and whether it is about a node."""
    for file in sorted((SOURCE / "plugins").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="note"),
                    args=[about, ast.Constant(value=str(code)), _],
                ):
                    yield code, ast.unparse(about).endswith("node")


def ground_codes() -> set[str]:
    """Every code under which some check rules a node out."""
    codes: set[str] = set()
    for file in (SOURCE / "placement" / "upstream_fit.py", SOURCE / "placement" / "projection.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "_checks":
                codes |= {code for code in map(_yielded, ast.walk(node)) if code}
    return codes


def _yielded(node: ast.AST) -> str:
    """The code that begins a tuple which a check yields."""
    match node:
        case ast.Yield(value=ast.Tuple(elts=[ast.Constant(value=str(code)), *_])):
            return code
    return ""


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
        case ast.IfExp(body=chosen, orelse=other):
            yield from (*_codes(chosen), *_codes(other))
        case ast.Name(id="NO_TURN"):
            yield NO_TURN
        case ast.Attribute(attr="code"):
            pass  # the code of another one, which is found where that one is made
        case _:
            raise AssertionError(f"cannot tell which code `{ast.unparse(first)}` is")
