"""`resettle record`: list, show and search the cycles of a record. It only reads.

`find` replays the plans, so it also finds pods that a plan refused; `--moved` reads only the moves.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from resettle.cli.commands.explain import parse_pod_key
from resettle.cli.flags.record import add_cycle_flags

if TYPE_CHECKING:
    from resettle.record.reader import RecordedCycle, RecordReader

_EXAMPLE = """\
examples:
  $ resettle run --policy policy.yaml --descheduling-interval 5m --record /var/lib/resettle
  $ resettle record list /var/lib/resettle --since 2026-01-31T00:00:00Z
  $ resettle record find /var/lib/resettle --pod shop/cart-1
  $ resettle record show /var/lib/resettle --cycle 17
  $ resettle explain pod shop/cart-1 --record /var/lib/resettle --cycle 17

exit codes:
  0 success; 1 the record cannot be read, or a replayed plan differs from the recorded one;
  2 usage error
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `record` and its subcommands to the command line."""
    summary = "List the cycles that `run --record` wrote, and find a pod in them."
    record = subcommands.add_parser(
        "record",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = record.add_subparsers(metavar="COMMAND", required=True, title="commands")
    listing = _add_command(commands, "list", "List all cycles: time, number of moves, and outcome.")
    listing.set_defaults(run=run_list)
    find = _add_command(
        commands, "find", "Show in which cycles a pod was proposed, moved or refused."
    )
    find.add_argument(
        "--pod", metavar="NAMESPACE/NAME", type=parse_pod_key, required=True, help="the pod"
    )
    find.add_argument(
        "--moved",
        action="store_true",
        help="only cycles that requested its eviction; replays no plans, so it is fast",
    )
    find.set_defaults(run=run_find)
    for command in (listing, find):
        command.add_argument("--since", metavar="TIME", help="leave out cycles before this time")
        command.add_argument("--until", metavar="TIME", help="leave out cycles after this time")
    show = _add_command(commands, "show", "Show the moves of a cycle and the outcome of each.")
    add_cycle_flags(show)
    show.set_defaults(run=run_show)
    for command in (listing, find, show):
        command.add_argument(
            "-o",
            "--output",
            choices=("text", "json"),
            default="text",
            help="for people (%(default)s) or for programs",
        )


def _add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=summary, description=summary)
    command.add_argument("folder", metavar="DIR", help="the folder that `run --record` names")
    return command


def run_list(arguments: argparse.Namespace) -> int:
    """List cycles."""
    from resettle.cli.inputs.recorded import open_record
    from resettle.cli.text.record import cycle_list_text, cycle_summary_document

    cycles = _cycles_between(open_record(arguments.folder), arguments)
    if arguments.output == "json":
        _print_json([cycle_summary_document(cycle) for cycle in cycles])
    else:
        print(cycle_list_text(cycles), end="")
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Show a cycle, the last one if none is named."""
    from resettle.cli.inputs.recorded import named_cycle, open_record
    from resettle.cli.text.record import recorded_cycle_document, recorded_cycle_text

    record = open_record(arguments.folder)
    recorded = named_cycle(arguments, record) or record.cycles[-1]
    if arguments.output == "json":
        _print_json(recorded_cycle_document(recorded))
    else:
        print(recorded_cycle_text(recorded), end="")
    return 0


def run_find(arguments: argparse.Namespace) -> int:
    """Find a pod; return 1 if some cycles could not be searched."""
    import gc

    from resettle.cli.inputs.recorded import open_record
    from resettle.cli.text.record import pod_history_document, pod_history_text
    from resettle.framework.registry import default_registry
    from resettle.record.replay import PodSearch
    from resettle.text import format_count

    gc.disable()
    record = open_record(arguments.folder)
    cycles = _cycles_between(record, arguments)
    search = PodSearch(record, arguments.pod, default_registry())
    findings = list(search.moves(cycles) if arguments.moved else search.proposals(cycles))
    if arguments.output == "json":
        _print_json([pod_history_document(finding) for finding in findings])
    elif findings:
        print(pod_history_text(findings), end="")
    else:
        did = "requested the eviction of" if arguments.moved else "proposed"
        seen = "" if arguments.moved else f"; {search.cycles_with_pod:,} of them saw it"
        pod = "/".join(arguments.pod)
        print(f"none of {format_count(len(cycles), 'cycle')} {did} {pod}{seen}")
    for gap in search.gaps:
        print(f"error: {gap}", file=sys.stderr)
    return 1 if search.gaps else 0


def _cycles_between(record: RecordReader, arguments: argparse.Namespace) -> list[RecordedCycle]:
    """The cycles of the record between `--since` and `--until`."""
    from resettle.times import parse_time_flag

    since, until = (
        parse_time_flag(arguments.since, "--since"),
        parse_time_flag(arguments.until, "--until"),
    )
    return [
        cycle
        for cycle in record.cycles
        if (since is None or cycle.entry.at >= since) and (until is None or cycle.entry.at <= until)
    ]


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))
