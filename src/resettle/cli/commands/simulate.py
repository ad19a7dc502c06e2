"""`resettle simulate`: run many cycles against a copy of the cluster in memory. It only reads.

The evicted pods are placed by a stand-in for kube-scheduler, which filters and scores as it does.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from resettle.cli.flags.record import flag_conflict
from resettle.cli.inputs.cluster import add_source_flags
from resettle.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from resettle.simulate.result import SimulationResult

_INTERVAL = re.compile(r"((\d+(\.\d*)?|\.\d+)(ms|s|m|h))+")
_EXAMPLE = """\
examples:
  $ resettle simulate --cluster cluster.json --policy policy.yaml
  $ resettle simulate --cluster cluster.json --policy old.yaml --against new.yaml
  $ resettle simulate --policy policy.yaml --cycles 50 --report report.html
  $ resettle simulate --scenario scenario.yaml -o json
  $ resettle simulate --cluster vms.json --policy policy.yaml --soft-taints compare
  $ resettle simulate --record /var/lib/resettle --against new.yaml

exit codes:
  0 success; 1 the input cannot be read, or a plugin failed;
  2 usage error
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `simulate` to the command line."""
    summary = "Show what a policy would do to a cluster over many cycles; changes nothing."
    command = subcommands.add_parser(
        "simulate",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_source_flags(command)
    command.add_argument(
        "--against", metavar="FILE", help="a second policy, to compare with the first"
    )
    command.add_argument(
        "--scenario",
        metavar="FILE",
        help="a file that names the cluster, the policies, and events before cycles",
    )
    command.add_argument(
        "--soft-taints",
        nargs="?",
        const="with",
        choices=("with", "compare"),
        metavar="with|compare",
        help="let the soft tainter taint nodes before each cycle, by `softTaints` of the policy; "
        "`compare` simulates the policy without taints and with them",
    )
    command.add_argument(
        "--loads",
        metavar="FILE",
        help="how many cores each pod uses; results of Prometheus queries are computed from this",
    )
    command.add_argument(
        "--cycles",
        metavar="N",
        type=parse_cycle_count,
        help="how many cycles to simulate (default: 10, or fewer once nothing moves)",
    )
    command.add_argument(
        "--interval",
        metavar="TIME",
        type=parse_interval,
        help="time from one cycle to the next, such as 90s or 1h (default: 5m)",
    )
    command.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="for people (%(default)s) or for programs",
    )
    command.add_argument(
        "--report", metavar="FILE", help="also write a page with charts, for a browser"
    )
    command.set_defaults(run=run)


def parse_cycle_count(text: str) -> int:
    """A number of cycles."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of cycles; write 1 or more")
    return int(text)


def parse_interval(text: str) -> timedelta:
    """A duration of more than zero."""
    from resettle.policy.args import parse_duration

    length = parse_duration(text) if _INTERVAL.fullmatch(text) else None
    if not length:
        raise argparse.ArgumentTypeError(
            f"`{text}` is not an interval; write one such as 5m or 90s"
        )
    return length


def run(arguments: argparse.Namespace) -> int:
    """Simulate and print the results; return 1 if a plugin failed."""
    if conflict := flag_conflict(arguments):
        arguments.usage_error(conflict)
    gc.disable()
    from resettle.cli.inputs.simulation import read_simulation_inputs
    from resettle.simulate.result import run_simulation

    inputs = read_simulation_inputs(arguments)
    # The input stays; each cycle leaves objects in reference cycles, for the collector to free.
    gc.freeze()
    gc.enable()
    results = [
        run_simulation(
            name,
            part.descheduler,
            inputs.snapshot,
            interval=inputs.interval,
            cycles=inputs.cycles,
            events=inputs.events,
            until_settled=inputs.until_settled,
            demand=inputs.loads,
            tainter=part.tainter,
        )
        for name, part in inputs.policies.items()
    ]
    if arguments.report:
        _write_report(arguments.report, results)
    if arguments.output == "json":
        from resettle.cli.text.simulation_json import simulation_document

        print(json.dumps(simulation_document(results), indent=2, ensure_ascii=False))
    else:
        from resettle.cli.text.plan import Paint, use_colour
        from resettle.cli.text.simulation import simulation_text
        from resettle.cli.text.terminal import terminal_width

        print(simulation_text(results, Paint(use_colour(sys.stdout)), terminal_width()), end="")
    failures = [(story.policy, failed) for story in results for failed in story.errors]
    for policy, failed in failures:
        print(f"error: {policy}: {failed}", file=sys.stderr)
    return 1 if failures else 0


def _write_report(file: str, results: Sequence[SimulationResult]) -> None:
    from resettle.web.simulation_page import simulation_page

    try:
        Path(file).write_text(simulation_page(results), encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"`{file}` cannot be written: {why}; name another file") from None
    print(f"note: the report is in {file}", file=sys.stderr)
