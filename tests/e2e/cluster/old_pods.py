"""Rooms full of pods that have outlived their time: what a run is kept busy with."""

from __future__ import annotations

from tests.e2e.cluster.policies import UPSTREAM, policy
from tests.e2e.cluster.workloads import old_enough, uids
from tests.e2e.cluster.workspace import Room
from tests.e2e.processes.run import Policy


def too_old(room: Room, seconds: int = 1) -> Policy:
    """A policy by which pods of the room are too old after this time."""
    return policy(UPSTREAM, "PodLifeTime", {"maxPodLifeTimeSeconds": seconds}, room)


def crowded(room: Room, pods: int) -> set[str]:
    """The uids of so many pods that are too old, and will have no successors."""
    room.deploy("web", pods)
    room.cordon()
    old_enough(room)
    return uids(room.running())


def left_on_nodes(room: Room) -> set[str]:
    """The uids of pods that have a place and are not about to leave it."""
    found = [it for it in room.running() if "nodeName" in it["spec"]]
    return uids(it for it in found if "deletionTimestamp" not in it["metadata"])
