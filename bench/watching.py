"""What it costs to watch a cluster instead of listing it again.

    python -m bench.watching --nodes 1000 --pods 30 --changed 1 [--write]

Two programs read the same cluster from an API server on the loopback, each in a process of its own:
one lists it once, the other keeps a watch cache. Then a share of the pods, in percent, is replaced
by others, the cache hears of it event by event, and the next plan is drawn.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.report import table, within_markers
from bench.run import DOCS, policy_text, repeatable, setting
from bench.serving import Serving, ask
from bench.steady import AT
from resettle.dumps.collection import list_cluster
from resettle.framework import Descheduler, build_descheduler, default_registry, load_policy
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.kube.transport.client import Client
from resettle.kube.watch.cache import Cache

ROUNDS = 5
SETTLED_SECONDS = 120


def planner() -> Descheduler:
    """The benchmark's policy, ready to plan."""
    plugins = default_registry()
    return build_descheduler(load_policy(policy_text("on"), name="bench", plugins=plugins), plugins)


def spent(since: tuple[float, float] = (0.0, 0.0)) -> tuple[float, float]:
    """Wall and CPU seconds of this process."""
    return time.monotonic() - since[0], time.process_time() - since[1]


def peak() -> float:
    """The largest resident set so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def list_once(kubeconfig: str) -> dict[str, Any]:
    """What a single list costs, up to its snapshot."""
    gc.disable()
    reads, access = planner().reads, read_kubeconfig(kubeconfig)
    began = spent()
    snapshot = list_cluster(access, reads).snapshot(AT)
    wall, cpu = spent(began)
    return {"wall": wall, "cpu": cpu, "peak": peak(), "pods": len(snapshot.pod_index)}


async def watch(kubeconfig: str, serving: str, changed: int) -> dict[str, Any]:
    """What the first sync costs, then events, snapshots and plans."""
    gc.disable()  # as `resettle run` does until it is synced
    access, plans = read_kubeconfig(kubeconfig), planner()
    async with Client(access) as client:
        cache = Cache(access, client, plans.reads)
        began = spent()
        running = asyncio.create_task(cache.run())
        await cache.wait_for_sync()
        snapshot = cache.snapshot(AT)
        wall, cpu = spent(began)
        found = {"wall": wall, "cpu": cpu, "peak": peak(), "pods": len(snapshot.pod_index)}
        gc.freeze()
        gc.enable()
        plans.draw_plan(snapshot)
        while not ask(f"{serving}/bench/account")["requests"].get("watch Pod"):
            await asyncio.sleep(0.02)
        rounds = []
        for i in range(ROUNDS):
            began = spent()
            said = await asyncio.to_thread(ask, f"{serving}/bench/churn", str(changed).encode())
            async with asyncio.timeout(SETTLED_SECONDS):
                while cache.versions["Pod"] != said["version"]:
                    await asyncio.sleep(0.02)
            row = {"events": spent(began)[1]}
            began = spent()
            snapshot = cache.snapshot(AT)
            row["snapshot"] = spent(began)[1]
            began = spent()
            plan = plans.draw_plan(snapshot)
            rounds.append({**row, "plan": spent(began)[1], "moves": len(plan.moves), "round": i})
        running.cancel()
    return {**found, "rounds": rounds, "peak in the end": peak()}


def measured(nodes: int, pods: int, percent: float) -> str:
    """Both tables."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Serving(Path(folder), "--nodes", str(nodes), "--pods", str(pods)) as serving,
    ):
        changed = round(serving.objects["Pod"] * percent / 100)
        arguments = [str(serving.kubeconfig), serving.address, str(changed)]
        once, kept = _child("list", *arguments), _child("watch", *arguments)
    rounds = kept["rounds"]
    rows = [
        (name, f"{it['wall']:.2f}", f"{it['cpu']:.2f}", f"{it['peak']:.0f}")
        for name, it in (("a list", once), ("the cache, until it is synced", kept))
    ]
    first = table(("first snapshot", "wall s", "CPU s", "peak MiB"), rows, 1)
    costs = [
        (name, f"{median(it[name] for it in rounds) * 1000:.0f}")
        for name in ("events", "snapshot", "plan")
    ]
    total = median(it["events"] + it["snapshot"] + it["plan"] for it in rounds) * 1000
    then = table(("phase", "CPU ms"), [*costs, ("together", f"{total:.0f}")], 1)
    each = median(it["events"] for it in rounds) / (2 * changed) * 1e6
    return (
        f"{nodes:,} nodes, {once['pods']:,} pods:\n\n{first}\n\n"
        f"Then {changed:,} pods go and as many come, {2 * changed:,} events of about 5 KB in all "
        f"({each:.0f} ms of CPU for 1,000 events); medians of {ROUNDS} rounds, `nodeFit` on, "
        f"{rounds[-1]['moves']:,} moves planned; peak in the end "
        f"{kept['peak in the end']:.0f} MiB:\n\n{then}"
    )


def _child(*words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.watching", "--as", *words]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Measures, prints, and writes if asked to."""
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["--as"]:
        _, role, kubeconfig, address, changed = words
        figures = asyncio.run(watch(kubeconfig, address, int(changed))) if role == "watch" else None
        print(json.dumps(figures or list_once(kubeconfig)))
        return 0
    parser = argparse.ArgumentParser(
        prog="bench.watching", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=30, help="pods on each node, on average")
    parser.add_argument("--changed", type=float, default=1, help="percent of pods that change")
    parser.add_argument("--write", action="store_true", help="put the figures into docs")
    chosen = parser.parse_args(words)
    text = measured(chosen.nodes, chosen.pods, chosen.changed)
    when = datetime.now(UTC).date()
    command = repeatable(words).replace("bench.run", "bench.watching")
    text = f"{text}\n\n{setting(None)}\n\n- {when}, `{command}`"
    print(text)
    if chosen.write:
        page = DOCS / "reference" / "performance.md"
        page.write_text(within_markers(page.read_text(), "watching", text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
