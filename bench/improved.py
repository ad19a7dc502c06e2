"""What the more precise rules of `resettle/v1` cost, beside the same policy in v1alpha2.

    python -m bench.improved --nodes 5000 --pods 30 [--write]

One cluster is served, and `resettle plan` looks at it three times by turns: with the policy as it
is, with the same policy as `resettle/v1` and its safe limits, and without any limit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.measure import Cost, Failed, run_ours
from bench.report import table, within_markers
from bench.run import DOCS, policy_text, repeatable, setting
from bench.serving import Serving

NO_LIMITS = "maxPercentOfPodsToEvict: 100\nmaxPercentOfNodesToEvictFrom: 100\n"


def main(words: Sequence[str] | None = None) -> int:
    """Measures, prints, and writes if asked to."""
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(
        prog="bench.improved", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=30, help="pods on each node, on average")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; medians count")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run")
    parser.add_argument("--write", action="store_true", help="put the figures into docs")
    chosen = parser.parse_args(words)
    try:
        text = measured(chosen)
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    command = repeatable(words).replace("bench.run", "bench.improved")
    text = f"{text}\n\n{setting(None)}\n\n- {datetime.now(UTC).date()}, `{command}`"
    print(text)
    if chosen.write:
        page = DOCS / "reference" / "performance.md"
        page.write_text(within_markers(page.read_text(), "improved", text))
    return 0


def policies() -> dict[str, str]:
    """The policies to compare, by what the table calls them."""
    upstream = policy_text("on")
    ours = upstream.replace("descheduler/v1alpha2", "resettle/v1")
    return {
        "`descheduler/v1alpha2`": upstream,
        "`resettle/v1`, its own limits": ours,
        "`resettle/v1`, no limits": ours + NO_LIMITS,
    }


def measured(chosen: argparse.Namespace) -> str:
    """The table of medians, with what each policy costs in terms of the first."""
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory(prefix="resettle-bench-") as name:
        folder = Path(name)
        with Serving(folder, f"--nodes={chosen.nodes}", f"--pods={chosen.pods}") as served:
            for _ in range(chosen.repeat):
                for called, text in policies().items():
                    policy = folder / "policy.yaml"
                    policy.write_text(text)
                    cost = run_ours(served, policy, folder, chosen.timeout)
                    costs.setdefault(called, []).append(cost)
            pods = served.objects["Pod"]
    first, *_ = costs.values()
    rows = [
        (
            called,
            f"{_middle(found, 'cpu'):.2f}",
            f"{_middle(found, 'cpu') / _middle(first, 'cpu'):.2f}×",
            f"{_middle(found, 'peak'):.0f}",
            f"{_middle(found, 'peak') / _middle(first, 'peak'):.2f}×",
            f"{found[0].evicted:,}",
        )
        for called, found in costs.items()
    ]
    heading = f"{chosen.nodes:,} nodes, {pods:,} pods, `nodeFit` on:"
    heads = ("policy", "CPU s", "ratio", "peak MiB", "ratio", "moves")
    return f"{heading}\n\n{table(heads, rows, 1)}"


def _middle(costs: list[Cost], figure: str) -> float:
    return float(median(getattr(cost, figure) for cost in costs))


if __name__ == "__main__":
    sys.exit(main())
