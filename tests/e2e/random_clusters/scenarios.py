"""Random clusters that change over time: what exists at first, and what changes afterwards.

Pods are scheduled while some nodes, labels and taints are still missing. Later changes leave pods
on nodes that the scheduler would not choose any more, as in real clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Any, NamedTuple

from resettle.testing import node, spread
from resettle.testing.builders import HOSTNAME, ZONE, Object, merge_objects
from resettle.testing.controllers.builders import (
    deployment,
    disruption_budget,
    replica_set,
    stateful_set,
)
from tests.e2e.random_clusters.policies import PREFERRED, REQUIRED, random_policy
from tools.control_plane.plane import MANAGED

RACK = "example.com/rack"
ZONES = "abc"
BATCH = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
PREFERABLY_EMPTY = {"key": "worn", "value": "yes", "effect": "PreferNoSchedule"}
GIB_PER_CPU = 4
LINGERING = {"example.com/lingers": "yes"}
"""A pod takes a moment to end, and its replacement is scheduled meanwhile, as in real clusters."""


class Scenario(NamedTuple):
    """A cluster, its later changes, and the policy that plans for it."""

    namespace: str
    nodes: list[Object]
    workloads: list[Object]
    budgets: list[Object]
    late_nodes: list[Object]
    changes: dict[str, Object]
    """Later changes to nodes, by node name."""
    policy: Object

    @property
    def replicas(self) -> int:
        """The number of replicas of all workloads."""
        return sum(workload["spec"]["replicas"] for workload in self.workloads)


def random_scenario(seed: int) -> Scenario:
    """The scenario of this seed."""
    rng = Random(seed)
    name = f"scenario-{seed}"
    zones = ZONES[: rng.choice([2, 3, 3])]
    first, late = rng.randint(4, 8), rng.randint(1, 3)
    nodes = [_random_node(f"{name}-n{i}", zones[i % len(zones)], rng) for i in range(first + late)]
    # Sorted, the late nodes are all in one zone, and often the first nodes of that zone.
    if rng.random() < 0.5:
        nodes.sort(key=lambda node: node["metadata"]["labels"][ZONE])
    early, late_nodes = nodes[:first], nodes[first:]
    workloads = list(_workloads(name, early, rng))
    return Scenario(
        namespace=name,
        nodes=early,
        workloads=workloads,
        budgets=[_budget(workload, rng) for workload in workloads if rng.random() < 0.4],
        late_nodes=late_nodes,
        changes=_changes([node["metadata"]["name"] for node in nodes], first, rng),
        policy=random_policy(rng),
    )


def _random_node(name: str, zone: str, rng: Random) -> Object:
    cpus = rng.choice([4, 4, 8])
    labels = {"pool": rng.choice(["blue", "blue", "green"])}
    memory = f"{cpus * GIB_PER_CPU}Gi"
    created = node(name, zone=zone, labels=labels, cpu=str(cpus), memory=memory).node
    return merge_objects(created, {"metadata": {"annotations": MANAGED}})


# -- workloads -------------------------------------------------------------------------------------


def _affinity(kind: str, terms: Any) -> Object:
    return {"affinity": {kind: terms}}


def _in_pools(*pools: str) -> Object:
    return {"matchExpressions": [{"key": "pool", "operator": "In", "values": list(pools)}]}


def _apart(app: str, key: str) -> Object:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def _random_constraints(app: str, rng: Random) -> Object:
    """Random scheduling constraints of a workload."""
    like = {"app": app}
    choices: Sequence[Object] = (
        *[{}] * 4,
        {"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch"}]},
        {"tolerations": [{"operator": "Exists"}]},
        _affinity("nodeAffinity", {REQUIRED: {"nodeSelectorTerms": [_in_pools("blue", "green")]}}),
        _affinity("nodeAffinity", {PREFERRED: [{"weight": 40, "preference": _in_pools("gold")}]}),
        _affinity("podAntiAffinity", {REQUIRED: [_apart(app, RACK)]}),
        _affinity("podAntiAffinity", {REQUIRED: [_apart(app, HOSTNAME)]}),
        _affinity(
            "podAntiAffinity",
            {PREFERRED: [{"weight": 50, "podAffinityTerm": _apart(app, HOSTNAME)}]},
        ),
        {"spread": [spread(labels=like)]},
        {"spread": [spread(labels=like), spread(labels=like, key=HOSTNAME, when="ScheduleAnyway")]},
        {
            "spread": [
                spread(labels=like, max_skew=2),
                spread(labels=like, key=HOSTNAME, max_skew=2),
            ]
        },
        {"spread": [spread(labels=like, when="ScheduleAnyway")]},
    )
    return rng.choice(choices)


def _workloads(namespace: str, nodes: Sequence[Object], rng: Random) -> Iterator[Object]:
    """Workloads that together request a random share of the nodes."""
    offered = sum(int(node["status"]["allocatable"]["cpu"]) for node in nodes) * 1000
    left = offered * rng.uniform(0.35, 0.65)
    for i in count(1):
        if left <= 0:
            return
        name = f"app-{i}"
        replicas = rng.randint(2, len(nodes))
        milli = rng.choice([100, 200, 250, 400, 500, 800])
        left -= replicas * milli
        build = rng.choice([deployment, deployment, replica_set, stateful_set])
        more: Object = {"parallel": True} if build is stateful_set else {}
        yield build(
            name,
            namespace=namespace,
            replicas=replicas,
            cpu=f"{milli}m",
            memory=f"{round(milli * rng.choice([0.5, 1, 2, 3]))}Mi",
            labels=LINGERING,
            **_random_constraints(name, rng),
            **more,
        )


def _budget(workload: Object, rng: Random) -> Object:
    name = workload["metadata"]["name"]
    allowed: Object = rng.choice(
        [{"max_unavailable": 1}, {"max_unavailable": "50%"}, {"min_available": 1}]
    )
    return disruption_budget(name, namespace=workload["metadata"]["namespace"], app=name, **allowed)


# -- later changes ---------------------------------------------------------------------------------


def _changes(names: Sequence[str], first: int, rng: Random) -> dict[str, Object]:
    """Changes to some nodes after all pods are scheduled; the first nodes have pods."""
    changes: dict[str, Object] = {name: {} for name in names}
    with_pods = names[:first]

    def add_change(name: str, change: Object) -> None:
        changes[name] = merge_objects(changes[name], change)

    if rng.random() < 0.5:
        for i, name in enumerate(names):
            add_change(name, {"metadata": {"labels": {RACK: f"r{i // 2}"}}})
    if rng.random() < 0.5:
        add_change(rng.choice(with_pods), {"metadata": {"labels": {"pool": "red"}}})
    if rng.random() < 0.5:
        add_change(rng.choice(names), {"metadata": {"labels": {"pool": "gold"}}})
    if rng.random() < 0.6:
        add_change(
            rng.choice(with_pods),
            {"spec": {"taints": [rng.choice([BATCH, BATCH, PREFERABLY_EMPTY])]}},
        )
    if rng.random() < 0.2:
        add_change(rng.choice(with_pods), {"spec": {"unschedulable": True}})
    return {name: change for name, change in changes.items() if change}
