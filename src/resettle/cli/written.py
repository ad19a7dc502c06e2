"""A file written for a simulation, read as a policy is: every mistake at once, each with a fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct, convert, structs
from yaml import MappingNode

from resettle.policy.report import Report, policy_error
from resettle.policy.trees import UnreadableError, read_source
from resettle.policy.walk import Walker, shape_of
from resettle.texts import read_text, shown_name

Document = TypeVar("Document", bound=Struct)


def read_written(
    file: str, shape: type[Document], noun: str, keys: Sequence[str]
) -> tuple[Document, Report]:
    """What the file holds, and a report to note in what else is wrong with it.

    Raises `PolicyError` with every problem of its shape; `noun` and the most important `keys` are
    for the sentences.
    """
    name = shown_name(file)
    *first, last = (f"`{key}`" for key in keys)
    named = f"{', '.join(first)} and {last}"
    try:
        source = read_source(read_text(file), name)
    except UnreadableError as error:
        problem = error.problem
        if "policy" in problem.what or "apiVersion" in problem.fix:
            fix = f"write one document with {named}"
            problem = structs.replace(problem, what=f"{noun} is one document", fix=fix)
        raise policy_error(name, [problem]) from None
    report = Report(source)
    if not isinstance(source.root, MappingNode):
        report.error((), f"{noun} is a mapping", f"write {named} as its keys")
        report.raise_errors()
    plain = Walker(report, dict, improved=False).struct(source.root, shape_of(shape), ())
    report.raise_errors()
    return convert(plain, shape), report
