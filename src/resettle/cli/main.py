"""Entry point of `resettle`: parse the command line, run the command, return its exit code.

Exit 0 is done, 1 is could not, 2 is a usage error. Data goes to stdout, messages to stderr. Nothing
third-party is imported before a command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from resettle import __version__
from resettle.cli.daemon import INTERRUPTED
from resettle.cli.parser import Parser
from resettle.errors import ResettleError

COMMANDS = {
    "plan": "plan",
    "run": "run",
    "soft-tainter": "controllers.soft_tainter",
    "migration-controller": "controllers.migration_controller",
    "move": "move",
    "check-access": "check_access",
    "rbac": "rbac",
    "crds": "crds",
    "explain": "explain",
    "simulate": "simulate",
    "snapshot": "snapshot",
    "record": "record",
    "policy": "policy",
    "migrate": "migrate",
    "demo": "demo",
}
"""Each command, and the module that registers it."""
_EPILOG = """\
examples:
  $ kubectl get nodes,pods,namespaces,priorityclasses,pdb,pvc,pv,csinodes -A -o json > cluster.json
  $ resettle plan --cluster cluster.json --policy policy.yaml
  $ resettle explain pod shop/cart-1 --cluster cluster.json --policy policy.yaml
  $ resettle simulate --cluster cluster.json --policy policy.yaml --cycles 20
  $ resettle snapshot --hash-names
  $ resettle run --policy policy.yaml --descheduling-interval 5m --leader-elect
  $ resettle soft-tainter --policy policy.yaml --leader-elect
  $ resettle migration-controller --policy policy.yaml --leader-elect
  $ resettle move shop/cart-1 --to node-3 --wait
  $ resettle record find /var/lib/resettle --pod shop/cart-1
  $ resettle check-access --policy policy.yaml
  $ resettle rbac --policy policy.yaml
  $ resettle crds
  $ resettle policy check policy.yaml
  $ resettle migrate values.yaml
  $ resettle demo
"""


def build_parser(command_name: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole command line, or of the named command only."""
    top: argparse.ArgumentParser = Parser(
        prog="resettle",
        description="Moves running Kubernetes pods to better places, and says why.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"resettle {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for command in [command_name] if command_name in COMMANDS else COMMANDS:
        import_module(f"resettle.cli.commands.{COMMANDS[command]}").register(commands)
    return top


def run(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    # With the command known, the modules of the others need not be imported.
    return execute_command(build_parser(argv[0] if argv else None).parse_args(argv))


def execute_command(arguments: argparse.Namespace) -> int:
    """Run the parsed command; an error that the user can fix is printed, without a traceback."""
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
        # The reader has left, such as `| head`. Python would complain again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def main() -> None:
    """Run as a program."""
    exit_at_once(run())


def exit_at_once(code: int) -> NoReturn:
    """Flush the output and end the process without clean-up."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError):
            stream.flush()
    # Freeing a large cluster object by object takes longer than the kernel needs for all of it.
    os._exit(code)
