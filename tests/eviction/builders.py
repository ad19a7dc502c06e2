"""Short words for the tests: pods as a snapshot has them, and moves that a plan could hold."""

from __future__ import annotations

from typing import Any

from resettle.framework import Move, Options
from resettle.model.pod import IN_PROGRESS, ON_REQUEST, Pod
from resettle.testing import cluster, node, pod

WILLING = {ON_REQUEST: ""}
"""Annotations of a pod that others move once it was asked to leave."""
UNDER_WAY = {ON_REQUEST: "", IN_PROGRESS: "true"}
"""Annotations of such a pod while others move it."""


def seen(name: str = "web-1", **more: Any) -> Pod:
    """A pod on the node `n1` as a snapshot has it."""
    world = cluster(node("n1").holding(pod(name, **more)))
    (only_pod,) = world.snapshot().pods
    return only_pod


def to_leave(pod_to_move: Pod, plugin: str = "PodLifeTime", reason: str = "has lived 3 h") -> Move:
    return Move(pod_to_move, plugin, "daily", reason)


def options(**more: Any) -> Options:
    defaults = {"initiator": "PodLifeTime", "profile": "daily", "reason": "has lived 3 h"}
    return Options(**(defaults | more))
