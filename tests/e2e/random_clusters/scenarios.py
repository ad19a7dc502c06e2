"""Random clusters as they grow: what is there at first, and what happens to it afterwards.

Pods are placed by the scheduler while some nodes are not there yet, and labels and taints not yet
written. What comes later leaves them in places that nobody would choose today, as in life.
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
from tests.e2e.random_clusters.policies import PREFERRED, REQUIRED, policy_of
from tools.control_plane.plane import MANAGED

RACK = "example.com/rack"
ZONES = "abc"
BATCH = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
WORN = {"key": "worn", "value": "yes", "effect": "PreferNoSchedule"}
GIB_PER_CPU = 4
LINGERING = {"example.com/lingers": "yes"}
"""A pod takes a moment to end, and its replacement is placed meanwhile, as in life."""


class Grown(NamedTuple):
    """A cluster from its beginnings to the day on which somebody tidies it up."""

    namespace: str
    nodes: list[Object]
    workloads: list[Object]
    budgets: list[Object]
    latecomers: list[Object]
    changes: dict[str, Object]
    """What is laid over nodes later, by their names."""
    policy: Object

    @property
    def replicas(self) -> int:
        """How many pods there should be."""
        return sum(it["spec"]["replicas"] for it in self.workloads)


def grown(seed: int) -> Grown:
    """The cluster of this number."""
    lots = Random(seed)
    name = f"grown-{seed}"
    zones = ZONES[: lots.choice([2, 3, 3])]
    first, late = lots.randint(4, 8), lots.randint(1, 3)
    made = [_machine(f"{name}-n{i}", zones[i % len(zones)], lots) for i in range(first + late)]
    # Sorted, the latecomers are all of one zone, and often they are the first there.
    if lots.random() < 0.5:
        made.sort(key=lambda it: it["metadata"]["labels"][ZONE])
    there, latecomers = made[:first], made[first:]
    workloads = list(_workloads(name, there, lots))
    return Grown(
        namespace=name,
        nodes=there,
        workloads=workloads,
        budgets=[_budget(it, lots) for it in workloads if lots.random() < 0.4],
        latecomers=latecomers,
        changes=_changes([it["metadata"]["name"] for it in made], first, lots),
        policy=policy_of(lots),
    )


def _machine(name: str, zone: str, lots: Random) -> Object:
    cpus = lots.choice([4, 4, 8])
    labels = {"pool": lots.choice(["blue", "blue", "green"])}
    memory = f"{cpus * GIB_PER_CPU}Gi"
    made = node(name, zone=zone, labels=labels, cpu=str(cpus), memory=memory).node
    return merge_objects(made, {"metadata": {"annotations": MANAGED}})


# -- who lives there -------------------------------------------------------------------------------


def _affinity(kind: str, wish: Any) -> Object:
    return {"affinity": {kind: wish}}


def _in_pools(*pools: str) -> Object:
    return {"matchExpressions": [{"key": "pool", "operator": "In", "values": list(pools)}]}


def _apart(app: str, key: str) -> Object:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def _wishes(app: str, lots: Random) -> Object:
    """What a workload asks of its places."""
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
    return lots.choice(choices)


def _workloads(namespace: str, nodes: Sequence[Object], lots: Random) -> Iterator[Object]:
    """Workloads until the nodes are about as full as they should be."""
    offered = sum(int(it["status"]["allocatable"]["cpu"]) for it in nodes) * 1000
    left = offered * lots.uniform(0.35, 0.65)
    for i in count(1):
        if left <= 0:
            return
        name = f"app-{i}"
        replicas = lots.randint(2, len(nodes))
        milli = lots.choice([100, 200, 250, 400, 500, 800])
        left -= replicas * milli
        make = lots.choice([deployment, deployment, replica_set, stateful_set])
        more: Object = {"parallel": True} if make is stateful_set else {}
        yield make(
            name,
            namespace=namespace,
            replicas=replicas,
            cpu=f"{milli}m",
            memory=f"{round(milli * lots.choice([0.5, 1, 2, 3]))}Mi",
            labels=LINGERING,
            **_wishes(name, lots),
            **more,
        )


def _budget(workload: Object, lots: Random) -> Object:
    name = workload["metadata"]["name"]
    allowed: Object = lots.choice(
        [{"max_unavailable": 1}, {"max_unavailable": "50%"}, {"min_available": 1}]
    )
    return disruption_budget(name, namespace=workload["metadata"]["namespace"], app=name, **allowed)


# -- what happens later ----------------------------------------------------------------------------


def _changes(names: Sequence[str], first: int, lots: Random) -> dict[str, Object]:
    """What is laid over some nodes once everybody has a place; the first of them are lived on."""
    found: dict[str, Object] = {name: {} for name in names}
    lived_on = names[:first]

    def befalls(name: str, change: Object) -> None:
        found[name] = merge_objects(found[name], change)

    if lots.random() < 0.5:
        for i, name in enumerate(names):
            befalls(name, {"metadata": {"labels": {RACK: f"r{i // 2}"}}})
    if lots.random() < 0.5:
        befalls(lots.choice(lived_on), {"metadata": {"labels": {"pool": "red"}}})
    if lots.random() < 0.5:
        befalls(lots.choice(names), {"metadata": {"labels": {"pool": "gold"}}})
    if lots.random() < 0.6:
        befalls(lots.choice(lived_on), {"spec": {"taints": [lots.choice([BATCH, BATCH, WORN])]}})
    if lots.random() < 0.2:
        befalls(lots.choice(lived_on), {"spec": {"unschedulable": True}})
    return {name: change for name, change in found.items() if change}
