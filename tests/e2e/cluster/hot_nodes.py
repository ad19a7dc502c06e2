"""Nodes that are hot by the metrics API, and policies that would relieve them."""

from __future__ import annotations

from typing import Any

from tests.e2e.cluster.policies import OURS, UNLIMITED
from tests.e2e.cluster.workloads import (
    NO_BACKGROUND_EVICTIONS,
    cordon_all_but,
    create_deployment,
    uncordon_all,
)
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.processes.run import Run
from tools.control_plane.api import Object

SHORT_INTERVAL = ("--descheduling-interval", "300ms", *NO_BACKGROUND_EVICTIONS)


def policy(workspace: Workspace, plugin: str, version: str = OURS, **args: Any) -> Object:
    """A policy with one plugin, for the nodes of the workspace; each node has 8 cpu."""
    ours = version == OURS
    evictor_args = {"minPodAge": "0s"} if ours else {}
    return {
        "apiVersion": version,
        "kind": "DeschedulerPolicy",
        "nodeSelector": f"workspace={workspace.name}",
        "metricsProviders": [{"source": "KubernetesMetrics"}],
        **(UNLIMITED if ours else {}),
        "profiles": [
            {
                "name": "main",
                "pluginConfig": [
                    {"name": plugin, "args": args},
                    {"name": "DefaultEvictor", "args": evictor_args},
                ],
                "plugins": {"balance": {"enabled": [plugin]}},
            }
        ],
    }


def place_pods_on_first_node(workspace: Workspace, pods: int = 4) -> str:
    """Places so many pods on the first node, none on the others; returns the name of that node."""
    cordon_all_but(workspace, workspace.nodes[0])
    create_deployment(workspace, "app", pods)
    uncordon_all(workspace)
    return workspace.nodes[0]


def low_node_load_policy(workspace: Workspace, times: int = 1, **more: Any) -> Object:
    """A policy with LowNodeLoad; a node is hot after so many samples above the threshold."""
    condition = {"consecutiveAbnormalities": times, "consecutiveNormalities": 1, "cooldown": "30s"}
    return policy(
        workspace,
        "LowNodeLoad",
        lowThresholds={"cpu": 20},
        highThresholds={"cpu": 60},
        anomalyCondition=condition,
        **more,
    )


def wait_for_cycles(run: Run, count: int = 2) -> None:
    """Returns once so many whole cycles are done."""
    run.wait_for_more("cycle done", count + 1)
