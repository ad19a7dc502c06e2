"""`resettle policy`: check a policy, convert an old one, or print the schema for an editor.

Nothing third-party is imported before a command runs, so that `--help` stays quick.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from resettle.errors import InputError, PolicyError
from resettle.files import display_name, read_text
from resettle.text import format_count

if TYPE_CHECKING:
    from resettle.policy.args import KnownPlugins
    from resettle.policy.document import Policy

OURS = "resettle/v1"
TARGETS = ("descheduler/v1alpha2", OURS)

_CHECK_EXAMPLE = """\
example:
  $ resettle policy check policy.yaml
  policy.yaml: no problems, 2 profiles
"""
_CONVERT_EXAMPLE = """\
example:
  $ resettle policy convert old-policy.yaml > policy.yaml
  $ resettle policy convert --to resettle/v1 policy.yaml > improved.yaml
"""
_SCHEMA_EXAMPLE = """\
example:
  $ resettle policy schema > policy.schema.json
  then start a policy with the line
  # yaml-language-server: $schema=policy.schema.json
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `policy` and its subcommands to the command line."""
    summary = "Check or convert policies, or print their JSON Schema."
    policy = subcommands.add_parser("policy", help=summary, description=summary)
    commands = policy.add_subparsers(metavar="COMMAND", required=True, title="commands")

    check = _add_command(commands, "check", "Report every problem of a policy.", _CHECK_EXAMPLE)
    check.add_argument("files", metavar="FILE", nargs="+", help="a policy; `-` reads stdin")
    check.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="how to print the result"
    )
    check.set_defaults(run=run_check)

    convert = _add_command(
        commands, "convert", "Print a policy in a newer apiVersion, tidied.", _CONVERT_EXAMPLE
    )
    convert.add_argument("file", metavar="FILE", help="the policy; `-` reads stdin")
    convert.add_argument(
        "--to", choices=TARGETS, default=TARGETS[0], help="the apiVersion to print (%(default)s)"
    )
    convert.add_argument(
        "-o",
        "--output",
        choices=("yaml", "json"),
        default="yaml",
        help="the policy itself (%(default)s), or a report with warnings and differences",
    )
    convert.set_defaults(run=run_convert)

    schema = _add_command(
        commands, "schema", "Print the JSON Schema of policies, for editors.", _SCHEMA_EXAMPLE
    )
    schema.set_defaults(run=run_schema)


def _add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    example: str,
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run_check(arguments: argparse.Namespace) -> int:
    """Report the problems of every file; return 1 if any has one."""
    from resettle.policy.load import load_policy

    plugins = installed_plugins()
    problems: list[Any] = []
    unread: list[str] = []
    failed = False
    for file in arguments.files:
        name = display_name(file)
        try:
            policy = load_policy(read_text(file), name=name, plugins=plugins)
        except InputError as error:
            unread.append(str(error))
        except PolicyError as error:
            failed = True
            problems += [*error.problems, *error.warnings]
            if arguments.output == "text":
                print(f"error: {error}", file=sys.stderr)
                print_warnings(error.warnings)
        else:
            problems += policy.warnings
            if arguments.output == "text":
                print(success_line(name, policy))
                print_warnings(policy.warnings)
    if arguments.output == "json":
        print(to_json(problems))
    if unread:
        raise InputError("\n".join(unread))
    return 1 if failed else 0


def run_convert(arguments: argparse.Namespace) -> int:
    """Print the policy in the requested apiVersion, and on stderr what it decides differently."""
    from resettle.policy.load import read_policy
    from resettle.policy.versions.upgrade import differences, write_policy

    name = display_name(arguments.file)
    reading = read_policy(
        read_text(arguments.file),
        name=name,
        plugins=installed_plugins(),
        improved=arguments.to == OURS,
    )
    text = write_policy(reading, name, arguments.to)
    warnings, changed = reading.policy.warnings, differences(reading)
    if arguments.output == "json":
        print(to_json({"policy": text, "warnings": warnings, "differences": changed}))
        return 0
    print_warnings(warnings)
    if changed:
        print(f"note: {name} decides differently as {OURS}:", file=sys.stderr)
    for difference in changed:
        print(f"  - {difference}", file=sys.stderr)
    print(text, end="")
    return 0


def run_schema(arguments: argparse.Namespace) -> int:
    """Print the JSON Schema of policies."""
    from resettle.policy.json_schema import json_schema

    print(json.dumps(json_schema(installed_plugins()), indent=2))
    return 0


def installed_plugins() -> KnownPlugins:
    """The plugins that policies may name: built-in ones and those of installed packages."""
    from resettle.framework.registry import default_registry

    return default_registry()


def success_line(name: str, policy: Policy) -> str:
    """The line for a policy without problems."""
    parts = ["no problems", format_count(len(policy.profiles), "profile")]
    if policy.warnings:
        parts.append(format_count(len(policy.warnings), "warning"))
    return f"{name}: {', '.join(parts)}"


def print_warnings(warnings: Iterable[Any]) -> None:
    """Print each warning with its place on stderr."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


def to_json(value: Any) -> str:
    """The value as JSON, for programs."""
    from msgspec import to_builtins

    return json.dumps(to_builtins(value), indent=2, ensure_ascii=False)
