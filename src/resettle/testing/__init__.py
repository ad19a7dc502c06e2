"""Clusters, a test API server and controllers to try plugins on; public.

    world = cluster(node("n1", cpu="4").holding(pod("web-1", age="2h"), pod("web-2")), node("n2"))
    assert plan(PLUGIN, world, maxPodLifeTimeSeconds=3600).evicts == ["web-1"]

A builder fills in what a test does not care about. The objects it makes are those of the Kubernetes
API, read by the same decoder that reads a dump. Two packages are imported by their own names:
`resettle.testing.strategies` draws clusters and policies for Hypothesis, and
`resettle.testing.controllers` runs a scheduler, kubelets and workload controllers on the test API
server. Start with `builders`. Tests of plugins import it, and `resettle demo`.

Import from outside: `builders`.
"""

from resettle.testing.acting import move_pod, run_controller
from resettle.testing.api_server import (
    ApiServer,
    DeniedPermission,
    Fault,
    ManualClock,
    ObjectChange,
    Store,
    definition,
)
from resettle.testing.builders import (
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
    workload,
)
from resettle.testing.worlds import Planned, World, cluster, plan, plan_policy

__all__ = [
    "NOW",
    "ApiServer",
    "DeniedPermission",
    "Fault",
    "ManualClock",
    "NodeBuilder",
    "ObjectChange",
    "Planned",
    "Store",
    "World",
    "budget",
    "claim",
    "cluster",
    "definition",
    "move_pod",
    "namespace",
    "node",
    "node_metrics",
    "plan",
    "plan_policy",
    "pod",
    "pod_metrics",
    "priority_class",
    "query_answer",
    "run_controller",
    "spread",
    "workload",
]
