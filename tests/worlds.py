"""Clusters and policies that nobody thought of: Hypothesis strategies for both.

Names, labels and amounts come from small sets, so that things meet: pods share nodes, owners,
budgets and topologies, nodes overflow, and limits bite. Hypothesis draws how many there are of
each, which it can shrink, and the dice for all else: thrown one by one, they make worlds differ far
more than its own mutations would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from resettle.testing import budget, claim, namespace, node, pod, priority_class, spread
from resettle.testing.objects import HOSTNAME, Object, merged

EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
MIRROR = "kubernetes.io/config.mirror"
NAMESPACES = ("default", "shop")
APPS = ("web", "db")


class Case(NamedTuple):
    """A cluster, a policy, and pods that are on their way already."""

    objects: list[Object]
    document: dict[str, Any]
    moving: frozenset[str]


Table = Mapping[str, Sequence[Any]]


def rolled(dice: Random, table: Table) -> dict[str, Any]:
    """One choice from each column."""
    return {key: dice.choice(choices) for key, choices in table.items()}


def some(dice: Random, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Up to two of the parts, laid over one another."""
    return {key: it[key] for it in dice.sample(parts, dice.choice([0, 0, 1, 1, 2])) for key in it}


# -- clusters --------------------------------------------------------------------------------------

_NODES: Table = {
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

_PLAIN: Table = {
    "namespace": ("default", *NAMESPACES),
    "owner": ("ReplicaSet/web", "ReplicaSet/web", "ReplicaSet/db", "Job/once"),
    "labels": [{"app": app, "version": v} for app in APPS for v in "12"],
    "priority": (0, 0, 7, -3, None),
    "cpu": (None, "100m", "500m", "1500m"),
    "memory": (None, "256Mi", "1Gi"),
    "spread": ([], *([rule] for rule in _SPREADS), _SPREADS[:2], _SPREADS[2:]),
}
_ODD: Sequence[dict[str, Any]] = (
    *[{}] * 20,
    *({"annotations": {mark: ""}} for mark in (EVICT, PREFER_NO_EVICTION, MIRROR)),
    *({"owner": owner} for owner in (["ReplicaSet/web", "ReplicaSet/db"], "DaemonSet/agent", None)),
    *({"priority": priority} for priority in (1000, 2_000_000_000)),
    *({"tolerations": [it]} for it in _TOLERATIONS),
    {"tolerations": _TOLERATIONS},
    *({"node_selector": {"pool": pool}} for pool in ("blue", "none")),
    *({"affinity": wish} for wish in (_REQUIRED, _PREFERRED, _UNREADABLE)),
    *({"away_from": {"app": app}} for app in APPS),
    {"requests": {"vendor.example/gpu": "1"}},
    {"labels": {}},
    {"volumes": [{"name": "v", "emptyDir": {}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
)
_UNREADY = {"conditions": [{"type": "Ready", "status": "False"}]}
_WAITING = {
    "containerStatuses": [
        {"name": "main", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ]
}
_PODS: Table = {
    "age": ("30s", "10m", "2h", "3h", "3d", "-5m"),
    "phase": (*["Running"] * 12, "Pending", "Failed", "Succeeded", "Unknown"),
    "restarts": (0, 0, 1, 5),
    "terminating": (*[False] * 12, True),
    "status": (*[{}] * 8, _UNREADY, _WAITING),
}
_BUDGETS: Table = {
    "namespace": NAMESPACES,
    "labels": ({"app": "web"}, {"app": "db"}, {"version": "1"}, {}),
    "allowed": (0, 1, 1, 2, 3),
    "spec": ({}, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
    "status": ({}, {"currentHealthy": 2, "desiredHealthy": 2}, {"desiredHealthy": 3}),
}
_SURROUNDINGS = [
    namespace("default", team="blue"),
    namespace("shop", team="red"),
    priority_class("high", 1000),
    claim("data", storage_class="fast"),
]


def cluster_of(dice: Random, *, nodes: int, pods: int, budgets: int) -> list[Object]:
    """The objects of a cluster of this size, as the API would list them."""
    names = [f"n{i}" for i in range(nodes)]
    homes = [*names * 3, *names[:1] * 5, "gone", ""]
    objects = [node(name, **rolled(dice, _NODES)).node for name in names]
    makes = [{**rolled(dice, _PLAIN), **dice.choice(_ODD)} for _ in range(dice.randint(1, 4))]
    for i in range(pods):
        built = pod(f"p{i}", **dice.choice(makes), **rolled(dice, _PODS))
        home = dice.choice(homes)
        objects.append(merged(built, {"spec": {"nodeName": home}}) if home else built)
    objects += (budget(f"b{i}", **rolled(dice, _BUDGETS)) for i in range(budgets))
    return [*objects, *_SURROUNDINGS]


# -- policies --------------------------------------------------------------------------------------

_SELECTING: tuple[dict[str, Any], ...] = (
    *({}, {}, {}),
    {"namespaces": {"exclude": ["shop"]}},
    {"labelSelector": {"matchLabels": {"app": "web"}}},
)
_REQUIRED_TYPE = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TYPE = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
_BOTH_KINDS = {"constraints": ["DoNotSchedule", "ScheduleAnyway"]}

DESCHEDULE: Mapping[str, tuple[dict[str, Any], ...]] = {
    "PodLifeTime": ({"maxPodLifeTimeSeconds": 3600}, {"states": ["Running", "CrashLoopBackOff"]}),
    "RemoveFailedPods": ({}, {"minPodLifetimeSeconds": 60, "excludeOwnerKinds": ["Job"]}),
    "RemovePodsHavingTooManyRestarts": ({"podRestartThreshold": 1}, {"podRestartThreshold": 5}),
    "RemovePodsViolatingNodeTaints": ({}, {"includePreferNoSchedule": True}),
    "RemovePodsViolatingNodeAffinity": ({"nodeAffinityType": [_REQUIRED_TYPE, _PREFERRED_TYPE]},),
    "RemovePodsViolatingInterPodAntiAffinity": ({},),
}
BALANCE: Mapping[str, tuple[dict[str, Any], ...]] = {
    "RemoveDuplicates": ({}, {"excludeOwnerKinds": ["Job"]}),
    _SPREAD: ({}, _BOTH_KINDS, {**_BOTH_KINDS, "topologyBalanceNodeFit": False}),
    "LowNodeUtilization": (
        {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}},
        {"thresholds": {"pods": 20, "memory": 30}, "targetThresholds": {"pods": 30, "memory": 40}},
        {
            "thresholds": {"cpu": 5, "vendor.example/gpu": 1},
            "targetThresholds": {"cpu": 5, "vendor.example/gpu": 1},
            "useDeviationThresholds": True,
            "evictionLimits": {"node": 2},
        },
    ),
    "HighNodeUtilization": (
        {"thresholds": {"cpu": 40}},
        {"thresholds": {"cpu": 60, "pods": 60}, "evictionModes": ["OnlyThresholdingResources"]},
    ),
}
_UNSELECTING = ("RemoveDuplicates", "LowNodeUtilization", "HighNodeUtilization")
SORTERS = ("AgeSort", "PrioritySort", "UtilizationSort", "DeletionCostSort")

_EVICTORS: Sequence[dict[str, Any]] = (
    {"nodeFit": True},
    {"minReplicas": 3},
    {"minPodAge": "5m"},
    {"noEvictionPolicy": "Mandatory"},
    {"priorityThreshold": {"value": 5}},
    {"priorityThreshold": {"name": "high"}},
    {"namespaceLabelSelector": {"matchLabels": {"team": "blue"}}},
    {"labelSelector": {"matchLabels": {"version": "1"}}},
    {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage", "FailedBarePods"]}},
    {"podProtections": {"extraEnabled": ["PodsWithPVC"], "defaultDisabled": ["DaemonSetPods"]}},
    {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}},
)
_LIMITS: Sequence[dict[str, Any]] = (
    *({"maxNoOfPodsToEvictTotal": n} for n in (0, 2, 5)),
    *({"maxNoOfPodsToEvictPerNode": n} for n in (1, 2)),
    *({"maxNoOfPodsToEvictPerNamespace": n} for n in (1, 3)),
    *({"nodeSelector": selector} for selector in ("pool!=red", "pool")),
)


# Safe defaults let little happen in a small cluster, so most policies of our own write them away.
_UNGUARDED: Sequence[dict[str, Any]] = (
    {},
    {"minReplicas": 0, "minPodAge": "0s"},
    {"minReplicas": 0, "minPodAge": "0s", "nodeFit": False},
)
_SHARES: Sequence[dict[str, Any]] = (
    {},
    {"maxPercentOfPodsToEvict": 20, "maxPercentOfNodesToEvictFrom": 40},
    *[{"maxPercentOfPodsToEvict": 100, "maxPercentOfNodesToEvictFrom": 100}] * 3,
)


def profile_of(dice: Random, name: str, *, improved: bool) -> dict[str, Any]:
    """A profile of several strategies, with sorters where these work."""
    enabled = {
        "deschedule": dice.sample(sorted(DESCHEDULE), dice.choice([0, 1, 2, 3])),
        "balance": dice.sample(sorted(BALANCE), dice.choice([0, 1, 2, 3])),
    }
    config = [{"name": "DefaultEvictor", "args": some(dice, _EVICTORS)}]
    for strategy in (*enabled["deschedule"], *enabled["balance"]):
        args = dice.choice({**DESCHEDULE, **BALANCE}[strategy])
        more = {} if strategy in _UNSELECTING else dice.choice(_SELECTING)
        config.append({"name": strategy, "args": {**args, **more}})
    if improved:
        config[0]["args"] = {**dice.choice(_UNGUARDED), **some(dice, _EVICTORS)}
        for point in ("presort", "sort"):
            enabled[point] = dice.sample(SORTERS, dice.randint(0, 2))
    plugins = {point: {"enabled": names} for point, names in enabled.items()}
    return {"name": name, "pluginConfig": config, "plugins": plugins}


def policy_of(dice: Random, *, profiles: int, improved: bool) -> dict[str, Any]:
    """A whole policy of either apiVersion."""
    return {
        "apiVersion": "resettle/v1" if improved else "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        **some(dice, _LIMITS),
        **(dice.choice(_SHARES) if improved else {}),
        "profiles": [profile_of(dice, f"p{i}", improved=improved) for i in range(profiles)],
    }


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A cluster and a policy to meet it."""
    dice = draw(st.randoms(use_true_random=True))
    document = policy_of(dice, profiles=draw(st.sampled_from([1, 2])), improved=draw(st.booleans()))
    objects = cluster_of(
        dice,
        nodes=draw(st.sampled_from([1, 2, 3, 3, 4, 4, 5, 5, 6, 6])),
        pods=draw(st.sampled_from([0, 4, 12, 16, 20, 24, 28, 32])),
        budgets=draw(st.sampled_from([0, 1, 2, 3])),
    )
    uids = [it["metadata"]["uid"] for it in objects if it["kind"] == "Pod"]
    moving = dice.sample(uids, min(len(uids), dice.choice([0, 0, 1, 2])))
    return Case(objects, document, frozenset(moving))
