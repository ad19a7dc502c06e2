"""Short words for the tests: read a text, and see the problems that it has."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import dedent, indent
from typing import Any

from resettle.errors import PolicyError
from resettle.policy.document import Policy, ProfileConfig
from resettle.policy.load import load_policy
from tests.policy.fakes import PLUGINS

HEAD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
IMPROVED_HEAD = "apiVersion: resettle/v1\nkind: DeschedulerPolicy\n"
OLD_HEAD = "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"


def load(text: str | bytes, plugins: Any = PLUGINS) -> Policy:
    return load_policy(text, name="p", plugins=plugins)


def one_line_each(problems: Iterable[Any]) -> list[str]:
    """`line:column path: what; fix`, one for each."""
    return [" ".join(str(problem).removeprefix("p:").split()) for problem in problems]


def errors(text: str | bytes, plugins: Any = PLUGINS) -> list[str]:
    """The mistakes in a text, none when it loads."""
    try:
        load(text, plugins)
    except PolicyError as error:
        return one_line_each(error.problems)
    return []


def warnings(text: str | bytes) -> list[str]:
    """The warnings about a text, whether it loads or not."""
    try:
        return one_line_each(load(text).warnings)
    except PolicyError as error:
        return one_line_each(error.warnings)


def document(body: str, head: str = HEAD) -> str:
    """A document with this after its first two lines, which start at line 3."""
    return head + dedent(body).lstrip("\n")


def one_profile(body: str, head: str = HEAD) -> str:
    """A document with one profile; its body starts at line 5, column 3."""
    return head + "profiles:\n- name: it\n" + indent(dedent(body).lstrip("\n"), "  ")


def with_args(plugin: str, args: str, point: str = "deschedule", head: str = HEAD) -> str:
    """A document that runs one plugin; `args` start at line 9, column 7."""
    inner = indent(dedent(args).strip("\n"), "    ")
    return one_profile(
        f"""
plugins: {{{point}: {{enabled: [{plugin}]}}}}
pluginConfig:
- name: {plugin}
  args:
{inner}
""",
        head,
    )


def profile(text: str) -> ProfileConfig:
    """The only profile of a document."""
    (only,) = load(text).profiles
    return only
