"""`resettle demo`: real evictions in a small cluster inside this process; no other is needed.

Server, controllers and scheduler are those of `resettle.testing`; the clock is advanced by hand.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from resettle.cli.commands.policy import print_warnings
from resettle.errors import InputError
from resettle.files import display_name, read_text

if TYPE_CHECKING:
    from resettle.framework.descheduler import Descheduler
    from resettle.framework.plugin import Plugin

_PAUSE_SECONDS = 0.8
_TITLE = "A demonstration of resettle"
_CAVEAT = (
    "This has happened: the pods were evicted through an API server, their owners replaced them, "
    "and a scheduler that filters as kube-scheduler does placed them. Server, owners and scheduler "
    "are small ones of resettle's own, and so is the clock."
)
_EXAMPLE = """\
examples:
  $ resettle demo
  $ resettle demo --fast --report demo.html
  $ resettle demo --policy policy.yaml

exit codes:
  0 success; 1 a plugin failed, or a file cannot be read or written; 2 usage error; 130 for Ctrl-C
"""


def register(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `demo` to the command line."""
    summary = (
        "Show resettle at work: a small cluster in this process, events, and what resettle does."
    )
    command = subcommands.add_parser(
        "demo",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--fast", action="store_true", help="without pauses for reading")
    command.add_argument(
        "--policy", metavar="FILE", help="your policy instead of the bundled one; `-` for stdin"
    )
    command.add_argument(
        "--report", metavar="FILE", help="also write a page with charts, for a browser"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; return 1 if a plugin failed."""
    from resettle.cli.demo.cluster import CycleRunner, DemoCluster
    from resettle.cli.demo.narration import Narrator
    from resettle.cli.demo.scenario import objects
    from resettle.cli.text.plan import Paint, use_colour
    from resettle.cli.text.terminal import terminal_width
    from resettle.framework.registry import default_registry

    plugins = default_registry()
    name, descheduler = _build_descheduler(arguments.policy, plugins)
    for caution in descheduler.cautions:
        print(f"note: {caution}", file=sys.stderr)
    if arguments.report:
        # A file that cannot be written is reported now, not at the end.
        _write_file(arguments.report, "")
    print_paragraph = _paced_printer(pause=sys.stdout.isatty() and not arguments.fast)
    with DemoCluster(objects()) as stage:
        player = CycleRunner(stage, descheduler, plugins)
        story = Narrator(
            stage, player, print_paragraph, Paint(use_colour(sys.stdout)), terminal_width()
        ).run(name)
    if arguments.report:
        from resettle.web.simulation_page import simulation_page

        _write_file(arguments.report, simulation_page([story], title=_TITLE, caveat=_CAVEAT))
        print(f"note: the report is in {arguments.report}", file=sys.stderr)
    for failed in story.errors:
        print(f"error: {failed}", file=sys.stderr)
    return 1 if story.errors else 0


def _build_descheduler(file: str | None, plugins: Mapping[str, Plugin]) -> tuple[str, Descheduler]:
    """The name of the policy, and the policy as a descheduler."""
    from resettle.cli.demo.scenario import POLICY
    from resettle.framework.descheduler import build_descheduler
    from resettle.policy.load import load_policy

    name = display_name(file) if file else "the bundled policy"
    policy = load_policy(read_text(file) if file else POLICY, name=name, plugins=plugins)
    print_warnings(policy.warnings)
    return name, build_descheduler(policy, plugins)


def _write_file(file: str, text: str) -> None:
    """Write a file; raise `InputError` with the reason if it cannot be written."""
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"`{file}` cannot be written: {why}; name another file") from None


def _paced_printer(*, pause: bool) -> Callable[[str], None]:
    """A function that prints paragraphs with an empty line between, and pauses after each."""
    printed: list[str] = []

    def print_paragraph(text: str) -> None:
        print(*([""] if printed else []), text, sep="\n", flush=True)
        printed.append(text)
        if pause:
            time.sleep(_PAUSE_SECONDS)

    return print_paragraph
