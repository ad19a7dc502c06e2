"""A cluster of any size, the same every time, as an API server would list it.

    python -m bench.generate --nodes 1000 --pods 30 > cluster.json

Pods look like real ones (about 5 KB each, managed fields and all) and come in workloads: DaemonSets
on every node, many Deployments of very different sizes, StatefulSets, Jobs. Some are tied to pools,
keep apart from their like, or ask to be spread; placement is skewed, so that there is work to do.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
ZONES = ("zone-a", "zone-b", "zone-c")
POOLS = ("general", "memory", "compute")
DAEMON_SETS = 6
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
POOL = "example.com/pool"


@dataclass(frozen=True)
class Shape:
    """How large a cluster is, and how much of what it holds."""

    nodes: int = 100
    pods_per_node: int = 30
    anti_affinity: float = 0.10
    spread: float = 0.20
    node_affinity: float = 0.15
    tainted_nodes: float = 0.03
    skew: float = 1.6
    """How much likelier the first node is to be chosen than the last; 1 is even."""
    pods_per_template: int = 30
    seed: int = 753


@dataclass
class Workload:
    """What the pods of one owner share."""

    kind: str
    name: str
    namespace: str
    uid: str
    labels: dict[str, str]
    spec: Object
    managed: list[Object] = field(default_factory=list)
    made: int = 0


class Generator:
    """Draws nodes and pods one after the other from one stream of numbers."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._lots = random.Random(shape.seed)
        self.names = [f"node-{i:05d}.cluster.example" for i in range(shape.nodes)]

    def nodes(self) -> Iterator[Object]:
        """All nodes, by name."""
        for i, name in enumerate(self.names):
            taints = []
            if self._lots.random() < self.shape.tainted_nodes:
                taints.append({"key": "dedicated", "value": "batch", "effect": "NoSchedule"})
            offer = {
                "cpu": "16",
                "ephemeral-storage": "100Gi",
                "hugepages-2Mi": "0",
                "memory": "64Gi",
                "pods": "110",
            }
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "uid": self._uid(),
                    "resourceVersion": "1",
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": {
                        HOSTNAME: name,
                        "kubernetes.io/arch": "amd64",
                        "kubernetes.io/os": "linux",
                        ZONE: ZONES[i % len(ZONES)],
                        POOL: POOLS[i % 7 % len(POOLS)],
                    },
                },
                "spec": {"taints": taints} if taints else {},
                "status": {
                    "allocatable": offer,
                    "capacity": offer,
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

    def pods(self) -> Iterator[Object]:
        """All pods, by namespace and workload as an API server lists them."""
        placed: list[tuple[Workload, int]] = []
        for i in range(DAEMON_SETS):
            daemon = self._workload("DaemonSet", i)
            placed += [(daemon, at) for at in range(self.shape.nodes)]
        rest = self.shape.nodes * self.shape.pods_per_node - len(placed)
        others = self._workloads(max(1, rest // self.shape.pods_per_template))
        weights = [1 / (rank + 3) ** 0.8 for rank in range(len(others))]
        for workload in self._lots.choices(others, weights, k=rest):
            placed.append((workload, self._skewed()))
        placed.sort(key=lambda pair: (pair[0].namespace, pair[0].name))
        for workload, at in placed:
            yield self._pod(workload, self.names[at])

    def _skewed(self) -> int:
        return int(self._lots.random() ** self.shape.skew * self.shape.nodes)

    def _workloads(self, count: int) -> list[Workload]:
        kinds = self._lots.choices(("Deployment", "StatefulSet", "Job"), (70, 15, 15), k=count)
        return [self._workload(kind, i) for i, kind in enumerate(kinds)]

    def _workload(self, kind: str, i: int) -> Workload:
        lots, shape = self._lots, self.shape
        app = f"{kind.lower()}-{i:05d}"
        namespace = "kube-system" if kind == "DaemonSet" else f"team-{lots.randrange(200):03d}"
        digest = f"{lots.getrandbits(40):010x}"
        owner = f"{app}-{digest}" if kind == "Deployment" else app
        labels = {
            "app": app,
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/version": f"v1.{lots.randrange(40)}",
            "team": namespace,
            "tier": lots.choice(("api", "db", "web", "worker")),
        }
        if kind == "Deployment":
            labels["pod-template-hash"] = digest
        else:
            labels["controller-revision-hash"] = digest
        labels = dict(sorted(labels.items()))
        selector = {"matchLabels": {"app": app}}
        spec: Object = {
            "volumes": [
                {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
                _token_volume(),
            ],
            "containers": [self._container(app)],
            "restartPolicy": "OnFailure" if kind == "Job" else "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": app,
            "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
            "schedulerName": "default-scheduler",
            "priority": lots.choices((0, 1000, 100000), (70, 20, 10))[0],
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [
                _tolerates("node.kubernetes.io/not-ready"),
                _tolerates("node.kubernetes.io/unreachable"),
            ],
        }
        affinity: Object = {}
        if kind == "DaemonSet":
            spec["tolerations"] = [{"operator": "Exists"}]
            affinity["nodeAffinity"] = _required({"matchFields": [_is("metadata.name", "@NODE@")]})
        else:
            if lots.random() < shape.node_affinity:
                pools = lots.sample(POOLS, 2)
                affinity["nodeAffinity"] = _required({"matchExpressions": [_is(POOL, *pools)]})
            if lots.random() < shape.anti_affinity:
                term = {"labelSelector": selector, "topologyKey": HOSTNAME}
                affinity["podAntiAffinity"] = {
                    "requiredDuringSchedulingIgnoredDuringExecution": [term]
                }
            if lots.random() < shape.spread:
                spec["topologySpreadConstraints"] = [
                    {
                        "maxSkew": 1,
                        "topologyKey": lots.choice((ZONE, ZONE, HOSTNAME)),
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": selector,
                    }
                ]
        if affinity:
            spec["affinity"] = affinity
        return Workload(kind, owner, namespace, self._uid(), labels, spec, _managed(labels))

    def _container(self, app: str) -> Object:
        lots = self._lots
        memory = lots.choice(("64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "1500M"))
        cpu = lots.choice(("50m", "100m", "200m", "250m", "500m", "1"))
        return {
            "name": app,
            "image": f"registry.example/{app}:v{lots.randrange(40)}",
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": [
                {"name": "SETTING", "value": f"value-of-{app}"},
                {
                    "name": "POD_NAME",
                    "valueFrom": {
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}
                    },
                },
            ],
            "resources": {"limits": {"memory": memory}, "requests": {"cpu": cpu, "memory": memory}},
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/app"},
                {
                    "name": "kube-api-access-@SUFFIX@",
                    "readOnly": True,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                },
            ],
            "readinessProbe": {
                "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
                "timeoutSeconds": 1,
                "periodSeconds": 10,
                "successThreshold": 1,
                "failureThreshold": 3,
            },
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }

    def _pod(self, workload: Workload, node: str) -> Object:
        lots = self._lots
        suffix = f"{lots.getrandbits(25):05x}"[:5]
        ordinal = workload.made
        workload.made += 1
        stateful = workload.kind == "StatefulSet"
        name = f"{workload.name}-{ordinal if stateful else suffix + format(ordinal, 'x')}"
        created = f"2026-01-{lots.randrange(1, 29):02d}T{lots.randrange(24):02d}:00:00Z"
        started = created[:-3] + f"{lots.randrange(10, 60)}Z"
        phase = lots.choices(("Running", "Succeeded"), (60, 40))[0] if _job(workload) else "Running"
        restarts = lots.choices((0, 1, 3, 12, 250), (850, 90, 40, 15, 5))[0]
        labels = workload.labels
        if stateful:
            labels = {**labels, "statefulset.kubernetes.io/pod-name": name}
        spec = json.loads(
            json.dumps(workload.spec).replace("@SUFFIX@", suffix).replace("@NODE@", node)
        )
        if stateful:
            claim = {"claimName": f"data-{name}"}
            spec["volumes"].append({"name": "data", "persistentVolumeClaim": claim})
        spec["nodeName"] = node
        owner_kind = "ReplicaSet" if workload.kind == "Deployment" else workload.kind
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": workload.namespace,
                "uid": self._uid(),
                "resourceVersion": str(lots.randrange(10**9)),
                "creationTimestamp": created,
                "labels": labels,
                "annotations": {"prometheus.io/scrape": "true", "cni.example/ip": _ip(lots)},
                "ownerReferences": [
                    {
                        "apiVersion": "batch/v1" if _job(workload) else "apps/v1",
                        "kind": owner_kind,
                        "name": workload.name,
                        "uid": workload.uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
                "managedFields": workload.managed,
            },
            "spec": spec,
            "status": _status(lots, phase, started, restarts, spec["containers"][0]),
        }

    def _uid(self) -> str:
        digits = f"{self._lots.getrandbits(128):032x}"
        return "-".join(
            (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        )


def _job(workload: Workload) -> bool:
    return workload.kind == "Job"


def _ip(lots: random.Random) -> str:
    return f"192.0.2.{lots.randrange(1, 255)}"


def _is(key: str, *values: str) -> Object:
    return {"key": key, "operator": "In", "values": sorted(values)}


def _required(term: Object) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def _tolerates(key: str) -> Object:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def _token_volume() -> Object:
    return {
        "name": "kube-api-access-@SUFFIX@",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
            ],
            "defaultMode": 420,
        },
    }


def _managed(labels: dict[str, str]) -> list[Object]:
    owned: Object = {f"f:{key}": {} for key in labels}
    status: Object = {
        f'k:{{"type":"{kind}"}}': {".": {}, "f:lastTransitionTime": {}, "f:status": {}}
        for kind in ("ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready")
    }
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-02T03:04:05Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        for manager, fields in (
            (
                "kube-controller-manager",
                {
                    "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, **owned}},
                    "f:spec": {"f:containers": {}, "f:dnsPolicy": {}, "f:volumes": {".": {}}},
                },
            ),
            ("kubelet", {"f:status": {"f:conditions": status, "f:containerStatuses": {}}}),
        )
    ]


def _status(
    lots: random.Random, phase: str, started: str, restarts: int, container: Object
) -> Object:
    running = phase == "Running"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    image = container["image"]
    return {
        "phase": phase,
        "conditions": [
            {
                "type": kind,
                "status": "True" if running or "Ready" not in kind else "False",
                "lastProbeTime": None,
                "lastTransitionTime": started,
            }
            for kind in kinds
        ],
        "hostIP": _ip(lots),
        "podIP": _ip(lots),
        "startTime": started,
        "containerStatuses": [
            {
                "name": container["name"],
                "state": {"running": {"startedAt": started}}
                if running
                else {"terminated": {"exitCode": 0, "reason": "Completed"}},
                "lastState": {},
                "ready": running,
                "restartCount": restarts,
                "image": image,
                "imageID": f"{image}@sha256:{lots.getrandbits(256):064x}",
                "containerID": f"containerd://{lots.getrandbits(256):064x}",
                "started": running,
            }
        ],
        "qosClass": "Burstable",
    }


def write(shape: Shape, out: Any) -> None:
    """Writes the cluster as one List."""
    generator = Generator(shape)
    out.write('{"apiVersion":"v1","kind":"List","items":[')
    for i, item in enumerate([*generator.nodes(), None]):
        if item is not None:
            out.write(("," if i else "") + json.dumps(item, separators=(",", ":")))
    for pod in generator.pods():
        out.write("," + json.dumps(pod, separators=(",", ":")))
    out.write("]}\n")


def main() -> None:
    """Writes a cluster to stdout."""
    words = argparse.ArgumentParser(description="Write a generated cluster as JSON to stdout.")
    words.add_argument("--nodes", type=int, default=100)
    words.add_argument("--pods", type=int, default=30, help="pods on each node, on average")
    words.add_argument("--seed", type=int, default=753)
    chosen = words.parse_args()
    write(
        Shape(nodes=chosen.nodes, pods_per_node=chosen.pods, seed=chosen.seed), sys.stdout
    )


if __name__ == "__main__":
    main()
