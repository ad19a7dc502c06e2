"""Nodes that are hot by the metrics API, and policies that would relieve them."""

from __future__ import annotations

from typing import Any

from tests.e2e.cluster.policies import OURS, UNLIMITED
from tests.e2e.cluster.workloads import ALONE, open_all, open_only, workload
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.run import Run
from tools.control_plane.api import Object

OFTEN = ("--descheduling-interval", "300ms", *ALONE)


def policy(room: Room, plugin: str, version: str = OURS, **args: Any) -> Object:
    """One plugin over the nodes of the room; each of them has 8 cpu."""
    ours = version == OURS
    guard = {"minPodAge": "0s"} if ours else {}
    return {
        "apiVersion": version,
        "kind": "DeschedulerPolicy",
        "nodeSelector": f"room={room.name}",
        "metricsProviders": [{"source": "KubernetesMetrics"}],
        **(UNLIMITED if ours else {}),
        "profiles": [
            {
                "name": "main",
                "pluginConfig": [
                    {"name": plugin, "args": args},
                    {"name": "DefaultEvictor", "args": guard},
                ],
                "plugins": {"balance": {"enabled": [plugin]}},
            }
        ],
    }


def crowd(room: Room, pods: int = 4) -> str:
    """The first node of the room, on which these pods are; the others are empty."""
    open_only(room, room.nodes[0])
    workload(room, "app", pods)
    open_all(room)
    return room.nodes[0]


def hot_spots(room: Room, times: int = 1, **more: Any) -> Object:
    condition = {"consecutiveAbnormalities": times, "consecutiveNormalities": 1, "cooldown": "30s"}
    return policy(
        room,
        "LowNodeLoad",
        lowThresholds={"cpu": 20},
        highThresholds={"cpu": 60},
        anomalyCondition=condition,
        **more,
    )


def cycles(run: Run, count: int = 2) -> None:
    """Returns once so many whole cycles have gone by."""
    run.awaits_more("cycle done", count + 1)
