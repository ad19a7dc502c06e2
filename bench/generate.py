"""A cluster of any size, the same every time, as an API server would list it.

    python -m bench.generate --nodes 1000 --pods 30 > cluster.json

Pods look like real ones (about 5 KB each, managed fields and all) and come in workloads: DaemonSets
on every node, many Deployments of very different sizes, StatefulSets, Jobs. Some are tied to pools,
keep apart from their like, or ask to be spread. Nodes fill unevenly and a few have only just
joined, so that every strategy has work to do.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import IO

from bench.templates import (
    ANY,
    HOSTNAME,
    INIT,
    POOL,
    POOLS,
    PRIORITIES,
    SMALL,
    ZONE,
    ZONES,
    Object,
    Template,
    container,
    managed_fields,
    pod_object,
    required_nodes,
    status,
    token_volume,
    tolerates,
)
from resettle.model.kinds import KINDS
from resettle.model.workloads import WORKLOAD_KINDS

DAEMON_SETS = 6
LARGE_WORKLOADS = 10
NODES_PER_TEAM = 5
NODE_CPU = 16_000
NODE_PODS = 110
DISKS = "disks.csi.example"
LISTS = {name: kind.api_version for name, kind in KINDS.items() if name not in WORKLOAD_KINDS}
"""The kinds of a generated cluster, and their API versions."""


@dataclass(frozen=True)
class Shape:
    """How large a cluster is, and how much of what it holds."""

    nodes: int = 100
    pods_per_node: int = 30
    anti_affinity: float = 0.10
    spread: float = 0.20
    node_affinity: float = 0.15
    pinned: float = 0.03
    """Workloads whose pods cannot leave their node, as with local volumes."""
    budgets: float = 0.10
    tainted_nodes: float = 0.03
    new_nodes: float = 0.08
    """Nodes that have only just joined: few pods have landed on them yet."""
    skew: float = 4
    """How much likelier the first node is to be chosen than the last; 1 is even."""
    pods_per_template: int = 30
    templates: int | None = None
    """How many workloads there are besides DaemonSets, where pods_per_template should not say."""
    namespaces: int | None = None
    seed: int = 753


WORST = {
    "own-template": {"pods_per_template": 1},
    "one-template": {"templates": 1},
    "many-spreads": {"templates": 1000, "namespaces": 1, "spread": 1.0},
    "anti-affinity": {"anti_affinity": 1.0},
}
"""Clusters that are hard on a planner, by what is changed in the usual one."""


@dataclass
class Workload:
    """What the pods of one owner share."""

    kind: str
    name: str
    namespace: str
    cpu: int
    labels: dict[str, str]
    running: Template
    succeeded: Template
    made: int = 0
    claims: list[str] = field(default_factory=list)


class Generator:
    """Draws nodes and pods one after the other from one stream of numbers."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._lots = random.Random(shape.seed)
        self.names = [f"node-{i:05d}.cluster.example" for i in range(shape.nodes)]
        self._weights = list(itertools.accumulate(self._weight(i) for i in range(shape.nodes)))
        self._cpu_left = [NODE_CPU] * shape.nodes
        self._room_left = [NODE_PODS] * shape.nodes
        self._workloads: list[Workload] = []

    def lists(self) -> Iterator[tuple[str, str]]:
        """Every object of the cluster as its kind and its JSON, in the order of `LISTS`."""
        for node in self.nodes():
            yield "Node", compact(node)
        for pod in self.pods():
            yield "Pod", pod
        teams = sorted({workload.namespace for workload in self._workloads} | {"default"})
        for team in teams:
            yield "Namespace", compact({"metadata": {"name": team, "labels": {"team": team}}})
        for workload in self._workloads:
            for claim in workload.claims:
                yield "PersistentVolumeClaim", compact(_claim(claim, workload.namespace))
        for workload in self._workloads:
            for claim in workload.claims:
                yield "PersistentVolume", compact(_volume(claim, workload.namespace))
        for name in self.names:
            yield "CSINode", compact(_attach_limit(name))
        # Budgets that forbid nothing: descheduler's dry run ignores them, its plan would differ.
        for workload in self._workloads:
            if workload.kind == "Deployment" and self._lots.random() < self.shape.budgets:
                yield "PodDisruptionBudget", compact(_budget(workload))
        for name, value in PRIORITIES.items():
            yield "PriorityClass", compact({"metadata": {"name": name}, "value": value})

    def nodes(self) -> Iterator[Object]:
        """All nodes, by name."""
        for i, name in enumerate(self.names):
            taints = []
            if self._lots.random() < self.shape.tainted_nodes:
                taints.append({"key": "dedicated", "value": "batch", "effect": "NoSchedule"})
            offer = {
                "cpu": str(NODE_CPU // 1000),
                "ephemeral-storage": "100Gi",
                "hugepages-2Mi": "0",
                "memory": "64Gi",
                "pods": str(NODE_PODS),
            }
            yield {
                "metadata": {
                    "name": name,
                    "uid": self._uid(),
                    "resourceVersion": "1",
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": {
                        POOL: POOLS[i % 7 % len(POOLS)],
                        "kubernetes.io/arch": "amd64",
                        HOSTNAME: name,
                        "kubernetes.io/os": "linux",
                        ZONE: ZONES[i % len(ZONES)],
                    },
                },
                "spec": {"taints": taints} if taints else {},
                "status": {
                    "capacity": offer,
                    "allocatable": offer,
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "lastHeartbeatTime": "2026-01-31T11:59:00Z",
                            "lastTransitionTime": "2026-01-01T00:01:00Z",
                        }
                    ],
                },
            }

    def pods(self) -> Iterator[str]:
        """All pods as JSON, by namespace and workload as an API server lists them."""
        shape = self.shape
        placed: list[tuple[Workload, int]] = []
        for i in range(DAEMON_SETS):
            daemon = self._workload("DaemonSet", i)
            placed += [(daemon, at) for at in range(shape.nodes)]
            self._cpu_left = [left - daemon.cpu for left in self._cpu_left]
        rest = max(0, shape.nodes * shape.pods_per_node - len(placed))
        count = shape.templates or max(1, rest // shape.pods_per_template)
        others = self._draw_workloads(min(count, rest))
        weights = [1 / (rank + 3) ** 0.8 for rank in range(len(others))]
        more = self._lots.choices(others, weights, k=rest - len(others)) if others else []
        placed += [(workload, self._place(workload)) for workload in (*others, *more)]
        placed.sort(key=lambda pair: (pair[0].namespace, pair[0].name))
        for workload, at in placed:
            yield self._pod(workload, self.names[at])

    def _weight(self, i: int) -> float:
        """How likely a pod is to land on the node, relative to the last one; linear in between."""
        shape = self.shape
        every = round(1 / shape.new_nodes) if shape.new_nodes else shape.nodes + 1
        if i % every == every - 1:
            return 0.05
        return shape.skew - (shape.skew - 1) * i / shape.nodes

    def _place(self, workload: Workload) -> int:
        """A node with room, if a few tries find one: a scheduler would not have overfilled it."""
        at = 0
        for _ in range(20):
            (at,) = self._lots.choices(range(self.shape.nodes), cum_weights=self._weights)
            if self._cpu_left[at] >= workload.cpu and self._room_left[at]:
                break
        self._cpu_left[at] -= workload.cpu
        self._room_left[at] -= 1
        return at

    def _draw_workloads(self, count: int) -> list[Workload]:
        kinds = self._lots.choices(("Deployment", "StatefulSet", "Job"), (70, 15, 15), k=count)
        return [self._workload(kind, i) for i, kind in enumerate(kinds)]

    def _workload(self, kind: str, i: int) -> Workload:
        lots = self._lots
        app = f"{kind.lower()}-{i:05d}"
        teams = self.shape.namespaces or max(10, self.shape.nodes // NODES_PER_TEAM)
        namespace = "kube-system" if kind == "DaemonSet" else f"team-{lots.randrange(teams):04d}"
        digest = f"{lots.getrandbits(40):010x}"
        owner = f"{app}-{digest}" if kind == "Deployment" else app
        labels = {
            "app": app,
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/version": f"v1.{lots.randrange(40)}",
            "team": namespace,
            "tier": lots.choice(("api", "db", "web", "worker")),
        }
        revision = "pod-template-hash" if kind == "Deployment" else "controller-revision-hash"
        labels[revision] = digest
        if kind == "StatefulSet":
            labels["statefulset.kubernetes.io/pod-name"] = "@name@"
        labels = dict(sorted(labels.items()))
        # The workloads with the most pods come first, and are made of small ones.
        main = container(lots, app, SMALL if kind == "DaemonSet" or i < LARGE_WORKLOADS else ANY)
        first = [container(lots, f"{app}-init", INIT)] if lots.random() < 0.15 else []
        pod = pod_object(
            owner_kind="ReplicaSet" if kind == "Deployment" else kind,
            owner=owner,
            owner_uid=self._uid(),
            namespace=namespace,
            labels=labels,
            managed=managed_fields(labels),
            spec=self._spec(kind, app, first, main),
        )
        workload = Workload(
            kind,
            owner,
            namespace,
            int(main["resources"]["requests"]["cpu"].removesuffix("m")),
            labels,
            Template({**pod, "status": status("Running", first, main)}),
            Template({**pod, "status": status("Succeeded", first, main)}),
        )
        self._workloads.append(workload)
        return workload

    def _spec(self, kind: str, app: str, first: list[Object], main: Object) -> Object:
        lots, shape = self._lots, self.shape
        volumes: list[Object] = [
            {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
            token_volume(),
        ]
        if kind == "StatefulSet":
            claim = {"claimName": "data-@name@"}
            volumes.append({"name": "data", "persistentVolumeClaim": claim})
        elif lots.random() < 0.2:
            volumes.append({"name": "scratch", "emptyDir": {}})
        selector = {"matchLabels": {"app": app}}
        affinity: Object = {}
        spreads: list[Object] = []
        tolerations = [
            tolerates("node.kubernetes.io/not-ready"),
            tolerates("node.kubernetes.io/unreachable"),
        ]
        if kind == "DaemonSet":
            tolerations = [{"operator": "Exists"}]
            affinity["nodeAffinity"] = required_nodes("matchFields", "metadata.name", "@node@")
        else:
            if lots.random() < shape.pinned:
                affinity["nodeAffinity"] = required_nodes("matchFields", "metadata.name", "@node@")
            elif lots.random() < shape.node_affinity:
                pools = lots.sample(POOLS, 2)
                affinity["nodeAffinity"] = required_nodes("matchExpressions", POOL, *pools)
            if lots.random() < shape.anti_affinity:
                term = {"labelSelector": selector, "topologyKey": HOSTNAME}
                affinity["podAntiAffinity"] = {
                    "requiredDuringSchedulingIgnoredDuringExecution": [term]
                }
            if lots.random() < shape.spread:
                spreads = [
                    {
                        "maxSkew": 1,
                        "topologyKey": lots.choice((ZONE, ZONE, HOSTNAME)),
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": selector,
                    }
                ]
        (priority,) = lots.choices(list(PRIORITIES), (70, 20, 10))
        return {
            "volumes": volumes,
            **({"initContainers": first} if first else {}),
            "containers": [main],
            "restartPolicy": "OnFailure" if kind == "Job" else "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": app,
            "nodeName": "@node@",
            "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
            **({"affinity": affinity} if affinity else {}),
            "schedulerName": "default-scheduler",
            "tolerations": tolerations,
            "priorityClassName": priority,
            "priority": PRIORITIES[priority],
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            **({"topologySpreadConstraints": spreads} if spreads else {}),
        }

    def _pod(self, workload: Workload, node: str) -> str:
        lots = self._lots
        suffix = f"{lots.getrandbits(25):07x}"[:5]
        ordinal = workload.made
        workload.made += 1
        name = f"{workload.name}-{suffix}{ordinal:x}"
        if workload.kind == "StatefulSet":
            name = f"{workload.name}-{ordinal}"
            workload.claims.append(f"data-{name}")
        created = f"2026-01-{lots.randrange(1, 29):02d}T{lots.randrange(24):02d}:"
        done = workload.kind == "Job" and lots.random() < 0.4
        (restarts,) = lots.choices((0, 1, 3, 12, 250), (850, 90, 40, 15, 5))
        return (workload.succeeded if done else workload.running).filled(
            name=name,
            uid=self._uid(),
            version=str(lots.randrange(10**9)),
            created=f"{created}00:00Z",
            started=f"{created}{lots.randrange(10, 60)}:00Z",
            ip=f"192.0.2.{lots.randrange(1, 255)}",
            suffix=suffix,
            node=node,
            restarts=str(restarts),
            digest=f"{lots.getrandbits(256):064x}",
        )

    def _uid(self) -> str:
        digits = f"{self._lots.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def compact(value: Object) -> str:
    """JSON without a space too many, as API servers write it."""
    return json.dumps(value, separators=(",", ":"))


def _claim(name: str, namespace: str) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "standard",
            "volumeName": f"{namespace}-{name}",
        },
        "status": {"phase": "Bound"},
    }


def _volume(claim: str, namespace: str) -> Object:
    name = f"{namespace}-{claim}"
    return {
        "metadata": {"name": name},
        "spec": {"csi": {"driver": DISKS, "volumeHandle": name}},
    }


def _attach_limit(node: str) -> Object:
    drivers = [{"name": DISKS, "nodeID": node, "allocatable": {"count": 39}}]
    return {"metadata": {"name": node}, "spec": {"drivers": drivers}}


def _budget(workload: Workload) -> Object:
    count = workload.made
    return {
        "metadata": {"name": workload.name, "namespace": workload.namespace, "generation": 1},
        "spec": {
            "maxUnavailable": "100%",
            "selector": {"matchLabels": {"app": workload.labels["app"]}},
        },
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": count,
            "currentHealthy": count,
            "desiredHealthy": 0,
            "expectedPods": count,
        },
    }


def write(shape: Shape, out: IO[str]) -> None:
    """Writes the cluster as one List, which has its items say what they are."""
    out.write('{"apiVersion":"v1","kind":"List","items":[')
    for i, (kind, text) in enumerate(Generator(shape).lists()):
        head = f'{{"apiVersion":"{LISTS[kind]}","kind":"{kind}",'
        out.write(("," if i else "") + head + text[1:])
    out.write("]}\n")


def add_shape_arguments(words: argparse.ArgumentParser) -> None:
    """Gives a command line the words that describe a cluster."""
    words.add_argument("--nodes", type=int, default=100)
    words.add_argument("--pods", type=int, default=30, help="pods on each node, on average")
    words.add_argument("--worst", choices=WORST, help="a cluster that is hard on a planner")
    words.add_argument("--seed", type=int, default=753)


def shape_of(nodes: int, pods: int, worst: str | None = None, seed: int = 753) -> Shape:
    """The usual cluster of a size, or one of the hard ones."""
    usual = Shape(nodes=nodes, pods_per_node=pods, seed=seed)
    return replace(usual, **WORST[worst]) if worst else usual  # type: ignore[arg-type]


def main() -> None:
    """Writes a cluster to stdout."""
    words = argparse.ArgumentParser(description="Write a generated cluster as JSON to stdout.")
    add_shape_arguments(words)
    chosen = words.parse_args()
    write(shape_of(chosen.nodes, chosen.pods, chosen.worst, chosen.seed), sys.stdout)


if __name__ == "__main__":
    main()
