"""Small clusters with something in them for every strategy: the same one for the same seed.

They are looked at as of `NOW`. Ages keep well away from the limits that the policies name, so that
a few seconds more or less change no decision.
"""

from __future__ import annotations

import hashlib
import json
from random import Random
from typing import Any

from resettle.testing import (
    NodeBuilder,
    budget,
    claim,
    cluster,
    namespace,
    node,
    node_metrics,
    pod,
    pod_metrics,
    priority_class,
    spread,
)

Object = dict[str, Any]
AGES = ("6m", "50m", "3h", "2d", "5d", "12d")
ZONES = ("east", "west", "north")
POOL = "pool"
HOSTNAME = "kubernetes.io/hostname"


def estate(seed: int) -> list[Object]:
    """The objects of a cluster: nine nodes, about eighty pods."""
    return Builder(seed).objects()


def digest(objects: list[Object]) -> str:
    """By which a record knows the cluster it was made on."""
    return hashlib.sha256(json.dumps(objects, sort_keys=True).encode()).hexdigest()[:16]


class Builder:
    """Draws one estate."""

    def __init__(self, seed: int) -> None:
        self._lots = Random(seed)
        self._nodes = list(self._drawn_nodes())
        self._pods: dict[str, list[Object]] = {
            builder.node["metadata"]["name"]: [] for builder in self._nodes
        }

    def _drawn_nodes(self) -> list[NodeBuilder]:
        general, batch = {POOL: "general"}, {POOL: "batch"}
        size = {"cpu": "8", "memory": "32Gi", "pods": 30}
        plain = [
            node(f"node-{i}", zone=ZONES[i % 3], labels=general, **size)  # type: ignore[arg-type]
            for i in range(1, 6)
        ]
        return [
            *plain,
            node("batch-1", zone="east", labels=batch, taints=["dedicated=batch:NoSchedule"]),
            node("gpu-1", zone="west", labels=general, taints=["dedicated=gpu:NoSchedule"]),
            node("soft-1", zone="north", labels=general, taints=["spot=true:PreferNoSchedule"]),
            node("closed-1", zone="east", labels=general, cordoned=True),
        ]

    def objects(self) -> list[Object]:
        """All that is in the cluster."""
        self._fill()
        held = [
            builder.holding(*self._pods[builder.node["metadata"]["name"]])
            for builder in self._nodes
        ]
        return cluster(*held, *self._surroundings(held)).objects

    # -- what runs --------------------------------------------------------------------------------

    def _fill(self) -> None:
        lots = self._lots
        crowded = ["node-1", "node-1", "node-1", "node-2", "node-2", "node-3", "batch-1", "soft-1"]
        for index in range(16):
            name = f"app-{index}"
            home = lots.choice(["shop", "books", "databases", "kube-system"])
            labels = {"app": name, "tier": lots.choice(["web", "web", "back"])}
            traits = self._traits(name, home, labels)
            for copy in range(lots.randint(1, 6)):
                self._place(
                    lots.choice([*crowded, "node-4", "gpu-1"]),
                    pod(
                        f"{name}-{copy}",
                        namespace=home,
                        owner=f"{'StatefulSet' if index % 7 == 3 else 'ReplicaSet'}/{name}",
                        labels=labels,
                        cpu=lots.choice(["50m", "200m", "400m", "900m"]),
                        memory=lots.choice(["64Mi", "512Mi", "1Gi"]),
                        age=lots.choice(AGES),
                        restarts=lots.choice([0, 0, 0, 3, 40, 130]),
                        **traits,
                    ),
                )
        for name in self._pods:
            self._place(
                name, pod(f"agent-{name}", namespace="kube-system", owner="DaemonSet/agent")
            )
        self._broken_pods()

    def _traits(self, name: str, home: str, labels: dict[str, str]) -> dict[str, Any]:
        """What is special about a workload, if anything is."""
        claimed = {"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-data"}}
        wants_batch = {"key": POOL, "operator": "In", "values": ["batch"]}
        wants_general = {"key": POOL, "operator": "In", "values": ["general"]}
        both = [spread(labels={"app": name}, when=when) for when in ("DoNotSchedule",)]
        return self._lots.choice(
            [
                {},
                {},
                {"away_from": {"app": name}},
                {"away_from": {"app": name}},
                {"spread": both},
                {"spread": [spread(labels={"app": name}, when="ScheduleAnyway", max_skew=2)]},
                {"spread": [spread(labels={"app": name}, key=HOSTNAME)]},
                {"volumes": [{"name": "scratch", "emptyDir": {}}]},
                {"volumes": [claimed]},
                {"priority": 20_000},
                {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
                {"affinity": _required(wants_general)},
                {"affinity": _preferred(wants_batch)},
                {"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}},
            ]
        )

    def _broken_pods(self) -> None:
        lots = self._lots
        reasons = ["NodeShutdown", "NodeAffinity", "Evicted", "ContainerStatusUnknown"]
        for index in range(8):
            owner = lots.choice(["ReplicaSet/broken", "Job/import", None])
            status = {"reason": lots.choice(reasons)}
            failed = pod(
                f"failed-{index}",
                namespace="shop",
                owner=owner,
                phase="Failed",
                age=lots.choice(AGES),
                status=status,
            )
            self._place(lots.choice(list(self._pods)), failed)
        for index in range(4):
            waiting = {"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "Hold"}}}
            pending = pod(
                f"pending-{index}",
                namespace="books",
                owner="ReplicaSet/pending",
                phase="Pending",
                age=lots.choice(AGES),
                status={"containerStatuses": [waiting]},
            )
            self._place(lots.choice(list(self._pods)), pending)

    def _place(self, name: str, made: Object) -> None:
        self._pods[name].append(made)

    # -- what is around ---------------------------------------------------------------------------

    def _surroundings(self, held: list[NodeBuilder]) -> list[Object]:
        lots = self._lots
        around = [
            namespace("shop", team="shop"),
            namespace("books", team="books"),
            namespace("databases"),
            namespace("kube-system"),
            priority_class("important", 10_000),
        ]
        pods = [obj for builder in held for obj in builder.pods]
        for index in (0, 5, 9):
            place = {obj["metadata"]["namespace"] for obj in _of(pods, f"app-{index}")}
            around += [
                budget(f"app-{index}", allowed=1, labels={"app": f"app-{index}"}, namespace=item)
                for item in sorted(place)
            ]
        around += [
            claim(volume["persistentVolumeClaim"]["claimName"], namespace=home)
            for home, volume in sorted(
                {
                    (obj["metadata"]["namespace"], json.dumps(volume))
                    for obj in pods
                    for volume in obj["spec"]["volumes"]
                    if "persistentVolumeClaim" in volume
                }
            )
            for volume in [json.loads(volume)]
        ]
        for builder in held:
            name = builder.node["metadata"]["name"]
            share = lots.choice([5, 15, 40, 70, 85])
            millis = 80 * share if name.startswith("node") else 40 * share
            around.append(node_metrics(name, cpu=f"{millis}m", memory=f"{share // 4}Gi"))
        around += [
            pod_metrics(
                obj["metadata"]["name"],
                namespace=obj["metadata"]["namespace"],
                cpu=f"{lots.choice([20, 150, 600])}m",
                memory=f"{lots.choice([50, 400])}Mi",
            )
            for obj in pods
        ]
        return around


def _of(pods: list[Object], app: str) -> list[Object]:
    return [obj for obj in pods if obj["metadata"]["labels"].get("app") == app]


def _required(expression: Object) -> Object:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _preferred(expression: Object) -> Object:
    term = {"weight": 10, "preference": {"matchExpressions": [expression]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
