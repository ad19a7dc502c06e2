"""`resettle plan`: what would move, what would stay, and why. It only reads.

The garbage collector is off while it runs: nothing here makes reference cycles, and searching for
them would take half of the time. `--profile-cycle` prints how long each phase took.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys

from resettle.cli.flags.record import parse_count
from resettle.cli.inputs.cluster import add_source_flags, read_inputs
from resettle.clock import Stopwatch


def format_timings(watch: Stopwatch[str]) -> str:
    """A table of the phases with their times in milliseconds, and of the whole process."""
    width = max(map(len, (*watch.spent, "whole process")))
    lines = [f"{'PHASE':{width}}  {'WALL ms':>9}  {'CPU ms':>9}"]
    for name, (wall, cpu) in watch.spent.items():
        lines.append(f"{name:{width}}  {wall * 1000:9.1f}  {cpu * 1000:9.1f}")
    total = sum(spent.wall for spent in watch.spent.values())
    lines.append(f"{'whole process':{width}}  {total * 1000:9.1f}  {_process_cpu() * 1000:9.1f}")
    lines.append(f"peak memory {_peak_mib():.0f} MiB")
    return "\n".join(lines)


def _process_cpu() -> float:
    """CPU seconds of the process so far, its start included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_mib() -> float:
    """The most memory the process has held, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024


_EXAMPLE = """\
examples:
  $ kubectl get nodes,pods,namespaces,priorityclasses,pdb,pvc,pv,csinodes -A -o json > cluster.json
  $ resettle plan --cluster cluster.json --policy policy.yaml
  $ resettle plan --kubeconfig ~/.kube/config --policy policy.yaml
  $ resettle plan --cluster dumps/ --policy policy.yaml --now 2026-01-31T12:00:00Z -o json
  $ resettle plan --record /var/lib/resettle --cycle 17

exit codes:
  0 a plan was made, even an empty one; 1 it could not be made, or a plugin failed;
  2 usage error
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `plan` to the command line."""
    summary = "Show which pods would move, and why; changes nothing."
    command = subcommands.add_parser(
        "plan",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_source_flags(command)
    command.add_argument(
        "--round",
        metavar="N",
        type=parse_count,
        help="with --record: which plan of the cycle, if it had several rounds (default: 1)",
    )
    command.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "yaml"),
        default="table",
        help="for people (%(default)s) or for programs",
    )
    command.add_argument(
        "--profile-cycle", action="store_true", help="print the time of each phase on stderr"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Draw a plan and print it; return 1 if a plugin failed."""
    gc.disable()
    watch = Stopwatch[str]()
    with watch.phase("start"):
        from resettle.cli.text.plan import plan_json, plan_text, plan_yaml, use_colour
    descheduler, snapshot, earlier_rounds = read_inputs(arguments, watch)
    plan = descheduler.draw_plan(
        snapshot, earlier_rounds=earlier_rounds, phase=lambda turn: watch.phase(turn.plugin)
    )
    with watch.phase("print"):
        if arguments.output == "table":
            print(plan_text(plan, snapshot, colour=use_colour(sys.stdout)), end="")
        elif arguments.output == "json":
            print(plan_json(plan))
        else:
            print(plan_yaml(plan), end="")
    for failed in plan.errors:
        print(f"error: {failed}", file=sys.stderr)
    if arguments.profile_cycle:
        print(format_timings(watch), file=sys.stderr)
    return 1 if plan.errors else 0
