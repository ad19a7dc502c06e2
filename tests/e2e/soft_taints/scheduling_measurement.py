"""Measures where pods go that are moved off hot nodes, with and without soft taints.

    python -m tests.e2e.soft_taints.scheduling_measurement --moves 60

Uses the control plane that RESETTLE_E2E_FOLDER names, or starts one. The requests on all nodes are
equal; which nodes are hot is known to Prometheus only. `resettle run` moves pods off hot nodes as
upstream would, `resettle soft-tainter` taints those or does not run, and kube-scheduler places the
replacements. Prints a table of the nodes they were placed on.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.e2e.cluster.workloads import create_deployment
from tests.e2e.cluster.workspace import Workspace, eventually, poll
from tests.e2e.processes.run import Account
from tests.e2e.servers.load_prometheus import LoadPrometheus
from tests.e2e.soft_taints.account import TainterAccount
from tests.e2e.soft_taints.builders import fill_node, soft_taints_of
from tools.control_plane.api import Object
from tools.control_plane.build import built
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access, ControlPlane

PODS_IN_A_CYCLE = 2
"""Pods that leave a hot node in one cycle."""
TIMEOUT_SECONDS = 300
MARKINGS: Mapping[str, Object | None] = {
    "no taints": None,
    "one taint": {},
    "OpenShift's two": {"style": "OpenShift"},
    "three levels": {"levels": 3},
}
"""`softTaints` of the policy; None for no tainter at all."""


class Scenario(NamedTuple):
    """The load of each node in Prometheus, the number of pods, and which node is full."""

    name: str
    loads: tuple[float, ...]
    pods: int
    full: int | None = None


SCENARIOS = (
    Scenario("One node is hot, five are cool", (0.95, 0.1, 0.1, 0.1, 0.1, 0.1), pods=390),
    Scenario("Three are hot, and the cool one is full", (0.95, 0.75, 0.55, 0.1), pods=150, full=3),
)


def main(words: list[str]) -> int:
    """Measures, and prints a table for each scenario."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e.soft_taints.scheduling_measurement", description=__doc__
    )
    parser.add_argument("--moves", type=int, default=60, help="in each row (%(default)s)")
    moves = parser.parse_args(words).moves
    with ExitStack() as stack:
        folder = os.environ.get("RESETTLE_E2E_FOLDER")
        plane = Access(Path(folder)) if folder else stack.enter_context(ControlPlane(built()))
        own_folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        measurement = Measurement(
            plane, own_folder, stack.enter_context(LoadPrometheus(own_folder))
        )
        for scenario in SCENARIOS:
            loads = sorted(set(scenario.loads), reverse=True)
            columns = [f"placed on a node at {load:.0%}" for load in loads]
            print(f"\n{scenario.name}\n\n| | moved | {' | '.join(columns)} |")
            print("|---" * (len(columns) + 2) + "|", flush=True)
            for title, marking in MARKINGS.items():
                placed = measurement.measure(scenario, marking, moves)
                cells = [f"{placed[load]} ({placed[load] / placed.total():.0%})" for load in loads]
                print(f"| {title} | {placed.total()} | {' | '.join(cells)} |", flush=True)
    return 0


class Measurement:
    """Measures scenarios, each in its own workspace."""

    def __init__(self, plane: Access, folder: Path, prometheus: LoadPrometheus) -> None:
        self._plane, self._folder, self._prometheus = plane, folder, prometheus

    def measure(self, scenario: Scenario, marking: Object | None, moves: int) -> Counter[float]:
        """The number of replacements by the load of the node they were placed on."""
        with self._plane.api(QUIET) as api, Workspace(api) as workspace:
            nodes, others = (
                workspace.nodes[: len(scenario.loads)],
                workspace.nodes[len(scenario.loads) :],
            )
            for name in others:
                api.delete(f"/api/v1/nodes/{name}")
            if scenario.full is not None:
                fill_node(workspace, nodes[scenario.full], 99.9)
            create_deployment(workspace, "machine", scenario.pods, cpu="50m")
            self._prometheus.set_loads(dict(zip(nodes, scenario.loads, strict=True)))
            with self._run_tainter(workspace, scenario, marking), self._run_descheduler(workspace):
                places = _replacements(workspace, moves)
            return Counter(scenario.loads[nodes.index(name)] for name in places)

    @contextmanager
    def _run_tainter(
        self, workspace: Workspace, scenario: Scenario, marking: Object | None
    ) -> Iterator[None]:
        """Runs a tainter while the block lasts, unless `marking` is None."""
        if marking is None:
            yield
            return
        policy = self._prometheus.policy(selector=f"workspace={workspace.name}", softTaints=marking)
        hot = [workspace.nodes[i] for i, load in enumerate(scenario.loads) if load > 0.5]
        shipped = TainterAccount(self._plane, workspace.api, self._folder)
        with shipped as account, account.run(policy, "--interval", "1s"):
            eventually("taints", lambda: all(soft_taints_of(workspace.api, name) for name in hot))
            yield

    @contextmanager
    def _run_descheduler(self, workspace: Workspace) -> Iterator[None]:
        """Runs a descheduler with a policy of upstream while the block lasts."""
        policy = self._prometheus.policy(selector=f"workspace={workspace.name}")
        policy["apiVersion"] = "descheduler/v1alpha2"
        args = policy["profiles"][0]["pluginConfig"][0]["args"]
        args["evictionLimits"] = {"node": PODS_IN_A_CYCLE}
        flags = ("--descheduling-interval", "1s", "--client-connection-qps", "-1")
        with (
            Account(self._plane, workspace.api, self._folder) as account,
            account.run(policy, *flags),
        ):
            yield


def _replacements(workspace: Workspace, moves: int) -> list[str]:
    """The nodes of the next so many pods that are created and scheduled."""
    before = {pod["metadata"]["uid"] for pod in workspace.list_pods()}
    nodes: dict[str, str] = {}
    for _ in poll(TIMEOUT_SECONDS, 0.2):
        for pod in workspace.list_pods():
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
            if uid not in before and node:
                nodes.setdefault(uid, node)
        if len(nodes) >= moves:
            return list(nodes.values())[:moves]
    raise AssertionError(f"only {len(nodes)} pods were moved in {TIMEOUT_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
