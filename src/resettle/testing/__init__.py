"""Worlds to try plugins on, in a small language.

    world = cluster(node("n1", cpu="4").holding(pod("web-1", age="2h"), pod("web-2")), node("n2"))
    assert plan(PLUGIN, world, maxPodLifeTimeSeconds=3600).evicts == ["web-1"]

A builder fills in what a test does not care about. The objects it makes are those of the Kubernetes
API, and they are read in by the same decoder that reads a dump.
"""

from resettle.testing.objects import (
    NOW,
    NodeBuilder,
    budget,
    claim,
    namespace,
    node,
    pod,
    priority_class,
    spread,
)
from resettle.testing.pocket import Ban, Change, Fault, HandClock, PocketServer, Store, definition
from resettle.testing.worlds import Planned, World, cluster, plan, plan_policy

__all__ = [
    "NOW",
    "Ban",
    "Change",
    "Fault",
    "HandClock",
    "NodeBuilder",
    "Planned",
    "PocketServer",
    "Store",
    "World",
    "budget",
    "claim",
    "cluster",
    "definition",
    "namespace",
    "node",
    "plan",
    "plan_policy",
    "pod",
    "priority_class",
    "spread",
]
