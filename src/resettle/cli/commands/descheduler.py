"""`descheduler`: `resettle run` under the peer's name; its manifests need another image, no more.

It takes the same flags and has the peer's `version`. As there, whatever goes wrong ends with 1,
a command that was asked wrongly included.

Flags of the peer that mean nothing here: they are accepted, so that its manifests work.

Each that is given is told once in the log, with the reason; what it says is not looked at.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from resettle import __version__
from resettle.cli.commands import run as run_command
from resettle.cli.commands.run import add_flags
from resettle.cli.flags.common import add_switch
from resettle.cli.main import carried_out, leave
from resettle.cli.parser import Parser

if TYPE_CHECKING:
    from resettle.log import Log

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


class PeerParser(Parser):
    """A parser that ends as the peer does."""

    def error(self, message: str) -> NoReturn:
        """Tells what was asked wrongly, and ends."""
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: error: {message}\n")


def parser() -> argparse.ArgumentParser:
    """Everything the peer's command line understands."""
    command = PeerParser(
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
    asked = list(sys.argv[1:] if words is None else words)
    if asked[:1] == ["version"]:
        print(f"resettle {__version__}, in the place of kubernetes-sigs/descheduler")
        return 0
    if asked[:1] == ["help"]:
        asked = ["--help"]
    return carried_out(parser().parse_args(asked))


def main() -> None:
    """Runs as a program."""
    leave(run())


class Idle(NamedTuple):
    """A flag without effect, whether it stands alone, and why it has none."""

    name: str
    stands_alone: bool
    reason: str


_ONE_STREAM = "the log is one stream on stderr, and each line is written at once"
_HTTP1 = "metrics and health are served over HTTP/1.1"
_SHARING = "the port is bound in the usual way"

IDLE = (
    Idle("--vmodule", False, "verbosity is for the whole log; use --v"),
    Idle("--log-flush-frequency", False, _ONE_STREAM),
    Idle("--log-text-split-stream", True, _ONE_STREAM),
    Idle("--log-text-info-buffer-size", False, _ONE_STREAM),
    Idle("--log-json-split-stream", True, _ONE_STREAM),
    Idle("--log-json-info-buffer-size", False, _ONE_STREAM),
    Idle("--enable-http2", True, _HTTP1),
    Idle("--disable-http2-serving", True, _HTTP1),
    Idle("--http2-max-streams-per-connection", False, _HTTP1),
    Idle("--permit-port-sharing", True, _SHARING),
    Idle("--permit-address-sharing", True, _SHARING),
    Idle("--tls-curve-preferences", False, "OpenSSL chooses the curves"),
)


def add_idle_flags(command: argparse.ArgumentParser) -> None:
    """Adds them all; the help names them in one go."""
    named = "accepted all the same: " + ", ".join(flag.name for flag in IDLE)
    group = command.add_argument_group(
        "without effect here", textwrap.fill(named, 78, break_on_hyphens=False)
    )
    for flag in IDLE:
        if flag.stands_alone:
            add_switch(group, flag.name, argparse.SUPPRESS)
        else:
            group.add_argument(flag.name, default=False, help=argparse.SUPPRESS)


def warn_of_idle_flags(arguments: argparse.Namespace, log: Log) -> None:
    """Tells of each that asks for something it will not get; `=false` asks for nothing."""
    for flag in IDLE:
        if getattr(arguments, flag.name.removeprefix("--").replace("-", "_")) is not False:
            log.warning("flag without effect", flag=flag.name, reason=flag.reason)
