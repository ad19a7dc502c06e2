"""Measures where pods go that are moved off hot nodes, with and without soft taints.

    python -m tests.e2e.soft_taints.scheduling_measurement --moves 60

Takes the control plane that RESETTLE_E2E_FOLDER names, or starts one. All nodes have pods that
request the same; which of them are hot, only Prometheus says. `resettle run` moves pods off hot
nodes as descheduler would, `resettle soft-tainter` marks those or is not there, and kube-scheduler
places the replacements. Prints a table of where they came to be.
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

from tests.e2e.cluster.workloads import workload
from tests.e2e.cluster.workspace import Room, eventually, pauses
from tests.e2e.processes.run import Account
from tests.e2e.servers.load_prometheus import Pressure
from tests.e2e.soft_taints.account import TainterAccount
from tests.e2e.soft_taints.builders import fill, marks
from tools.control_plane.api import Object
from tools.control_plane.build import built
from tools.control_plane.papers import QUIET
from tools.control_plane.plane import Access, ControlPlane

AT_A_TIME = 2
"""Pods that leave a hot node in one cycle."""
LONGEST_SECONDS = 300
MARKINGS: Mapping[str, Object | None] = {
    "no taints": None,
    "one taint": {},
    "OpenShift's two": {"style": "OpenShift"},
    "three levels": {"levels": 3},
}
"""What `softTaints` says; None for no tainter at all."""


class Scene(NamedTuple):
    """How busy each node is by Prometheus, how many pods there are, and which node is full."""

    name: str
    loads: tuple[float, ...]
    pods: int
    full: int | None = None


SCENES = (
    Scene("One node is hot, five are cool", (0.95, 0.1, 0.1, 0.1, 0.1, 0.1), pods=390),
    Scene("Three are hot, and the cool one is full", (0.95, 0.75, 0.55, 0.1), pods=150, full=3),
)


def main(words: list[str]) -> int:
    """Measures, and prints a table for each scene."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e.soft_taints.scheduling_measurement", description=__doc__
    )
    parser.add_argument("--moves", type=int, default=60, help="in each row (%(default)s)")
    moves = parser.parse_args(words).moves
    with ExitStack() as stack:
        folder = os.environ.get("RESETTLE_E2E_FOLDER")
        plane = Access(Path(folder)) if folder else stack.enter_context(ControlPlane(built()))
        own = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stage = Stage(plane, own, stack.enter_context(Pressure(own)))
        for scene in SCENES:
            loads = sorted(set(scene.loads), reverse=True)
            used = [f"came to a node at {load:.0%}" for load in loads]
            print(f"\n{scene.name}\n\n| | moved | {' | '.join(used)} |")
            print("|---" * (len(used) + 2) + "|", flush=True)
            for title, marking in MARKINGS.items():
                landed = stage.landed(scene, marking, moves)
                cells = [f"{landed[load]} ({landed[load] / landed.total():.0%})" for load in loads]
                print(f"| {title} | {landed.total()} | {' | '.join(cells)} |", flush=True)
    return 0


class Stage:
    """Where scenes are played, each on nodes of its own."""

    def __init__(self, plane: Access, folder: Path, pressure: Pressure) -> None:
        self._plane, self._folder, self._pressure = plane, folder, pressure

    def landed(self, scene: Scene, marking: Object | None, moves: int) -> Counter[float]:
        """How many replacements came to nodes that are how busy."""
        with self._plane.api(QUIET) as api, Room(api) as room:
            nodes, others = room.nodes[: len(scene.loads)], room.nodes[len(scene.loads) :]
            for name in others:
                api.delete(f"/api/v1/nodes/{name}")
            if scene.full is not None:
                fill(room, nodes[scene.full], 99.9)
            workload(room, "machine", scene.pods, cpu="50m")
            self._pressure.sets(dict(zip(nodes, scene.loads, strict=True)))
            with self._tainted(room, scene, marking), self._moving(room):
                places = _replacements(room, moves)
            return Counter(scene.loads[nodes.index(name)] for name in places)

    @contextmanager
    def _tainted(self, room: Room, scene: Scene, marking: Object | None) -> Iterator[None]:
        """With a tainter at work, if there is to be one."""
        if marking is None:
            yield
            return
        policy = self._pressure.policy(selector=f"room={room.name}", softTaints=marking)
        hot = [room.nodes[i] for i, load in enumerate(scene.loads) if load > 0.5]
        shipped = TainterAccount(self._plane, room.api, self._folder)
        with shipped as account, account.run(policy, "--interval", "1s"):
            eventually("taints", lambda: all(marks(room.api, name) for name in hot))
            yield

    @contextmanager
    def _moving(self, room: Room) -> Iterator[None]:
        """With a descheduler at work that decides as descheduler does."""
        policy = self._pressure.policy(selector=f"room={room.name}")
        policy["apiVersion"] = "descheduler/v1alpha2"
        args = policy["profiles"][0]["pluginConfig"][0]["args"]
        args["evictionLimits"] = {"node": AT_A_TIME}
        often = ("--descheduling-interval", "1s", "--client-connection-qps", "-1")
        with Account(self._plane, room.api, self._folder) as account, account.run(policy, *often):
            yield


def _replacements(room: Room, moves: int) -> list[str]:
    """The nodes of so many pods that came to be after now."""
    before = {it["metadata"]["uid"] for it in room.running()}
    found: dict[str, str] = {}
    for _ in pauses(LONGEST_SECONDS, 0.2):
        for pod in room.running():
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
            if uid not in before and node:
                found.setdefault(uid, node)
        if len(found) >= moves:
            return list(found.values())[:moves]
    raise AssertionError(f"only {len(found)} pods were moved in {LONGEST_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
