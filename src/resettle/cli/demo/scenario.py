"""The shop: eight nodes in three zones, some fifty pods, and a policy for them.

What befalls the shop, one thing after the other; each would sit there for good by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

from msgspec import Struct

from resettle.cli.demo.cluster import Stage
from resettle.testing.builders import Object, node, spread
from resettle.testing.controllers.builders import (
    daemon_set,
    deployment,
    disruption_budget,
    stateful_set,
)
from resettle.testing.controllers.writes import told_as

NODES = {name: f"zone-{name[0]}" for name in "a-1 a-2 a-3 b-1 b-2 b-3 c-1 c-2".split()}
"""The nodes, and the zone of each."""
LATECOMER = "c-2"
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


def machine(name: str) -> Object:
    """One node."""
    return node(name, cpu="4", memory="16Gi", zone=NODES[name]).node


def objects() -> Iterator[Object]:
    """Everything that is there when the story begins."""
    yield from (machine(name) for name in NODES if name != LATECOMER)
    for namespace, workloads in _WORKLOADS.items():
        yield from (
            {**it, "metadata": {**it["metadata"], "namespace": namespace}} for it in workloads
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


class Act(Struct, frozen=True, kw_only=True):
    """Something that happens."""

    title: str
    says: str
    happens: Callable[[Stage], Iterable[str]]
    """What comes back is what else there is to say about it."""
    meddled: bool = False
    """Whether somebody deletes a pod by hand between a plan and its evictions."""


def a_node_joins(stage: Stage) -> Iterable[str]:
    """An empty node, and a quarter of an hour in which nothing comes to it by itself."""
    stage.store.put(machine(LATECOMER))
    stage.life.pass_time(timedelta(minutes=15))
    return ()


def a_zone_returns(stage: Stage) -> Iterable[str]:
    """All nodes of a zone gone, their pods placed elsewhere, and the nodes back again, empty."""
    out = [name for name, zone in NODES.items() if zone == "zone-b"]
    for name in out:
        stage.store.delete("Node", name)
    stage.life.pass_time(timedelta(hours=1))
    waited = [*_waiting(stage)]
    for name in out:
        stage.store.put(machine(name))
    stage.life.pass_time(timedelta(minutes=15))
    return waited


def a_taint_appears(stage: Stage) -> Iterable[str]:
    """A node meant for batch work from now on, long enough for the policy to believe it."""
    taint = {**BATCH, "timeAdded": told_as(stage.clock())}
    stage.store.merge("Node", "a-2", {"spec": {"taints": [taint]}})
    stage.life.pass_time(timedelta(minutes=15))
    return ()


def a_node_runs_hot(stage: Stage) -> Iterable[str]:
    """A new version of a workload comes out while only one node takes pods."""
    others = [name for name in NODES if name != "b-2"]
    for name in others:
        stage.store.merge("Node", name, {"spec": {"unschedulable": True}})
    release = {"metadata": {"labels": {"release": "2"}}}
    stage.store.merge("Deployment", "comments", {"spec": {"template": release}}, "blog")
    stage.life.pass_time(timedelta(minutes=15))
    for name in others:
        stage.store.merge("Node", name, {"spec": {"unschedulable": None}})
    stage.life.settle()
    return ()


def _waiting(stage: Stage) -> Iterator[str]:
    """A sentence for each pod that finds no node, with the scheduler's own words."""
    for pod in stage.store.list("Pod"):
        for told in pod["status"].get("conditions") or ():
            if (told["type"], told["status"]) == ("PodScheduled", "False"):
                meta = pod["metadata"]
                yield f"{meta['namespace']}/{meta['name']} waited: {told['message']}"


ACTS = (
    Act(
        title="A node joins",
        says="c-2 is new in zone-c. Its DaemonSet pod came at once; nothing else will come by "
        "itself, for a pod is placed once and then left where it is.",
        happens=a_node_joins,
    ),
    Act(
        title="A zone comes back",
        says="zone-b was out for an hour. Its pods found room in the other two, and there they "
        "still are, though the nodes are back.",
        happens=a_zone_returns,
    ),
    Act(
        title="A node runs hot",
        says="blog/comments got a new release while all nodes but b-2 were cordoned for an "
        "upgrade. The upgrade is over, and b-2 carries all of it.",
        happens=a_node_runs_hot,
    ),
    Act(
        title="A taint appears",
        says="a-2 is now dedicated=batch. The taint keeps new pods away; those that run there "
        "stay until somebody asks them to leave.",
        happens=a_taint_appears,
        meddled=True,
    ),
)
