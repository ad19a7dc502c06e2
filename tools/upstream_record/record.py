"""Runs kubernetes-sigs/descheduler over the policies of tests/migrate and keeps what it did.

    python -m tools.upstream_record.record

Each policy meets the cluster of its number, served by the test API server: disruption budgets
are enforced, and an evicted pod is terminating from then on. descheduler sees that before its next
request, since the answer is held back for a moment. It draws lots, so it runs six times, and every
distinct set of pods is kept. A policy of `descheduler/v1alpha1`, which it no longer reads, is given
to it as `resettle policy convert` writes it; one with mistakes as it stands, mistakes and all.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.upstream import VERSION, build_upstream
from resettle.policy.document import V1ALPHA1
from resettle.policy.versions.upgrade import write_policy
from resettle.policy.yaml.typed_walk import plain_value
from resettle.testing import NOW, ApiServer, Fault
from tests.cli.migrate.builders import Object, digest, estate
from tests.cli.migrate.samples import FILES, policy_in, seed_of
from tests.cli.migrate.upstream_record import FILE, Recorded, write

RUNS = 6
HELD = Fault(verbs=("create",), path="*/eviction", hold_seconds=0.05, times=1_000_000)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_PACE = ("--client-connection-qps=1000", "--client-connection-burst=1000")


def policy_text(file: str) -> str:
    """The policy as descheduler can read it."""
    judged = policy_in(file)
    assert judged.reading is not None, file
    if judged.reading.version == V1ALPHA1:
        return write_policy(judged.reading, file)
    return json.dumps(plain_value(judged.policy.root))


def moved(thing: Any, by: timedelta) -> Any:
    """The same objects, every time in them moved."""
    match thing:
        case dict():
            return {key: moved(value, by) for key, value in thing.items()}
        case list():
            return [moved(value, by) for value in thing]
        case str() if _TIME.fullmatch(thing):
            return f"{datetime.fromisoformat(thing) + by:%Y-%m-%dT%H:%M:%SZ}"
    return thing


def evicted_once(binary: Path, policy: str, objects: list[Object]) -> frozenset[str]:
    """The pods that one run of descheduler evicts."""
    now = datetime.now(UTC).replace(microsecond=0)
    with (
        ApiServer(moved(objects, now - NOW), faults=[HELD]) as server,
        tempfile.TemporaryDirectory() as name,
    ):
        folder = Path(name)
        (folder / "policy.yaml").write_text(policy)
        config = server.kubeconfig(folder / "config")
        flags = [f"--policy-config-file={folder / 'policy.yaml'}", f"--kubeconfig={config}"]
        done = subprocess.run(
            [binary, *flags, *_PACE, "--secure-port=0", "--v=3"],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            sys.exit(f"error: descheduler ended with {done.returncode}:\n{done.stderr[-3000:]}")
        left = {
            f"{it['metadata']['namespace']}/{it['metadata']['name']}"
            for it in server.store.list("Pod")
            if "deletionTimestamp" not in it["metadata"]
        }
    before = (it["metadata"] for it in objects if it["kind"] == "Pod")
    return frozenset(f"{it['namespace']}/{it['name']}" for it in before) - left


def recorded(binary: Path, file: str) -> Recorded:
    """What descheduler does with one policy, over several runs."""
    objects, policy = estate(seed_of(file)), policy_text(file)
    runs = Counter(evicted_once(binary, policy, objects) for _ in range(RUNS))
    sets = sorted(map(sorted, runs))
    sizes = ", ".join(str(len(one)) for one in sets)
    print(f"{file}: {len(sets)} different answers; evicted {sizes}", file=sys.stderr)
    return Recorded(
        file=file,
        upstream=VERSION,
        cluster=digest(objects),
        nodes=_nodes_left(objects, sets[0]),
        runs=sets,
    )


def _nodes_left(objects: list[Object], pods: list[str]) -> dict[str, int]:
    """How many pods the first answer takes off which node."""
    homes = {
        f"{it['metadata']['namespace']}/{it['metadata']['name']}": it["spec"]["nodeName"]
        for it in objects
        if it["kind"] == "Pod"
    }
    return dict(sorted(Counter(homes[pod] for pod in pods).items()))


def main() -> None:
    """Records them all."""
    binary = build_upstream().binary
    write([recorded(binary, file) for file in FILES])
    print(FILE)


if __name__ == "__main__":
    main()
