"""How a node, a pod and a budget may turn out: choices for the arguments of their builders.

Names, labels and amounts come from small sets, so that things meet: pods share nodes, owners,
budgets and topologies, nodes overflow, and limits bite. What stands several times in a column is
that much more likely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resettle.testing.objects import HOSTNAME, spread

Table = Mapping[str, Sequence[Any]]

_EVICT = "descheduler.alpha.kubernetes.io/evict"
_PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
_MIRROR = "kubernetes.io/config.mirror"
_NAMESPACES = ("default", "shop")
_APPS = ("web", "db")

NODES: Table = {
    "zone": ("a", "b", "b", "c", None),
    "labels": ({}, {"pool": "blue"}, {"pool": "red"}, {"pool": "blue", "rank": "7"}),
    "taints": (
        *([], [], [], ["gpu=yes:NoSchedule"], ["soft:PreferNoSchedule"]),
        ["gpu=yes:NoSchedule", "old:NoExecute"],
    ),
    "cordoned": (*[False] * 6, True),
    "ready": (*[True] * 6, None, False),
    "cpu": ("1", "4", "8"),
    "memory": ("1Gi", "4Gi"),
    "pods": (8, 30, 110),
    "resources": ({}, {"vendor.example/gpu": "2"}),
}


def _node_affinity(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "pool", "operator": operator, "values": list(values)}]}


_REQUIRED = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [_node_affinity("In", "blue"), _node_affinity("Exists")]
        }
    }
}
_PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "preference": _node_affinity("In", "red")},
            {"weight": 2, "preference": _node_affinity("NotIn", "blue", "green")},
        ]
    }
}
_UNREADABLE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [_node_affinity("Near", "blue"), {}]
        }
    }
}
_TOLERATIONS = [
    {"key": "gpu", "operator": "Exists"},
    {"operator": "Exists", "effect": "NoExecute"},
    {"key": "soft", "operator": "Equal", "value": ""},
]
_SPREADS = [
    spread(labels={"app": "web"}),
    spread(labels={"app": "web"}, key=HOSTNAME, nodeTaintsPolicy="Honor"),
    spread(labels={}, when="ScheduleAnyway", max_skew=2, nodeAffinityPolicy="Ignore"),
    spread(labels={"app": "db"}, matchLabelKeys=["version"]),
]

MAKES: Table = {
    "namespace": ("default", *_NAMESPACES),
    "owner": ("ReplicaSet/web", "ReplicaSet/web", "ReplicaSet/db", "Job/once"),
    "labels": [{"app": app, "version": v} for app in _APPS for v in "12"],
    "priority": (0, 0, 7, -3, None),
    "cpu": (None, "100m", "500m", "1500m"),
    "memory": (None, "256Mi", "1Gi"),
    "spread": ([], *([rule] for rule in _SPREADS), _SPREADS[:2], _SPREADS[2:]),
}
"""What the pods of one workload have in common."""
ODDITIES: Sequence[Mapping[str, Any]] = (
    *[{}] * 20,
    *({"annotations": {mark: ""}} for mark in (_EVICT, _PREFER_NO_EVICTION, _MIRROR)),
    *({"owner": owner} for owner in (["ReplicaSet/web", "ReplicaSet/db"], "DaemonSet/agent", None)),
    *({"priority": priority} for priority in (1000, 2_000_000_000)),
    *({"tolerations": [it]} for it in _TOLERATIONS),
    {"tolerations": _TOLERATIONS},
    *({"node_selector": {"pool": pool}} for pool in ("blue", "none")),
    *({"affinity": wish} for wish in (_REQUIRED, _PREFERRED, _UNREADABLE)),
    *({"away_from": {"app": app}} for app in _APPS),
    {"requests": {"vendor.example/gpu": "1"}},
    {"labels": {}},
    {"volumes": [{"name": "v", "emptyDir": {}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
)
"""One of them is laid over what a workload's pods have in common."""

_UNREADY = {"conditions": [{"type": "Ready", "status": "False"}]}
_WAITING = {
    "containerStatuses": [
        {"name": "main", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ]
}
PODS: Table = {
    "age": ("30s", "10m", "2h", "3h", "3d", "-5m"),
    "phase": (*["Running"] * 12, "Pending", "Failed", "Succeeded", "Unknown"),
    "restarts": (0, 0, 1, 5),
    "terminating": (*[False] * 12, True),
    "status": (*[{}] * 8, _UNREADY, _WAITING),
}
"""What each pod has for itself."""
BUDGETS: Table = {
    "namespace": _NAMESPACES,
    "labels": ({"app": "web"}, {"app": "db"}, {"version": "1"}, {}),
    "allowed": (0, 1, 1, 2, 3),
    "spec": ({}, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
    "status": ({}, {"currentHealthy": 2, "desiredHealthy": 2}, {"desiredHealthy": 3}),
}
