"""Builders of Kubernetes objects, as plain dictionaries of the API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

Object = dict[str, Any]
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
"""The time at which every built world is looked at, unless it says otherwise."""

_SPAN = re.compile(r"(\d+)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def before(age: str) -> str:
    """The time this long before `NOW`, as the API writes it; `-5m` lies in the future."""
    seconds = sum(int(n) * _SECONDS[unit] for n, unit in _SPAN.findall(age))
    instant = NOW - timedelta(seconds=-seconds if age.startswith("-") else seconds)
    return instant.isoformat().replace("+00:00", "Z")


def merge_objects(base: Mapping[str, Any], more: Mapping[str, Any]) -> Object:
    """The first mapping with the second laid over it, key by key."""
    result = dict(base)
    for key, value in more.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merge_objects(old, value) if both else value  # type: ignore[arg-type]
    return result


def pod(
    name: str,
    *,
    namespace: str = "default",
    owner: str | Iterable[str] | None = "ReplicaSet/web",
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    age: str = "1d",
    priority: int | None = 0,
    phase: str = "Running",
    restarts: int = 0,
    tolerations: Iterable[Mapping[str, Any]] = (),
    node_selector: Mapping[str, str] | None = None,
    affinity: Mapping[str, Any] | None = None,
    away_from: Mapping[str, str] | None = None,
    spread: Iterable[Mapping[str, Any]] = (),
    volumes: Iterable[Mapping[str, Any]] = (),
    terminating: bool = False,
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Object:
    """A pod that runs happily; `metadata`, `spec` and `status` are laid over what is built.

    `owner` is `Kind/name`, several of them, or None for a bare pod. `away_from` is the short way to
    a required anti-affinity on `kubernetes.io/hostname` against pods with these labels.
    """
    owners = [owner] if isinstance(owner, str) else list(owner or ())
    wanted = {"cpu": cpu, "memory": memory} | dict(requests or {})
    affinities = dict(affinity or {})
    if away_from is not None:
        term = {"labelSelector": {"matchLabels": dict(away_from)}, "topologyKey": HOSTNAME}
        affinities["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    built_spec: Object = {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app:1",
                "resources": {"requests": {k: v for k, v in wanted.items() if v is not None}},
            }
        ],
        "tolerations": list(tolerations),
        "topologySpreadConstraints": list(spread),
        "volumes": list(volumes),
    }
    if priority is not None:
        built_spec["priority"] = priority
    if node_selector is not None:
        built_spec["nodeSelector"] = dict(node_selector)
    if affinities:
        built_spec["affinity"] = affinities
    built_meta: Object = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": before(age),
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "ownerReferences": [_owner(namespace, text) for text in owners],
    }
    if terminating:
        built_meta["deletionTimestamp"] = before("1s")
    built_status: Object = {
        "phase": phase,
        "startTime": before(age),
        "conditions": [
            {
                "type": "Ready",
                "status": "True" if phase == "Running" else "False",
                "lastTransitionTime": before(age),
            }
        ],
        "containerStatuses": [{"name": "main", "restartCount": restarts, "state": {}}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": merge_objects(built_meta, metadata or {}),
        "spec": merge_objects(built_spec, spec or {}),
        "status": merge_objects(built_status, status or {}),
    }


def _owner(namespace: str, text: str) -> Object:
    kind, _, name = text.partition("/")
    return {"kind": kind, "name": name, "uid": f"uid-{namespace}-{kind}-{name}", "controller": True}


HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def spread(
    *,
    labels: Mapping[str, str],
    key: str = ZONE,
    max_skew: int = 1,
    when: str = "DoNotSchedule",
    **more: Any,
) -> Object:
    """A topology spread constraint over pods with these labels."""
    return {
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": dict(labels)},
        **more,
    }


class NodeBuilder:
    """A node, and the pods it holds."""

    def __init__(self, node: Object) -> None:
        self.node = node
        self.pods: list[Object] = []

    def holding(self, *pods: Object) -> NodeBuilder:
        """The node with these pods bound to it."""
        name = self.node["metadata"]["name"]
        held = NodeBuilder(self.node)
        held.pods = [
            *self.pods,
            *(merge_objects(pod, {"spec": {"nodeName": name}}) for pod in pods),
        ]
        return held


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    resources: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    zone: str | None = None,
    taints: Iterable[str] = (),
    cordoned: bool = False,
    ready: bool | None = True,
) -> NodeBuilder:
    """A ready node; a taint is written `key=value:Effect` or `key:Effect`."""
    offer = {"cpu": cpu, "memory": memory, "pods": str(pods)} | dict(resources or {})
    marks = {HOSTNAME: name} | ({ZONE: zone} if zone else {}) | dict(labels or {})
    spec: Object = {"taints": [_taint(text) for text in taints]}
    if cordoned:
        spec["unschedulable"] = True
    conditions = [] if ready is None else [{"type": "Ready", "status": str(ready)}]
    return NodeBuilder(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": marks},
            "spec": spec,
            "status": {"allocatable": offer, "capacity": offer, "conditions": conditions},
        }
    )


def _taint(text: str) -> Object:
    mark, _, effect = text.rpartition(":")
    key, _, value = mark.partition("=")
    return {"key": key, "value": value, "effect": effect}


def budget(
    name: str,
    *,
    allowed: int,
    labels: Mapping[str, str],
    namespace: str = "default",
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Object:
    """A PodDisruptionBudget over pods with these labels that allows so many disruptions."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": merge_objects({"selector": {"matchLabels": dict(labels)}}, spec or {}),
        "status": merge_objects({"disruptionsAllowed": allowed}, status or {}),
    }


_WORKLOAD_APIS = {"Job": "batch/v1", "ReplicationController": "v1"}


def workload(
    title: str,
    *,
    replicas: int = 3,
    namespace: str = "default",
    owner: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Object:
    """A workload `Kind/name` that has all its pods; `pod` with this owner belongs to it.

    `replicas` of a Job run at the same time. `owner` is `Kind/name` too, such as the Deployment of
    a ReplicaSet.
    """
    kind, _, name = title.partition("/")
    is_job = kind == "Job"
    counts = {"replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas}
    meta: Object = {
        "name": name,
        "namespace": namespace,
        "uid": _owner(namespace, title)["uid"],
        "generation": 1,
    }
    if owner is not None:
        meta["ownerReferences"] = [_owner(namespace, owner)]
    built_status = {"active": replicas} if is_job else {**counts, "observedGeneration": 1}
    return {
        "apiVersion": _WORKLOAD_APIS.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": merge_objects(meta, metadata or {}),
        "spec": merge_objects({"parallelism" if is_job else "replicas": replicas}, spec or {}),
        "status": merge_objects(built_status, status or {}),
    }


def namespace(name: str, **labels: str) -> Object:
    """A namespace with labels."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def priority_class(name: str, value: int) -> Object:
    """A priority class."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def node_metrics(name: str, *, cpu: str, memory: str = "1Gi", age: str = "10s") -> Object:
    """What a node uses, as the metrics API said it so long ago."""
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": name},
        "timestamp": before(age),
        "window": "20s",
        "usage": {"cpu": cpu, "memory": memory},
    }


def pod_metrics(
    name: str,
    *,
    cpu: str,
    memory: str = "10Mi",
    namespace: str = "default",
    age: str = "10s",
) -> Object:
    """What a pod with one container uses, as the metrics API reported it so long ago."""
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {"name": name, "namespace": namespace},
        "timestamp": before(age),
        "window": "20s",
        "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": memory}}],
    }


def query_answer(
    query: str, numbers: Mapping[str, float], *, label: str = "instance", age: str = "0s"
) -> Object:
    """What Prometheus said of nodes: the number of each."""
    return {
        "apiVersion": "resettle/v1",
        "kind": "QueryAnswer",
        "query": query,
        "nodeLabel": label,
        "samples": [
            {"node": node, "number": str(number), "at": before(age)}
            for node, number in numbers.items()
        ],
    }


def claim(name: str, *, storage_class: str | None = None, namespace: str = "default") -> Object:
    """A PersistentVolumeClaim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"storageClassName": storage_class} if storage_class is not None else {},
    }
