"""A dense cluster under plain eviction and under moves that hold a place, side by side.

    python -m tests.e2e.migration.dense_cluster [--seeds 1 2 3] [--cycles 6]

`dense_layout` says what the cluster is like; nothing is cordoned. Each program corrects duplicates
and pods on tainted nodes. It starts from the same placement and runs cycles until one moves
nothing. Starts its own control plane.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from bench.upstream import UpstreamUnavailable, build_upstream
from resettle.model.migration_job import JOBS_PATH
from resettle.testing import node
from tests.e2e.cluster.policies import OURS, UNLIMITED, UPSTREAM
from tests.e2e.cluster.workspace import eventually, poll
from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.dense_layout import (
    NODE_CPU,
    NODES,
    REPLICAS,
    App,
    Layout,
    Violations,
    count_violations,
    draw_layout,
)
from tests.e2e.migration.harness import (
    remove_jobs,
    start_controller,
    wait_for_ends,
    wait_until_clean,
)
from tests.e2e.processes.run import Policy, Run
from tools.control_plane.api import Api, Object
from tools.control_plane.build import built
from tools.control_plane.papers import ADMIN
from tools.control_plane.plane import MANAGED, Access, ControlPlane

PATIENCE_SECONDS = 240
CYCLES = 6
PLAIN = f"{OURS}, evictions"
STEERINGS = ("Hard", "Gate")
_numbers = count(1)


class Result(NamedTuple):
    """What one program has made of the cluster."""

    before: Violations
    after: Violations
    moves: list[int]
    """By cycle."""
    returned: int
    """Moves after which a pod of the same app is new on the same node."""


class DenseCluster:
    """The cluster of one layout; deleted when the block ends."""

    def __init__(self, api: Api, layout: Layout) -> None:
        self.api, self.layout = api, layout
        self.name = f"dense-{os.getpid()}-{next(_numbers)}"
        self.nodes = [f"{self.name}-{number:02}" for number in range(NODES)]
        self.tainted = frozenset(self.nodes[number] for number in layout.tainted)
        self._space = f"/api/v1/namespaces/{self.name}"
        self._sets = f"/apis/apps/v1/namespaces/{self.name}"

    def __enter__(self) -> DenseCluster:
        self.api.post("/api/v1/namespaces", {"metadata": {"name": self.name}}).granted()
        account = f"{self._space}/serviceaccounts/default"
        eventually("the default account", lambda: self.api.get(account).fine)
        for number, name in enumerate(self.nodes):
            labels = {"dense": self.name}
            cpu, memory, zone = f"{NODE_CPU}m", f"{2 * NODE_CPU}Mi", "abc"[number % 3]
            created = node(name, cpu=cpu, memory=memory, zone=zone, labels=labels).node
            created["metadata"]["annotations"] = MANAGED
            self.api.post("/api/v1/nodes", created).granted()
        for number, app in enumerate(self.layout.apps):
            self._create_pods(f"app-{number:02}", app)
        self.wait_until_settled()
        # ReplicaSets adopt pods that match, and Deployments ReplicaSets, if they know of them.
        for kind in ("replicasets", "deployments"):
            for number, app in enumerate(self.layout.apps):
                self._create_owner(kind, f"app-{number:02}", app)
            self.wait(f"all pods have {kind}", partial(self._are_owned, kind))
        for name in self.tainted:
            taint = {"key": "example.com/maintenance", "effect": "NoSchedule"}
            self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}}).granted()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.delete(f"{self._sets}/deployments")
        self.api.delete(f"{self._sets}/replicasets")
        self.api.delete(self._space)
        self.api.delete(f"{self._space}/pods", grace_seconds=0)
        self.wait("no pods", lambda: not self.pods())
        for name in self.nodes:
            self.api.delete(f"/api/v1/nodes/{name}")

    def _template(self, name: str, app: App) -> Object:
        labels = {"app": name}
        wanted = {"requests": {"cpu": f"{app.size}m", "memory": f"{2 * app.size}Mi"}}
        container = {"name": "main", "image": f"registry.example/{name}:1", "resources": wanted}
        spec: Object = {"containers": [container], "nodeSelector": {"dense": self.name}}
        if app.over_zones:
            zones = {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
            spec["topologySpreadConstraints"] = [zones]
        return {"metadata": {"labels": labels}, "spec": spec}

    def _create_pods(self, name: str, app: App) -> None:
        """Creates the pods on their nodes, without the scheduler; their owner adopts them later."""
        template = self._template(name, app)
        for number, where in enumerate(app.nodes):
            meta = {"name": f"{name}-{number}", **template["metadata"]}
            spec = {**template["spec"], "nodeName": self.nodes[where]}
            self.api.post(f"{self._space}/pods", {"metadata": meta, "spec": spec}).granted()

    def _create_owner(self, kind: str, name: str, app: App) -> None:
        selector = {"matchLabels": {"app": name}}
        template = self._template(name, app)
        spec = {"replicas": REPLICAS, "selector": selector, "template": template}
        body = {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
        self.api.post(f"{self._sets}/{kind}", body).granted()

    def _are_owned(self, kind: str) -> bool:
        owners = self.api.items(f"{self._sets}/{kind}")
        return self.is_settled() and all(
            (owner.get("status") or {}).get("readyReplicas") == REPLICAS for owner in owners
        )

    # -- what it is like ---------------------------------------------------------------------------

    def pods(self) -> list[Object]:
        """All pods of the apps."""
        return self.api.items(f"{self._space}/pods")

    def is_settled(self) -> bool:
        """Whether all pods are there and run."""
        pods = self.pods()
        return len(pods) == REPLICAS * len(self.layout.apps) and all(
            pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
            for pod in pods
        )

    def wait_until_settled(self) -> None:
        """Waits until all pods are there and run."""
        self.wait("all pods run", self.is_settled)

    def violations(self) -> Violations:
        """What should be corrected now."""
        return count_violations(_places(self.pods()).elements(), self.tainted)

    def wait(self, what: str, check: Callable[[], Any]) -> None:
        """Waits until the check passes, longer than small tests do."""
        for _ in poll(PATIENCE_SECONDS, pause=0.5):
            if check():
                return
        unsettled = [pod for pod in self.pods() if pod["status"]["phase"] != "Running"]
        raise AssertionError(f"{what}: not seen within {PATIENCE_SECONDS} s; {unsettled[:5]}")


# -- the programs ----------------------------------------------------------------------------------

RunCycle = Callable[[DenseCluster], None]
STRATEGIES = {
    "deschedule": {"enabled": ["RemovePodsViolatingNodeTaints"]},
    "balance": {"enabled": ["RemoveDuplicates"]},
}


def dense_policy(cluster: DenseCluster, version: str, **mover: Any) -> Policy:
    """Both strategies in one profile; `mover` are the arguments of MigrationController, if any."""
    ours = version == OURS
    evictor = {"minPodAge": "0s"} if ours else {"nodeFit": True}
    configured: dict[str, Any] = {
        "DefaultEvictor": evictor,
        "RemovePodsViolatingNodeTaints": {},
        "RemoveDuplicates": {},
    }
    plugins: dict[str, Any] = dict(STRATEGIES)
    if mover:
        configured["MigrationController"] = mover
        plugins["evict"] = {"enabled": ["MigrationController"]}
    return {
        "apiVersion": version,
        "kind": "DeschedulerPolicy",
        "nodeSelector": f"dense={cluster.name}",
        **(UNLIMITED if ours else {}),
        "profiles": [
            {
                "name": "dense",
                "pluginConfig": [{"name": name, "args": args} for name, args in configured.items()],
                "plugins": plugins,
            }
        ],
    }


def _write_policy(folder: Path, policy: Policy) -> Path:
    file = folder / "dense.policy.json"
    file.write_text(json.dumps(policy))
    return file


def _run_once(access: Access, folder: Path, policy: Policy) -> None:
    """One cycle of `resettle run`."""
    file = _write_policy(folder, policy)
    with Run(access.papers.kubeconfig(ADMIN), file, "--client-connection-qps", "50") as process:
        assert process.wait_for_exit(PATIENCE_SECONDS) == 0, process.log_text


@contextmanager
def plain_cycles(access: Access, folder: Path) -> Iterator[RunCycle]:
    """Cycles of `resettle run` that evict."""
    yield lambda cluster: _run_once(access, folder, dense_policy(cluster, OURS))


@contextmanager
def upstream_cycles(access: Access, folder: Path) -> Iterator[RunCycle]:
    """Cycles of kubernetes-sigs/descheduler."""
    binary = build_upstream().binary

    def run(cluster: DenseCluster) -> None:
        command = [
            str(binary),
            f"--kubeconfig={access.papers.kubeconfig(ADMIN)}",
            f"--policy-config-file={_write_policy(folder, dense_policy(cluster, UPSTREAM))}",
            "--client-connection-qps=50",
            "--client-connection-burst=50",
            "--secure-port=0",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
        assert done.returncode == 0, done.stderr[-2000:]

    yield run


@contextmanager
def held_place_cycles(
    access: Access, account: ControllerAccount, folder: Path, steering: str
) -> Iterator[RunCycle]:
    """Cycles of `resettle run` that create jobs, and a controller that carries them out."""
    mover = {
        "namespace": account.namespace,
        "steering": steering,
        "defaultJobTTL": "3m",
        "reserveTimeout": "30s",
        "arbitrationInterval": "100ms",
    }

    def run(cluster: DenseCluster) -> None:
        policy = dense_policy(cluster, OURS, **mover)
        with start_controller(account, folder, policy) as controller:
            _run_once(access, folder, policy)
            names = [job["metadata"]["name"] for job in cluster.api.items(JOBS_PATH)]
            statuses = wait_for_ends(cluster.api, names, controller, PATIENCE_SECONDS)
            wait_until_clean(cluster.api, account)
        for status in statuses.values():
            if status["phase"] != "Succeeded":
                print("  job:", status["reason"], status["message"], file=sys.stderr)
        remove_jobs(cluster.api)

    yield run


# -- the comparison --------------------------------------------------------------------------------


def run_cycles(cluster: DenseCluster, run: RunCycle, cycles: int) -> Result:
    """Runs until a cycle moves nothing, or so many cycles."""
    before = cluster.violations()
    moves: list[int] = []
    returned = 0
    while len(moves) < cycles and (not moves or moves[-1]):
        old = {pod["metadata"]["uid"]: pod for pod in cluster.pods()}
        run(cluster)
        cluster.wait_until_settled()
        new = {pod["metadata"]["uid"]: pod for pod in cluster.pods()}
        left = _places(pod for uid, pod in old.items() if uid not in new)
        came = _places(pod for uid, pod in new.items() if uid not in old)
        moves.append(left.total())
        returned += (left & came).total()
    return Result(before, cluster.violations(), moves, returned)


def _places(pods: Iterable[Object]) -> Counter[tuple[str, str]]:
    """How many of the pods each app has on each node."""
    return Counter((pod["metadata"]["labels"]["app"], pod["spec"]["nodeName"]) for pod in pods)


def compare(
    access: Access,
    account: ControllerAccount,
    folder: Path,
    seed: int,
    programs: Sequence[str],
    cycles: int = CYCLES,
) -> dict[str, Result]:
    """What each program makes of the cluster of this seed."""
    results: dict[str, Result] = {}
    for name in programs:
        with (
            access.api() as api,
            DenseCluster(api, draw_layout(seed)) as cluster,
            _program(name, access, account, folder) as run,
        ):
            results[name] = run_cycles(cluster, run, cycles)
        print(f"seed {seed}, {name}: {results[name]}", file=sys.stderr, flush=True)
    return results


def _program(name: str, access: Access, account: ControllerAccount, folder: Path) -> Any:
    if name == PROGRAMS[0]:
        return upstream_cycles(access, folder)
    if name == PLAIN:
        return plain_cycles(access, folder)
    return held_place_cycles(access, account, folder, name.rsplit(maxsplit=1)[-1])


PROGRAMS = ("upstream", PLAIN, *(f"{OURS}, ReservationFirst, {name}" for name in STEERINGS))


def table(results: Mapping[int, Mapping[str, Result]]) -> Iterator[str]:
    """The results of all seeds as a table."""
    yield "| seed | program | duplicates left | pods left on tainted nodes | moves | returned |"
    yield "|---|---|---|---|---|---|"
    for seed, by_program in results.items():
        (before, *_) = (result.before for result in by_program.values())
        yield f"| {seed} | before | {before.duplicates} | {before.on_tainted} | | |"
        for name, result in by_program.items():
            after = f"{result.after.duplicates} | {result.after.on_tainted}"
            moves = f"{sum(result.moves)} ({', '.join(map(str, result.moves))})"
            yield f"| | {name} | {after} | {moves} | {result.returned} |"


def main(words: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        prog="dense_cluster", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--cycles", type=int, default=CYCLES, help="at most, for each program")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    chosen = parser.parse_args(words)
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as name,
        ControlPlane(built()) as plane,
        plane.api() as api,
        ControllerAccount(plane, api, Path(name)) as account,
    ):
        results = {
            seed: compare(plane, account, Path(name), seed, chosen.programs, chosen.cycles)
            for seed in chosen.seeds
        }
    print("\n".join(table(results)))
    print(f"took {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UpstreamUnavailable as error:
        sys.exit(f"error: {error}")
