"""Workloads with their pods, and policies that enable MigrationLimits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from resettle.testing import cluster, node, plan_policy, pod, workload
from resettle.testing.builders import Object
from resettle.testing.worlds import Planned, World

UNREADY: Mapping[str, Any] = {"conditions": [{"type": "Ready", "status": "False"}]}


def web(replicas: int, **parts: Any) -> list[Object]:
    """A Deployment of this size with its ReplicaSet; `parts` are arguments of `workload`."""
    return [
        workload("Deployment/web", replicas=replicas, **parts),
        workload("ReplicaSet/web-1", replicas=replicas, owner="Deployment/web"),
    ]


def pods(count: int, owner: str = "ReplicaSet/web-1", **given: Any) -> list[Object]:
    """So many pods of one owner."""
    stem = owner.partition("/")[2]
    return [pod(f"{stem}-{i}", owner=owner, **given) for i in range(count)]


def world(placed: Iterable[Object], *beside: Object) -> World:
    """The pods, each on a node of its own, an empty node, and the other objects."""
    nodes = [node(f"n{i}").holding(item) for i, item in enumerate(placed)]
    return cluster(*nodes, node("empty"), *beside)


def document(**args: Any) -> dict[str, Any]:
    """A policy that proposes every pod."""
    config = [
        {"name": "MigrationLimits", "args": args},
        {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 1}},
    ]
    enabled = {"deschedule": ["PodLifeTime"], "filter": ["MigrationLimits"]}
    plugins = {point: {"enabled": names} for point, names in enabled.items()}
    return {"profiles": [{"name": "main", "pluginConfig": config, "plugins": plugins}]}


def plan_of(placed: World, **args: Any) -> Planned:
    """What would move of all pods with these arguments."""
    return plan_policy(document(**args), placed)
