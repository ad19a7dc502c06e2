"""`resettle plan`: what would move, what would stay, and why. It only reads."""

from __future__ import annotations

import argparse
import gc
import sys

from resettle.cli.reading import add_sources, read
from resettle.cli.record_flags import count
from resettle.cli.timetable import timetable
from resettle.stopwatch import Stopwatch

_EXAMPLE = """\
examples:
  $ kubectl get nodes,pods,namespaces,priorityclasses,pdb,pvc,pv,csinodes -A -o json > cluster.json
  $ resettle plan --cluster cluster.json --policy policy.yaml
  $ resettle plan --kubeconfig ~/.kube/config --policy policy.yaml
  $ resettle plan --cluster dumps/ --policy policy.yaml --now 2026-01-31T12:00:00Z -o json
  $ resettle plan --record /var/lib/resettle --cycle 17

exit codes:
  0 a plan was drawn, be it an empty one; 1 it could not be, or a plugin failed;
  2 the command was asked wrongly
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
    add_sources(command)
    command.add_argument(
        "--round",
        metavar="N",
        type=count,
        help="with --record: which plan of the cycle, if it was drawn several times (default: 1)",
    )
    command.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "yaml"),
        default="table",
        help="for people (%(default)s) or for programs",
    )
    command.add_argument(
        "--profile-cycle", action="store_true", help="say on stderr where the time went"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Draws a plan and prints it; 1 when a plugin failed on the way."""
    # Nothing here makes garbage in cycles, and looking for it costs half of the time.
    gc.disable()
    watch = Stopwatch[str]()
    with watch.phase("start"):
        from resettle.cli import render
    descheduler, snapshot, earlier_rounds = read(arguments, watch)
    plan = descheduler.draw_plan(
        snapshot, earlier_rounds=earlier_rounds, phase=lambda turn: watch.phase(turn.plugin)
    )
    with watch.phase("print"):
        if arguments.output == "table":
            print(render.plan_text(plan, snapshot, colour=render.colourful(sys.stdout)), end="")
        elif arguments.output == "json":
            print(render.plan_json(plan))
        else:
            print(render.plan_yaml(plan), end="")
    for failed in plan.errors:
        print(f"error: {failed}", file=sys.stderr)
    if arguments.profile_cycle:
        print(timetable(watch), file=sys.stderr)
    return 1 if plan.errors else 0
