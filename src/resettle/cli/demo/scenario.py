"""The scenario of the demo: eight nodes in three zones, some fifty pods, a policy, and events.

Each event leaves the cluster in a state that Kubernetes alone would never correct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

from msgspec import Struct

from resettle.cli.demo.cluster import DemoCluster
from resettle.testing.builders import Object, node, spread
from resettle.testing.controllers.builders import (
    daemon_set,
    deployment,
    disruption_budget,
    stateful_set,
)
from resettle.testing.controllers.writes import format_time

NODES = {name: f"zone-{name[0]}" for name in "a-1 a-2 a-3 b-1 b-2 b-3 c-1 c-2".split()}
"""The nodes, and the zone of each."""
JOINING_NODE = "c-2"
BATCH = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}

POLICY = """\
apiVersion: resettle/v1
kind: DeschedulerPolicy
maxPercentOfPodsToEvict: 10
maxPercentOfNodesToEvictFrom: 50
profiles:
  - name: tidy
    pluginConfig:
      - name: LowNodeUtilization
        args:
          thresholds: {cpu: 45, memory: 45}
          targetThresholds: {cpu: 55, memory: 55}
    plugins:
      deschedule:
        enabled:
          - RemovePodsViolatingNodeTaints
          - RemovePodsViolatingInterPodAntiAffinity
      balance:
        enabled:
          - RemovePodsViolatingTopologySpreadConstraint
          - LowNodeUtilization
"""


def node_object(name: str) -> Object:
    """The Node of this name, in its zone."""
    return node(name, cpu="4", memory="16Gi", zone=NODES[name]).node


def objects() -> Iterator[Object]:
    """All objects that exist at the start."""
    yield from (node_object(name) for name in NODES if name != JOINING_NODE)
    for namespace, workloads in _WORKLOADS.items():
        yield from (
            {**workload, "metadata": {**workload["metadata"], "namespace": namespace}}
            for workload in workloads
        )


_WORKLOADS = {
    "shop": [
        deployment(
            "frontend",
            replicas=9,
            cpu="300m",
            memory="768Mi",
            spread=[spread(labels={"app": "frontend"})],
        ),
        disruption_budget("frontend", app="frontend", max_unavailable="30%"),
        deployment("cart", replicas=6, cpu="400m", memory="1Gi", away_from={"app": "cart"}),
        disruption_budget("cart", app="cart", min_available=5),
        deployment("search", replicas=6, cpu="500m", memory="2Gi"),
        deployment("checkout", replicas=4, cpu="300m", memory="512Mi"),
        disruption_budget("checkout", app="checkout", min_available="75%"),
    ],
    "data": [
        stateful_set(
            "ledger",
            replicas=3,
            cpu="500m",
            memory="2Gi",
            claims=["books"],
            away_from={"app": "ledger"},
        ),
        disruption_budget("ledger", app="ledger", max_unavailable=1),
        deployment("queue", replicas=4, cpu="250m", memory="1Gi"),
    ],
    "blog": [
        deployment("press", replicas=5, cpu="200m", memory="512Mi"),
        deployment("comments", replicas=5, cpu="250m", memory="512Mi"),
    ],
    "ops": [
        daemon_set("agent", cpu="100m", memory="128Mi", tolerations=[{"operator": "Exists"}]),
        deployment(
            "reports",
            replicas=3,
            cpu="200m",
            memory="1Gi",
            tolerations=[{"key": "dedicated", "operator": "Equal", "value": "batch"}],
        ),
    ],
}


class DemoEvent(Struct, frozen=True, kw_only=True):
    """An external event, such as a new node."""

    title: str
    description: str
    apply: Callable[[DemoCluster], Iterable[str]]
    """Changes the cluster; returns further sentences about it."""
    deletes_a_pod: bool = False
    """Whether a pod is deleted by hand between the plan and its evictions."""


def add_node(cluster: DemoCluster) -> Iterable[str]:
    """Adds an empty node, and lets 15 minutes pass in which no pod moves to it."""
    cluster.store.put(node_object(JOINING_NODE))
    cluster.controllers.pass_time(timedelta(minutes=15))
    return ()


def restart_zone(cluster: DemoCluster) -> Iterable[str]:
    """Removes all nodes of a zone for an hour, and adds them again, empty."""
    out = [name for name, zone in NODES.items() if zone == "zone-b"]
    for name in out:
        cluster.store.delete("Node", name)
    cluster.controllers.pass_time(timedelta(hours=1))
    waited = [*_waiting(cluster)]
    for name in out:
        cluster.store.put(node_object(name))
    cluster.controllers.pass_time(timedelta(minutes=15))
    return waited


def taint_node(cluster: DemoCluster) -> Iterable[str]:
    """Taints a node, and lets 15 minutes pass so that the taint is older than `minPodAge`."""
    taint = {**BATCH, "timeAdded": format_time(cluster.clock())}
    cluster.store.merge("Node", "a-2", {"spec": {"taints": [taint]}})
    cluster.controllers.pass_time(timedelta(minutes=15))
    return ()


def overload_node(cluster: DemoCluster) -> Iterable[str]:
    """Rolls out a new version of a workload while all other nodes are cordoned."""
    others = [name for name in NODES if name != "b-2"]
    for name in others:
        cluster.store.merge("Node", name, {"spec": {"unschedulable": True}})
    release = {"metadata": {"labels": {"release": "2"}}}
    cluster.store.merge("Deployment", "comments", {"spec": {"template": release}}, "blog")
    cluster.controllers.pass_time(timedelta(minutes=15))
    for name in others:
        cluster.store.merge("Node", name, {"spec": {"unschedulable": None}})
    cluster.controllers.settle()
    return ()


def _waiting(cluster: DemoCluster) -> Iterator[str]:
    """A sentence for each pod without a node, with the scheduler's message."""
    for pod in cluster.store.list("Pod"):
        for condition in pod["status"].get("conditions") or ():
            if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
                meta = pod["metadata"]
                yield f"{meta['namespace']}/{meta['name']} waited: {condition['message']}"


EVENTS = (
    DemoEvent(
        title="A node joins",
        description="c-2 is new in zone-c. Its DaemonSet pod was created at once; no other pod "
        "moves there, because a running pod is never rescheduled.",
        apply=add_node,
    ),
    DemoEvent(
        title="A zone comes back",
        description="zone-b was out for an hour. Its pods were rescheduled to the other two zones, "
        "and they stay there, although the nodes are back.",
        apply=restart_zone,
    ),
    DemoEvent(
        title="A node runs hot",
        description="blog/comments got a new release while all nodes but b-2 were cordoned for an "
        "upgrade. The upgrade is over, and b-2 runs all of its pods.",
        apply=overload_node,
    ),
    DemoEvent(
        title="A taint appears",
        description="a-2 is now dedicated=batch. The taint keeps new pods away; those that run "
        "there stay until they are evicted.",
        apply=taint_node,
        deletes_a_pod=True,
    ),
)
