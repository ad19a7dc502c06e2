"""The front door: which command was meant, and how it ended.

Exit 0 is done, 1 is could not, 2 is asked wrongly. Data goes to stdout, talk to stderr. Nothing
third-party is imported before a command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from resettle import __version__
from resettle.cli import (
    check_access,
    demo,
    explain,
    migrate,
    plan,
    policy,
    rbac,
    record,
    simulate,
    snapshot,
    soft_tainter,
)
from resettle.cli import run as run_command
from resettle.cli.daemon import INTERRUPTED
from resettle.cli.parser import Parser
from resettle.errors import ResettleError

_EPILOG = """\
examples:
  $ kubectl get nodes,pods,namespaces,priorityclasses,pdb,pvc,pv,csinodes -A -o json > cluster.json
  $ resettle plan --cluster cluster.json --policy policy.yaml
  $ resettle explain pod shop/cart-1 --cluster cluster.json --policy policy.yaml
  $ resettle simulate --cluster cluster.json --policy policy.yaml --cycles 20
  $ resettle snapshot --hash-names
  $ resettle run --policy policy.yaml --descheduling-interval 5m --leader-elect
  $ resettle soft-tainter --policy policy.yaml --leader-elect
  $ resettle record find /var/lib/resettle --pod shop/cart-1
  $ resettle check-access --policy policy.yaml
  $ resettle rbac --policy policy.yaml
  $ resettle policy check policy.yaml
  $ resettle migrate values.yaml
  $ resettle demo
"""


def parser() -> argparse.ArgumentParser:
    """Everything the command line understands."""
    top: argparse.ArgumentParser = Parser(
        prog="resettle",
        description="Moves running Kubernetes pods to better places, and says why.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"resettle {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, title="commands")
    plan.register(commands)
    run_command.register(commands)
    soft_tainter.register(commands)
    check_access.register(commands)
    rbac.register(commands)
    explain.register(commands)
    simulate.register(commands)
    snapshot.register(commands)
    record.register(commands)
    policy.register(commands)
    migrate.register(commands)
    demo.register(commands)
    return top


def run(words: Sequence[str] | None = None) -> int:
    """Carries out a command line and gives its exit code."""
    return carried_out(parser().parse_args(words))


def carried_out(arguments: argparse.Namespace) -> int:
    """Carries out the command that was meant; what a person can mend is told in one error."""
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except ResettleError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; nothing was changed", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has left, `| head` for one. Python would complain again at its own end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def main() -> None:
    """Runs as a program."""
    leave(run())


def leave(code: int) -> NoReturn:
    """Ends the program at once."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError):
            stream.flush()
    # Taking apart a large cluster object by object costs more than the kernel needs for all of it.
    os._exit(code)
