"""`resettle record`: what a record holds. It only reads."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from resettle.cli.commands.explain import parse_pod_key
from resettle.cli.flags.record import add_cycle_flags

if TYPE_CHECKING:
    from resettle.record.reader import RecordReader, RecordedCycle

_EXAMPLE = """\
examples:
  $ resettle run --policy policy.yaml --descheduling-interval 5m --record /var/lib/resettle
  $ resettle record list /var/lib/resettle --since 2026-01-31T00:00:00Z
  $ resettle record find /var/lib/resettle --pod shop/cart-1
  $ resettle record show /var/lib/resettle --cycle 17
  $ resettle explain pod shop/cart-1 --record /var/lib/resettle --cycle 17

exit codes:
  0 here it is; 1 it cannot be read, or a plan does not come out as it did;
  2 the command was asked wrongly
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `record` and what can be asked of one to the command line."""
    summary = "List the cycles that `run --record` wrote down, and find a pod in them."
    record = subcommands.add_parser(
        "record",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = record.add_subparsers(metavar="WHAT", required=True, title="what to do")
    listing = _add_command(commands, "list", "List all cycles: when, how many moved, how it ended.")
    listing.set_defaults(run=run_list)
    find = _add_command(commands, "find", "Tell in which cycles a pod was wanted, moved or refused.")
    find.add_argument(
        "--pod", metavar="NAMESPACE/NAME", type=parse_pod_key, required=True, help="the pod"
    )
    find.add_argument(
        "--moved",
        action="store_true",
        help="only cycles that asked it to leave; draws no plan again, so it answers at once",
    )
    find.set_defaults(run=run_find)
    for command in (listing, find):
        command.add_argument("--since", metavar="TIME", help="leave out cycles before this time")
        command.add_argument("--until", metavar="TIME", help="leave out cycles after this time")
    show = _add_command(commands, "show", "Show the moves of a cycle and what became of each.")
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
    command.add_argument("folder", metavar="DIR", help="what `run --record` names")
    return command


def run_list(arguments: argparse.Namespace) -> int:
    """Lists cycles."""
    from resettle.cli.inputs.recorded import open_record
    from resettle.cli.text.record import cycle_list_text, cycle_summary_document

    cycles = _cycles_between(open_record(arguments.folder), arguments)
    if arguments.output == "json":
        _print_json([cycle_summary_document(it) for it in cycles])
    else:
        print(cycle_list_text(cycles), end="")
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Shows a cycle, the last one if none is named."""
    from resettle.cli.inputs.recorded import named_cycle, open_record
    from resettle.cli.text.record import recorded_cycle_document, recorded_cycle_text

    book = open_record(arguments.folder)
    recorded = named_cycle(arguments, book) or book.cycles[-1]
    if arguments.output == "json":
        _print_json(recorded_cycle_document(recorded))
    else:
        print(recorded_cycle_text(recorded), end="")
    return 0


def run_find(arguments: argparse.Namespace) -> int:
    """Finds a pod; 1 where some cycles could not be asked."""
    import gc

    from resettle.cli.inputs.recorded import open_record
    from resettle.cli.text.record import pod_history_document, pod_history_text
    from resettle.framework.registry import default_registry
    from resettle.record.replay import PodSearch
    from resettle.text import format_count

    gc.disable()
    book = open_record(arguments.folder)
    cycles = _cycles_between(book, arguments)
    search = PodSearch(book, arguments.pod, default_registry())
    findings = list(search.moves(cycles) if arguments.moved else search.proposals(cycles))
    if arguments.output == "json":
        _print_json([pod_history_document(it) for it in findings])
    elif findings:
        print(pod_history_text(findings), end="")
    else:
        did = "asked" if arguments.moved else "wanted"
        knew = "" if arguments.moved else f", {search.cycles_with_pod:,} of which knew it"
        pod = "/".join(arguments.pod)
        print(f"nobody {did} {pod} to leave in {format_count(len(cycles), 'cycle')}{knew}")
    for gap in search.gaps:
        print(f"error: {gap}", file=sys.stderr)
    return 1 if search.gaps else 0


def _cycles_between(book: RecordReader, arguments: argparse.Namespace) -> list[RecordedCycle]:
    """The cycles of the record that the flags leave in."""
    from resettle.times import parse_time_flag

    since, until = parse_time_flag(arguments.since, "--since"), parse_time_flag(arguments.until, "--until")
    return [
        it
        for it in book.cycles
        if (since is None or it.entry.at >= since) and (until is None or it.entry.at <= until)
    ]


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))
