"""`descheduler`: `resettle run` under the peer's name; its manifests need another image, no more.

It takes the same flags and has the peer's `version`. As there, whatever goes wrong ends with 1,
a command that was asked wrongly included.

Flags of the peer that mean nothing here: they are accepted, so that its manifests work.

Each that is given is told once in the log, with the reason; what it says is not looked at.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from resettle import __version__
from resettle.cli.commands import run as run_command
from resettle.cli.commands.run import add_flags
from resettle.cli.main import execute_command, exit_at_once
from resettle.cli.parser import Parser

if TYPE_CHECKING:
    pass

_EPILOG = """\
This is `resettle run` under the name of kubernetes-sigs/descheduler; `resettle --help` shows what
else there is, such as `resettle plan`, which tells what would move and changes nothing.

examples:
  $ descheduler --policy-config-file /policy-dir/policy.yaml --v 3
  $ descheduler --policy-config-file /policy-dir/policy.yaml --descheduling-interval 5m
  $ descheduler version

exit codes:
  0 done, or stopped when asked to; 1 anything else
"""


class UpstreamParser(Parser):
    """A parser that ends as the peer does."""

    def error(self, message: str) -> NoReturn:
        """Tells what was asked wrongly, and ends."""
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: error: {message}\n")


def build_parser() -> argparse.ArgumentParser:
    """Everything the peer's command line understands."""
    command = UpstreamParser(
        prog="descheduler",
        usage="%(prog)s --policy-config-file FILE [flags]\n       %(prog)s version",
        description=run_command.SUMMARY,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_flags(command)
    command.set_defaults(run=run_command.run)
    return command


def run(words: Sequence[str] | None = None) -> int:
    """Carries out a command line and gives its exit code."""
    argv = list(sys.argv[1:] if words is None else words)
    if argv[:1] == ["version"]:
        print(f"resettle {__version__}, in the place of kubernetes-sigs/descheduler")
        return 0
    if argv[:1] == ["help"]:
        argv = ["--help"]
    return execute_command(build_parser().parse_args(argv))


def main() -> None:
    """Runs as a program."""
    exit_at_once(run())
