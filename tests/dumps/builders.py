"""A small cluster that wears the name of a company wherever an object can hold one."""

from __future__ import annotations

from resettle.testing import budget, claim, namespace, node, pod, priority_class, spread, workload
from resettle.testing.builders import Object

_OWN = {"app": "acme-shop", "kind": "acme-type", "status": "acme-status", "value": "acme-value"}
_EXPRESSION = {"key": "app", "operator": "In", "values": ["acme-shop", "acme-other"]}
_SELECTOR = {"matchLabels": _OWN, "matchExpressions": [_EXPRESSION]}
_TERM = {
    "labelSelector": _SELECTOR,
    "namespaceSelector": _SELECTOR,
    "namespaces": ["acme-team"],
    "topologyKey": "kubernetes.io/hostname",
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_TERM = {
    "matchExpressions": [_EXPRESSION],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["acme-node"]}],
}
_AFFINITY = {
    "nodeAffinity": {
        _REQUIRED: {"nodeSelectorTerms": [_NODE_TERM]},
        _PREFERRED: [{"weight": 1, "preference": _NODE_TERM}],
    },
    "podAffinity": {_REQUIRED: [_TERM], _PREFERRED: [{"weight": 1, "podAffinityTerm": _TERM}]},
    "podAntiAffinity": {_REQUIRED: [_TERM], _PREFERRED: [{"weight": 1, "podAffinityTerm": _TERM}]},
}
_CONTAINER = {
    "name": "acme-container",
    "image": "acme.example/app:1",
    "ports": [{"name": "acme", "hostPort": 80, "hostIP": "192.0.2.1"}],
}
_VOLUMES = [
    {"name": "acme-disk", "persistentVolumeClaim": {"claimName": "acme-claim"}},
    {"name": "acme-own", "ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "acme"}}}},
    {"name": "acme-path", "hostPath": {"path": "/acme"}},
]
_MARKS = {
    "descheduler.alpha.kubernetes.io/evict": "acme",
    "kubernetes.io/config.mirror": "acme",
    "kubernetes.io/config.source": "acme",
    "controller.kubernetes.io/pod-deletion-cost": "acme",
}
_POD = pod(
    "acme-pod",
    namespace="acme-team",
    owner="ReplicaSet/acme-owner",
    labels=_OWN,
    annotations=_MARKS,
    affinity=_AFFINITY,
    node_selector={**_OWN, "pool": "acme-pool"},
    tolerations=[{"key": "for", "operator": "Equal", "value": "acme"}],
    spread=[spread(labels=_OWN)],
    volumes=_VOLUMES,
    spec={
        "nodeName": "acme-node",
        "containers": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "schedulingGates": [{"name": "acme.example/gate"}],
        "resourceClaims": [{"name": "acme"}],
    },
)
_LABELS = {"pool": "acme-pool"}
_WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "Job", "ReplicationController")
ACME: list[Object] = [
    *(
        workload(
            f"{kind}/acme-owner",
            namespace="acme-team",
            owner="Deployment/acme-top",
            status={"currentRevision": "acme-1", "updateRevision": "acme-1"},
        )
        for kind in _WORKLOADS
    ),
    namespace("acme-team", team="acme-people"),
    node("acme-node", labels=_LABELS, zone="acme-zone", taints=["for=acme:NoSchedule"]).node,
    _POD,
    budget("acme-budget", namespace="acme-team", allowed=1, labels=_OWN),
    priority_class("acme-class", 5),
    claim("acme-claim", namespace="acme-team", storage_class="acme-disks"),
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "acme-volume", "labels": {"topology.kubernetes.io/zone": "acme-zone"}},
        "spec": {
            "csi": {"driver": "acme.example", "volumeHandle": "acme-handle"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [_NODE_TERM]}},
        },
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "acme-node"},
        "spec": {"drivers": [{"name": "acme.example", "allocatable": {"count": 3}}]},
    },
]
