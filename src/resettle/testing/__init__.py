"""Worlds to try plugins on, in a small language.

    world = cluster(node("n1", cpu="4").holding(pod("web-1", age="2h"), pod("web-2")), node("n2"))
    assert plan(PLUGIN, world, maxPodLifeTimeSeconds=3600).evicts == ["web-1"]

A builder fills in what a test does not care about. The objects it makes are those of the Kubernetes
API, and they are read in by the same decoder that reads a dump. Two rooms have doors of their own:
`resettle.testing.strategies` draws clusters and policies for Hypothesis, `resettle.testing.life`
makes a pocket cluster live.
"""

from resettle.testing.moving import moved
from resettle.testing.objects import (
    NOW,
    NodeBuilder,
    budget,
    claim,
    namespace,
    node,
    node_metrics,
    pod,
    pod_metrics,
    priority_class,
    query_answer,
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
    "moved",
    "namespace",
    "node",
    "node_metrics",
    "plan",
    "plan_policy",
    "pod",
    "pod_metrics",
    "priority_class",
    "query_answer",
    "spread",
]
