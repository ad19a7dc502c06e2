"""Measures resettle beside kubernetes-sigs/descheduler, on one generated cluster, in one run.

    python -m bench.run --nodes 100 1000 --pods 30 --node-fit both
    python -m bench.run --growth
    python -m bench.run --worst

`resettle plan` is set beside the peer's dry run: both list the cluster from the same server, apply
the same policy, and evict nothing. With `--write` the figures go into the page about performance.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench import figures, peer
from bench.generate import DAEMON_SETS, WORST
from bench.measure import Cost, Failed, run_ours, run_peer
from bench.plot import Panel, svg
from bench.report import Case, comparison, ours_table, phase_table
from bench.serving import Serving
from resettle import __version__

ROOT = Path(__file__).parents[1]
POLICY = Path(__file__).with_name("policy.yaml")
GROWTH = (100, 200, 500, 1000, 2000, 5000, 10_000)
FIT_FROM = 1000
WORST_NODES = 1000


def parser() -> argparse.ArgumentParser:
    """What the command line understands."""
    words = argparse.ArgumentParser(prog="bench.run", description=__doc__.partition("\n")[0])
    words.add_argument("--nodes", type=int, nargs="+", default=[100], help="sizes to compare at")
    words.add_argument("--pods", type=int, default=30, help="pods on each node, on average")
    words.add_argument("--node-fit", choices=("on", "off", "both"), default="both")
    words.add_argument("--repeat", type=int, default=1, help="runs of each, in turn; medians count")
    words.add_argument("--timeout", type=float, default=1800, help="seconds for one run")
    words.add_argument("--peer", type=Path, metavar="FILE", help="a peer that is built already")
    words.add_argument("--alone", action="store_true", help="measure resettle only")
    words.add_argument("--growth", action="store_true", help="how cost grows, resettle only")
    words.add_argument("--worst", action="store_true", help="hard clusters, resettle only")
    words.add_argument("--write", action="store_true", help="put the figures into docs")
    return words


def main(words: Sequence[str] | None = None) -> int:
    """Measures what was asked for, and prints it."""
    chosen = parser().parse_args(words)
    command = "python -m bench.run " + shlex.join(sys.argv[1:] if words is None else words)
    rival = None if chosen.alone or chosen.growth or chosen.worst else find_peer(chosen.peer)
    try:
        cases = list(measured(chosen, rival))
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    section = "growth" if chosen.growth else "worst" if chosen.worst else "compare"
    taken = figures.Section(setting(command, rival), cases)
    print(rendered(section, cases))
    if chosen.write:
        book = figures.read()
        book[section] = figures.merged(book.get(section), taken)
        figures.write(book)
        figures.write_page(book)
        if section == "growth":
            (ROOT / "docs" / "growth.svg").write_text(svg(panels(cases)))
    return 0
