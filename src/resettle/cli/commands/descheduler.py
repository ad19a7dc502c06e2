"""`descheduler`: `resettle run` under the name of upstream, kubernetes-sigs/descheduler.

With it, manifests of upstream need another image and no other change. It has the same flags, and
`version`. As upstream does, it exits with 1 for every failure, usage errors included.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from resettle import __version__
from resettle.cli.commands import run as run_command
from resettle.cli.commands.run import add_flags
from resettle.cli.main import execute_command, exit_at_once
from resettle.cli.parser import Parser

_EPILOG = """\
This is `resettle run` under the name of kubernetes-sigs/descheduler. `resettle --help` lists the
other commands, such as `resettle plan`, which shows what would move and changes nothing.

examples:
  $ descheduler --policy-config-file /policy-dir/policy.yaml --v 3
  $ descheduler --policy-config-file /policy-dir/policy.yaml --descheduling-interval 5m
  $ descheduler version

exit codes:
  0 done, or stopped by a signal; 1 anything else
"""


class UpstreamParser(Parser):
    """A parser that exits with 1 on usage errors, as upstream does."""

    def error(self, message: str) -> NoReturn:
        """Print the usage error and exit with 1."""
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: error: {message}\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of upstream's command line."""
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
    """Run a command line and return its exit code."""
    argv = list(sys.argv[1:] if words is None else words)
    if argv[:1] == ["version"]:
        print(f"resettle {__version__}, in place of kubernetes-sigs/descheduler")
        return 0
    if argv[:1] == ["help"]:
        argv = ["--help"]
    return execute_command(build_parser().parse_args(argv))


def main() -> None:
    """Run as a program."""
    exit_at_once(run())
