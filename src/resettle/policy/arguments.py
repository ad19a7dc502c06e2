"""From `args` as written to the struct a plugin is given.

One mistake must not cause a second, false one: a key with a mistake is left out, and what a plugin
then says about that key, or about its arguments as a whole, is not repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import ValidationError, convert
from yaml import Node

from resettle.policy.args import Args
from resettle.policy.hints import Hints
from resettle.policy.known import KnownPlugin
from resettle.policy.problem import Path, Problem
from resettle.policy.report import Report
from resettle.policy.walk import BAD, Walker, is_null, shape_of

_ENVELOPE = ("apiVersion", "kind")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


def read_args(
    node: Node | None,
    plugin: KnownPlugin,
    path: Path,
    report: Report,
    hints: Hints,
    *,
    improved: bool,
) -> Args | None:
    """The arguments written here, checked by types and by the plugin; None when past saving."""
    written: Any = {}
    if node is not None and not is_null(node):
        shape = shape_of(plugin.args)
        walker = Walker(report, hints, improved=improved, strict=True)
        written = walker.struct(node, shape, path, also=_ENVELOPE)
        if written is BAD:
            return None
    keys = {field.encode_name for field in shape_of(plugin.args).fields}
    dropped = {key for key in keys if report.faulty((*path, key))}
    spoilt = report.faulty(path)
    args = build_args(plugin, {k: v for k, v in written.items() if k not in dropped})
    if isinstance(args, Problem):
        if not spoilt:
            report.add(args.under(*path))
        return None
    for problem in tuple(args.problems()):
        if not (spoilt and _follows_from(problem, dropped)):
            report.add(problem.under(*path))
    return args


def build_args(plugin: KnownPlugin, values: Mapping[str, Any]) -> Args | Problem:
    """The plugin's struct filled with these values, or what msgspec has against them."""
    try:
        return convert(dict(values), plugin.args)
    except ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        return Problem(what=what[:1].lower() + what[1:], at=_path_of(where))


def default_problems(plugin: KnownPlugin) -> tuple[Problem, ...]:
    """What speaks against running a plugin without any arguments."""
    args = build_args(plugin, {})
    return (args,) if isinstance(args, Problem) else tuple(args.problems())


def _follows_from(problem: Problem, dropped: set[str]) -> bool:
    """Whether a problem may be no more than the echo of a key that was left out."""
    if not problem.at or problem.at[0] in dropped:
        return True
    return any(f"`{key}`" in str(problem) for key in dropped)


def _path_of(where: str) -> Path:
    """The steps of `.thresholds[0]`, as msgspec writes a place."""
    return tuple(int(index) if index else key for key, index in _STEP.findall(where))
