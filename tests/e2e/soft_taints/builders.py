"""Nodes that are as full as a test says, policies that mind, and the taints that come of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.log_reader import Line
from tests.e2e.soft_taints.account import TainterAccount
from tools.control_plane.api import Api, Object

KUBERNETES = "nodeutilization.descheduler.kubernetes.io"
OPENSHIFT = "nodeutilization.descheduler.openshift.io"
MARK = f"{KUBERNETES}/overutilized=level1"
CALM = f"{OPENSHIFT}/appropriate=true"
OVER = f"{OPENSHIFT}/overutilized=true"
BOTH = [CALM, OVER]
CPU = 8
"""What every node of a room has."""


def policy(
    room: Room,
    low: float = 20,
    high: float = 50,
    *,
    from_mean: bool = False,
    selector: str = "",
    version: str = "resettle/v1",
    **top: Any,
) -> Object:
    """A policy by which nodes of the room are too empty or too full of what pods request."""
    args: Object = {"thresholds": {"cpu": low}, "targetThresholds": {"cpu": high}}
    if from_mean:
        args["useDeviationThresholds"] = True
    return {
        "apiVersion": version,
        "kind": "DeschedulerPolicy",
        "nodeSelector": selector or f"room={room.name}",
        "profiles": [balancing(args)],
        **top,
    }


def balancing(args: Object, name: str = "relieve") -> Object:
    """A profile that balances with LowNodeUtilization."""
    return {
        "name": name,
        "pluginConfig": [{"name": "LowNodeUtilization", "args": args}],
        "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
    }


def fill(room: Room, node: str, percent: float) -> None:
    """Has one pod request so much of the node, in place of the one before."""
    name = f"load-{node}"
    room.api.delete(f"{room.pods}/{name}", grace_seconds=0)
    eventually(f"{name} gone", lambda: room.api.get(f"{room.pods}/{name}").status == 404)
    wanted = {"requests": {"cpu": f"{percent * CPU * 10:.0f}m"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": wanted}
    spec = {"nodeName": node, "containers": [container]}
    room.api.post(room.pods, {"metadata": {"name": name}, "spec": spec}).granted()


def give(api: Api, node: str, *taints: Object) -> None:
    """Has the node have just these taints."""
    api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": list(taints) or None}}).granted()


def written(api: Api, node: str) -> list[Object]:
    """The taints of a node as they stand there."""
    return list(api.get(f"/api/v1/nodes/{node}").granted()["spec"].get("taints") or ())


def marks(api: Api, node: str) -> list[str]:
    """Our soft taints on a node, without the effect that all of them have."""
    return [
        f"{it['key']}={it.get('value', '')}"
        for it in written(api, node)
        if it["effect"] == "PreferNoSchedule" and it["key"].startswith((KUBERNETES, OPENSHIFT))
    ]


def soft(mark: str) -> Object:
    """A soft taint as it stands on a node."""
    key, _, value = mark.partition("=")
    return {"key": key, "value": value, "effect": "PreferNoSchedule"}


def once(tainter: TainterAccount, document: Object, *words: str) -> list[Line]:
    """What a single round said that ended well."""
    with tainter.run(document, "--once", *words) as run:
        assert run.ended() == 0, run.story
    return run.lines


def marked(api: Api, nodes: Iterable[str]) -> list[str]:
    """Those of the nodes that have a taint of ours."""
    return [name for name in nodes if marks(api, name)]
