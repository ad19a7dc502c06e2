"""Measures resettle beside kubernetes-sigs/descheduler, on one generated cluster, in one run.

    python -m bench.run --nodes 100 1000 --pods 30 --node-fit both
    python -m bench.run --act --nodes 1000
    python -m bench.run --growth
    python -m bench.run --worst

`resettle plan` is set beside descheduler's dry run: both list the cluster from the same server,
apply the same policy, and evict nothing. With `--act` it is `resettle run` beside descheduler's
real run, and the server grants what they ask for. With `--write` the figures go into the page about
performance.
"""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import resettle
from bench import upstream
from bench.figures import EMPTY, TABLES, Book
from bench.generate import WORST
from bench.measure import (
    Cost,
    Failed,
    run_ours,
    run_ours_acting,
    run_upstream,
    run_upstream_acting,
)
from bench.report import Case
from bench.serving import Serving

RunOurs = Callable[[Serving, Path, Path, float], Cost]
RunUpstream = Callable[[Path, Serving, Path, Path, float], Cost]
HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
GROWTH = (100, 200, 500, 1000, 2000, 5000, 10_000)
WORST_NODES = 1000
BESIDE: dict[str, tuple[RunOurs, RunUpstream]] = {
    "compare": (run_ours, run_upstream),
    "act": (run_ours_acting, run_upstream_acting),
}
"""How both programs are run for sections that set them side by side."""


def parser() -> argparse.ArgumentParser:
    """What the command line understands."""
    words = argparse.ArgumentParser(prog="bench.run", description=(__doc__ or "").splitlines()[0])
    words.add_argument("--nodes", type=int, nargs="+", default=[100], help="sizes to compare at")
    words.add_argument("--pods", type=int, default=30, help="pods on each node, on average")
    words.add_argument("--node-fit", choices=("on", "off", "both"), default="both")
    words.add_argument("--repeat", type=int, default=1, help="runs of each, in turn; medians count")
    words.add_argument("--timeout", type=float, default=1800, help="seconds for one run")
    words.add_argument("--peer", type=Path, metavar="FILE", help="a built descheduler")
    words.add_argument("--alone", action="store_true", help="measure resettle only")
    words.add_argument("--write", action="store_true", help="put the figures into docs")
    instead = words.add_mutually_exclusive_group()
    instead.add_argument("--act", action="store_true", help="runs that evict, side by side")
    instead.add_argument("--growth", action="store_true", help="how cost grows, resettle only")
    instead.add_argument("--worst", action="store_true", help="hard clusters, resettle only")
    return words


def main(words: Sequence[str] | None = None) -> int:
    """Measures what was asked for, and prints it."""
    words = sys.argv[1:] if words is None else words
    chosen = parser().parse_args(words)
    section = next((it for it in ("act", "growth", "worst") if getattr(chosen, it)), "compare")
    descheduler = find_upstream(chosen.peer) if section in BESIDE and not chosen.alone else None
    # What is installed comes with its bytecode; a checkout may have none, or be set to write none.
    compileall.compile_dir(Path(resettle.__file__).parent, quiet=2)
    taken = f"{datetime.now(UTC):%Y-%m-%d}, `{repeatable(words)}`"
    try:
        cases = [replace(case, taken=taken) for case in measured(section, chosen, descheduler)]
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    now = EMPTY.updated(setting(descheduler), cases)
    for made in TABLES[section]:
        print(made(now), end="\n\n")
    if chosen.write:
        book = Book(HERE / "figures.json")
        book.add(section, now)
        book.save()
        book.fill(DOCS / "reference" / "performance.md", DOCS / "reference" / "growth.svg")
    return 0


def repeatable(words: Sequence[str]) -> str:
    """The command that measures this again, without what only this machine has."""
    text = shlex.join(["python", "-m", "bench.run", *words])
    return re.sub(r" --(write|peer[ =]\S+)", "", text)


def find_upstream(binary: Path | None) -> upstream.Upstream | None:
    """The descheduler, or None and a message."""
    try:
        return upstream.read_binary(binary) if binary else upstream.build_upstream()
    except upstream.UpstreamUnavailable as error:
        print(f"note: resettle is measured alone: {error}", file=sys.stderr)
        return None


def measured(
    section: str, chosen: argparse.Namespace, descheduler: upstream.Upstream | None
) -> Iterator[Case]:
    """Every case of a section, one after the other."""
    match section:
        case "growth":
            clusters = [(nodes, "") for nodes in GROWTH]
            fits = ["on"]
        case "worst":
            clusters = [(WORST_NODES, hard) for hard in ("", *WORST)]
            fits = ["on"]
        case _:
            clusters = [(nodes, "") for nodes in sorted(chosen.nodes)]
            fits = ["off", "on"] if chosen.node_fit == "both" else [chosen.node_fit]
    for nodes, hard in clusters:
        yield from on_one_cluster(nodes, hard, fits, chosen, descheduler)


def on_one_cluster(
    nodes: int,
    hard: str,
    fits: Iterable[str],
    chosen: argparse.Namespace,
    descheduler: upstream.Upstream | None,
) -> Iterator[Case]:
    """Serves one cluster, and has both programs look at it by turns."""
    shape = [f"--nodes={nodes}", f"--pods={chosen.pods}", *([f"--worst={hard}"] if hard else [])]
    with tempfile.TemporaryDirectory(prefix="resettle-bench-") as name:
        folder = Path(name)
        with Serving(folder, *shape) as served:
            for fit in fits:
                policy = folder / f"policy-{fit}.yaml"
                policy.write_text(policy_text(fit))
                ours: list[Cost] = []
                theirs: list[Cost] = []
                our_run, their_run = BESIDE["act" if chosen.act else "compare"]
                for _ in range(chosen.repeat):
                    ours.append(our_run(served, policy, folder, chosen.timeout))
                    say(nodes, hard, fit, "resettle", ours[-1])
                    if descheduler:
                        theirs.append(
                            their_run(descheduler.binary, served, policy, folder, chosen.timeout)
                        )
                        say(nodes, hard, fit, "descheduler", theirs[-1])
                yield Case(nodes, served.objects["Pod"], fit, ours, theirs, hard)


def policy_text(fit: str) -> str:
    """The policy with nodeFit on or off."""
    text = (HERE / "policy.yaml").read_text()
    return re.sub(r"nodeFit: \w+", f"nodeFit: {'true' if fit == 'on' else 'false'}", text)


def say(nodes: int, hard: str, fit: str, program: str, cost: Cost) -> None:
    """Print the progress."""
    print(
        f"{nodes} nodes {hard or 'as usual'}, nodeFit {fit}, {program}: {cost.wall:.2f} s wall, "
        f"{cost.cpu:.2f} s CPU, {cost.peak:.0f} MiB, {cost.evicted} evictions {cost.remark}",
        file=sys.stderr,
    )


def setting(descheduler: upstream.Upstream | None) -> str:
    """Versions and machine."""
    beside = (
        f"descheduler {upstream.VERSION} (built with {descheduler.go}), " if descheduler else ""
    )
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return (
        f"resettle {resettle.__version__}, {beside}Python {platform.python_version()}; "
        f"{os.cpu_count()} cores ({cpu_model()}), {pages * size / 2**30:.0f} GiB of memory, "
        f"{platform.system()} {platform.release()}."
    )


def cpu_model() -> str:
    """What the processor calls itself."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return found[1].strip() if found else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
