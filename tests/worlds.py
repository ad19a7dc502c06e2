"""Clusters and policies that nobody thought of: Hypothesis strategies for both.

Names, labels and amounts come from small sets, so that things meet: pods share nodes, owners,
budgets and topologies, nodes overflow, and limits bite.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def one_of(*choices: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(choices)


def _few(*choices: Any, most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(choices), max_size=most, unique_by=str)


def _some(*parts: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Up to two of the parts, laid over one another."""
    return _few(*parts).map(lambda chosen: {key: it[key] for it in chosen for key in it})


# -- clusters --------------------------------------------------------------------------------------

_NODES = st.fixed_dictionaries(
    {
        "zone": one_of("a", "b", "b", "c", None),
        "labels": one_of({}, {"pool": "blue"}, {"pool": "red"}, {"pool": "blue", "rank": "7"}),
        "taints": one_of(
            *([], [], [], ["gpu=yes:NoSchedule"], ["soft:PreferNoSchedule"]),
            ["gpu=yes:NoSchedule", "old:NoExecute"],
        ),
        "cordoned": one_of(*[False] * 6, True),
        "ready": one_of(*[True] * 6, None, False),
        "cpu": one_of("1", "4", "8"),
        "memory": one_of("1Gi", "4Gi"),
        "pods": one_of(8, 30, 110),
        "resources": one_of({}, {"vendor.example/gpu": "2"}),
    }
)


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

_PLAIN = st.fixed_dictionaries(
    {
        "namespace": one_of(*NAMESPACES),
        "owner": one_of("ReplicaSet/web", "ReplicaSet/db", "Job/once"),
        "labels": one_of(*({"app": app, "version": v} for app in APPS for v in "12")),
        "priority": one_of(0, 0, 7, -3, None),
        "cpu": one_of(None, "100m", "500m", "1500m"),
        "memory": one_of(None, "256Mi", "1Gi"),
        "spread": one_of([], *([rule] for rule in _SPREADS), _SPREADS[:2], _SPREADS[2:]),
    }
)
_ODD = one_of(
    *[{}] * 12,
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
_WORKLOADS = st.tuples(_PLAIN, _ODD).map(lambda parts: {**parts[0], **parts[1]})
_UNREADY = {"conditions": [{"type": "Ready", "status": "False"}]}
_WAITING = {
    "containerStatuses": [
        {"name": "main", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ]
}
_PODS = st.fixed_dictionaries(
    {
        "age": one_of("30s", "10m", "2h", "2h", "3d", "-5m"),
        "phase": one_of(*["Running"] * 12, "Pending", "Failed", "Succeeded", "Unknown"),
        "restarts": one_of(0, 0, 1, 5),
        "terminating": one_of(*[False] * 12, True),
        "status": one_of(*[{}] * 8, _UNREADY, _WAITING),
    }
)
_BUDGETS = st.fixed_dictionaries(
    {
        "namespace": one_of(*NAMESPACES),
        "labels": one_of({"app": "web"}, {"app": "db"}, {"version": "1"}, {}),
        "allowed": one_of(0, 1, 1, 2),
        "spec": one_of({}, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
        "status": one_of({}, {"currentHealthy": 2, "desiredHealthy": 2}, {"desiredHealthy": 3}),
    }
)
_SURROUNDINGS = [
    namespace("default", team="blue"),
    namespace("shop", team="red"),
    priority_class("high", 1000),
    claim("data", storage_class="fast"),
]


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """The objects of a small cluster, as the API would list them."""
    nodes = draw(st.lists(_NODES, min_size=2, max_size=5))
    names = [f"n{i}" for i in range(len(nodes))]
    objects = [node(name, **it).node for name, it in zip(names, nodes, strict=True)]
    makes = draw(st.lists(_WORKLOADS, min_size=2, max_size=4))
    rows = st.tuples(one_of(*makes), one_of(*names * 2, *[names[0]] * 5, "gone", ""), _PODS)
    for i, (make, home, more) in enumerate(draw(st.lists(rows, min_size=8, max_size=20))):
        built = pod(f"p{i}", **make, **more)
        objects.append(merged(built, {"spec": {"nodeName": home}}) if home else built)
    for i, it in enumerate(draw(st.lists(_BUDGETS, max_size=3))):
        objects.append(budget(f"b{i}", **it))
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

_EVICTORS = _some(
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
_LIMITS = _some(
    *({"maxNoOfPodsToEvictTotal": n} for n in (0, 2, 5)),
    *({"maxNoOfPodsToEvictPerNode": n} for n in (1, 2)),
    *({"maxNoOfPodsToEvictPerNamespace": n} for n in (1, 3)),
    *({"nodeSelector": selector} for selector in ("pool!=red", "pool")),
)


@st.composite
def profiles(draw: st.DrawFn, name: str, *, improved: bool) -> dict[str, Any]:
    """A profile of several strategies, with sorters where these work."""
    enabled = {
        "deschedule": draw(st.lists(one_of(*DESCHEDULE), min_size=1, max_size=3, unique=True)),
        "balance": draw(st.lists(one_of(*BALANCE), min_size=1, max_size=3, unique=True)),
    }
    config = [{"name": "DefaultEvictor", "args": draw(_EVICTORS)}]
    for strategy in (*enabled["deschedule"], *enabled["balance"]):
        args = draw(one_of(*{**DESCHEDULE, **BALANCE}[strategy]))
        more = {} if strategy in _UNSELECTING else draw(one_of(*_SELECTING))
        config.append({"name": strategy, "args": {**args, **more}})
    if improved:
        for point in ("presort", "sort"):
            enabled[point] = draw(st.lists(one_of(*SORTERS), max_size=2, unique=True))
    plugins = {point: {"enabled": names} for point, names in enabled.items()}
    return {"name": name, "pluginConfig": config, "plugins": plugins}


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    """A whole policy of either apiVersion."""
    improved = draw(st.booleans())
    names = draw(one_of(["one"], ["one", "two"]))
    return {
        "apiVersion": "resettle/v1" if improved else "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        **draw(_LIMITS),
        "profiles": [draw(profiles(name, improved=improved)) for name in names],
    }


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A cluster and a policy to meet it."""
    objects, document = draw(clusters()), draw(policies())
    uids = [it["metadata"]["uid"] for it in objects if it["kind"] == "Pod"]
    moving = draw(st.lists(one_of(*uids), max_size=2)) if uids else []
    return Case(objects, document, frozenset(moving))
