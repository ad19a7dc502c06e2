"""Short words for the tests: pods as a snapshot has them, and moves that a plan could hold."""

from __future__ import annotations

from typing import Any

from resettle.framework import Move, Options
from resettle.model.pod import IN_PROGRESS, ON_REQUEST, Pod
from resettle.testing import cluster, node, pod

WILLING = {ON_REQUEST: ""}
"""Annotations of a pod that others move once it was asked to leave."""
UNDER_WAY = {ON_REQUEST: "", IN_PROGRESS: "true"}
"""The same while they do."""


def seen(name: str = "web-1", **more: Any) -> Pod:
    """A pod on the node `n1` as a snapshot has it."""
    world = cluster(node("n1").holding(pod(name, **more)))
    (found,) = world.snapshot().pods
    return found


def to_leave(it: Pod, plugin: str = "PodLifeTime", reason: str = "has lived 3 h") -> Move:
    return Move(it, plugin, "daily", reason)


def options(**more: Any) -> Options:
    told = {"initiator": "PodLifeTime", "profile": "daily", "reason": "has lived 3 h"}
    return Options(**(told | more))
