"""The front door: which command was meant, and how it ended.

Exit 0 is done, 1 is could not, 2 is asked wrongly. Data goes to stdout, talk to stderr. Nothing
third-party is imported before a command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from resettle import __version__
from resettle.cli import demo, explain, plan, policy, simulate
from resettle.errors import ResettleError

_EPILOG = """\
examples:
  $ kubectl get nodes,pods,namespaces,priorityclasses,pdb,pvc,pv,csinodes -A -o json > cluster.json
  $ resettle plan --cluster cluster.json --policy policy.yaml
  $ resettle explain pod shop/cart-1 --cluster cluster.json --policy policy.yaml
  $ resettle simulate --cluster cluster.json --policy policy.yaml --cycles 20
  $ resettle policy check policy.yaml
  $ resettle demo
"""

INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """Everything the command line understands."""
    top = argparse.ArgumentParser(
        prog="resettle",
        description="Moves running Kubernetes pods to better places, and says why.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"resettle {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, title="commands")
    plan.register(commands)
    explain.register(commands)
    simulate.register(commands)
    policy.register(commands)
    demo.register(commands)
    return top


def run(words: Sequence[str] | None = None) -> int:
    """Carries out a command line and gives its exit code."""
    arguments = parser().parse_args(words)
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
    code = run()
    sys.stderr.flush()
    # Taking apart a large cluster object by object costs more than the kernel needs for all of it.
    os._exit(code)
