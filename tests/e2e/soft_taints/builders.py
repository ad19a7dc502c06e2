"""Nodes filled to a percentage, policies with thresholds, and the taints of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.log_reader import Line
from tests.e2e.soft_taints.account import TainterAccount
from tools.control_plane.api import Api, Object

KUBERNETES = "nodeutilization.descheduler.kubernetes.io"
OPENSHIFT = "nodeutilization.descheduler.openshift.io"
OVERUTILIZED = f"{KUBERNETES}/overutilized=level1"
APPROPRIATE = f"{OPENSHIFT}/appropriate=true"
OVER = f"{OPENSHIFT}/overutilized=true"
BOTH = [APPROPRIATE, OVER]
CPU = 8
"""The cpu of every node of a workspace."""


def policy(
    workspace: Workspace,
    low: float = 20,
    high: float = 50,
    *,
    from_mean: bool = False,
    selector: str = "",
    version: str = "resettle/v1",
    **top: Any,
) -> Object:
    """A policy with LowNodeUtilization by requests, for the nodes of the workspace."""
    args: Object = {"thresholds": {"cpu": low}, "targetThresholds": {"cpu": high}}
    if from_mean:
        args["useDeviationThresholds"] = True
    return {
        "apiVersion": version,
        "kind": "DeschedulerPolicy",
        "nodeSelector": selector or f"workspace={workspace.name}",
        "profiles": [balancing_profile(args)],
        **top,
    }


def balancing_profile(args: Object, name: str = "relieve") -> Object:
    """A profile that balances with LowNodeUtilization."""
    return {
        "name": name,
        "pluginConfig": [{"name": "LowNodeUtilization", "args": args}],
        "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
    }


def fill_node(workspace: Workspace, node: str, percent: float) -> None:
    """Creates one pod that requests so much of the node, and deletes the one before."""
    name = f"load-{node}"
    workspace.api.delete(f"{workspace.pods_path}/{name}", grace_seconds=0)
    eventually(
        f"{name} gone", lambda: workspace.api.get(f"{workspace.pods_path}/{name}").status == 404
    )
    wanted = {"requests": {"cpu": f"{percent * CPU * 10:.0f}m"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": wanted}
    spec = {"nodeName": node, "containers": [container]}
    workspace.api.post(workspace.pods_path, {"metadata": {"name": name}, "spec": spec}).granted()


def set_taints(api: Api, node: str, *taints: Object) -> None:
    """Sets the taints of the node."""
    api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": list(taints) or None}}).granted()


def taints_of(api: Api, node: str) -> list[Object]:
    """The taints of a node, in order."""
    return list(api.get(f"/api/v1/nodes/{node}").granted()["spec"].get("taints") or ())


def soft_taints_of(api: Api, node: str) -> list[str]:
    """Our soft taints on a node, as `key=value`."""
    return [
        f"{taint['key']}={taint.get('value', '')}"
        for taint in taints_of(api, node)
        if taint["effect"] == "PreferNoSchedule"
        and taint["key"].startswith((KUBERNETES, OPENSHIFT))
    ]


def soft_taint(text: str) -> Object:
    """The soft taint of this `key=value`."""
    key, _, value = text.partition("=")
    return {"key": key, "value": value, "effect": "PreferNoSchedule"}


def run_once(tainter: TainterAccount, document: Object, *words: str) -> list[Line]:
    """Runs a single round, which must succeed; returns its log."""
    with tainter.run(document, "--once", *words) as run:
        assert run.wait_for_exit() == 0, run.log_text
    return run.lines


def tainted_nodes(api: Api, nodes: Iterable[str]) -> list[str]:
    """The nodes that have a soft taint of ours."""
    return [name for name in nodes if soft_taints_of(api, name)]
