"""`resettle plan`: what would move, what would stay, and why. It only reads."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from resettle.cli.policy import print_warnings, read_text, shown_name
from resettle.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resettle.cluster.dump import Dump
    from resettle.framework.descheduler import Descheduler
    from resettle.model.snapshot import Snapshot

_EXAMPLE = """\
examples:
  $ kubectl get nodes,pods,namespaces,priorityclasses,pdb,pvc -A -o json > cluster.json
  $ resettle plan --cluster cluster.json --policy policy.yaml
  $ resettle plan --cluster dumps/ --policy policy.yaml --now 2026-01-31T12:00:00Z -o json

exit codes:
  0 a plan was drawn, be it an empty one; 1 it could not be; 2 the command was asked wrongly
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `plan` to the command line."""
    summary = "Show which pods would move, and why; changes nothing."
    command = subcommands.add_parser(
        "plan",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--cluster",
        metavar="FILE",
        nargs="+",
        required=True,
        help="what `kubectl get … -o json` or `-o yaml` wrote: files, folders, `-` for stdin",
    )
    command.add_argument(
        "--policy", metavar="FILE", required=True, help="the descheduler policy; `-` for stdin"
    )
    command.add_argument(
        "--now",
        metavar="TIME",
        help="the time to plan for, such as 2026-01-31T12:00:00Z (default: the present)",
    )
    command.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "yaml"),
        default="table",
        help="for people (%(default)s) or for programs",
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Draws a plan and prints it; 1 when a plugin failed on the way."""
    from resettle.cli import render
    from resettle.cluster.dump import Dump
    from resettle.framework.descheduler import assembled
    from resettle.framework.registry import default_registry
    from resettle.policy.load import load_policy

    if arguments.policy == "-" and "-" in arguments.cluster:
        raise InputError("stdin cannot be both policy and cluster; write one of them to a file")
    now = instant(arguments.now)
    plugins = default_registry()
    policy = load_policy(
        read_text(arguments.policy), name=shown_name(arguments.policy), plugins=plugins
    )
    print_warnings(policy.warnings)
    descheduler = assembled(policy, plugins)
    dump = Dump(kind for plugin in plugins.values() for kind in plugin.kinds)
    dump.read(arguments.cluster)
    snapshot = dump.snapshot(now)
    for remark in remarks(descheduler, dump, snapshot):
        print(f"note: {remark}", file=sys.stderr)
    plan = descheduler.draw_plan(snapshot)
    if arguments.output == "table":
        print(render.plan_text(plan, snapshot, colour=render.colourful(sys.stdout)), end="")
    elif arguments.output == "json":
        print(render.plan_json(plan))
    else:
        print(render.plan_yaml(plan), end="")
    for failed in plan.errors:
        print(f"error: {failed}", file=sys.stderr)
    return 1 if plan.errors else 0


def instant(text: str | None) -> datetime:
    """The time a flag names, or the present."""
    from resettle.model.decode import parse_time

    if text is None:
        return datetime.now(UTC)
    try:
        named = parse_time(text)
    except InputError as error:
        raise InputError(f"--now: {error}") from None
    if named is None:
        raise InputError("--now is empty; write a time such as 2026-01-31T12:00:00Z")
    return named


def remarks(descheduler: Descheduler, dump: Dump, snapshot: Snapshot) -> Iterator[str]:
    """What is unusual about the input, though it can be planned with."""
    yield from descheduler.cautions
    if dump.unread:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(dump.unread.items()))
        yield f"objects of kinds that do not matter were skipped: {kinds}"
    if not snapshot.fleet.nodes:
        yield "the dump holds no nodes"
    if not snapshot.pods:
        yield "the dump holds no pods"
    if snapshot.strays:
        nodes = sorted({pod.node for pod in snapshot.strays})
        names = ", ".join(nodes[:3]) + (", …" if len(nodes) > 3 else "")
        yield (
            f"{len(snapshot.strays)} pods are on nodes that the dump does not hold ({names}); "
            "they count as replicas and stay where they are"
        )
    if not descheduler.profiles:
        yield "the policy has no profiles, so nothing is looked for"
