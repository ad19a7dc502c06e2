"""A random policy without problems, as an operator might write it.

`leave_out_parts` removes parts of it, so that a counterexample has only what it takes to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from resettle.framework.plugin import Plugin
from resettle.policy.args import SORTER_POINTS, ExtensionPoint

IMPROVED = "resettle/v1"
Choices = Sequence[Mapping[str, Any]]
Own = Mapping[Plugin, Choices]
"""Plugins of the caller, each with the arguments it may get."""

_SELECTING: Choices = (
    *({}, {}, {}),
    {"namespaces": {"exclude": ["shop"]}},
    {"labelSelector": {"matchLabels": {"app": "web"}}},
)
_REQUIRED_TYPE = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TYPE = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
_BOTH_KINDS = {"constraints": ["DoNotSchedule", "ScheduleAnyway"]}

DESCHEDULE: Mapping[str, Choices] = {
    "PodLifeTime": ({"maxPodLifeTimeSeconds": 3600}, {"states": ["Running", "CrashLoopBackOff"]}),
    "RemoveFailedPods": ({}, {"minPodLifetimeSeconds": 60, "excludeOwnerKinds": ["Job"]}),
    "RemovePodsHavingTooManyRestarts": ({"podRestartThreshold": 1}, {"podRestartThreshold": 5}),
    "RemovePodsViolatingNodeTaints": ({}, {"includePreferNoSchedule": True}),
    "RemovePodsViolatingNodeAffinity": ({"nodeAffinityType": [_REQUIRED_TYPE, _PREFERRED_TYPE]},),
    "RemovePodsViolatingInterPodAntiAffinity": ({},),
}
BALANCE: Mapping[str, Choices] = {
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

_EVICTORS: Choices = (
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
FILTERS: Mapping[str, Choices] = {
    "MigrationLimits": (
        {},
        {"maxMigratingPerNode": 0},
        {"maxMigratingPerNode": 0, "maxMigratingPerWorkload": "50%", "evictJobPods": True},
        {"maxMigratingPerNode": 1, "maxUnavailablePerWorkload": 2},
        {"maxMigratingGlobally": 3, "skipCheckExpectedReplicas": True},
        {"maxMigratingPerNamespace": 2, "skipEvictionGates": ["Rollout"]},
        {"objectLimiters": {"namespace": {"duration": "1m", "maxMigrating": 2}}},
    ),
}
"""Arguments of filters that only some policies have: `policies(plugins={PLUGIN: choices})`."""
_LIMITS: Choices = (
    *({"maxNoOfPodsToEvictTotal": n} for n in (0, 2, 5)),
    *({"maxNoOfPodsToEvictPerNode": n} for n in (1, 2)),
    *({"maxNoOfPodsToEvictPerNamespace": n} for n in (1, 3)),
    *({"nodeSelector": selector} for selector in ("pool!=red", "pool")),
)

# Safe defaults let little happen in a small cluster, so most policies of our own write them away.
_WITHOUT_SAFE_DEFAULTS: Choices = (
    {},
    {"minReplicas": 0, "minPodAge": "0s"},
    {"minReplicas": 0, "minPodAge": "0s", "nodeFit": False},
)
_SHARES: Choices = (
    {},
    {"maxPercentOfPodsToEvict": 20, "maxPercentOfNodesToEvictFrom": 40},
    *[{"maxPercentOfPodsToEvict": 100, "maxPercentOfNodesToEvictFrom": 100}] * 3,
)


def policy_of(rng: Random, *, profiles: int, api_version: str, own: Own) -> dict[str, Any]:
    """A whole policy document; each plugin of one's own is in every profile."""
    improved = api_version == IMPROVED
    return {
        "apiVersion": api_version,
        "kind": "DeschedulerPolicy",
        **_some(rng, _LIMITS),
        **(rng.choice(_SHARES) if improved else {}),
        "profiles": [_profile(rng, f"p{i}", own, improved=improved) for i in range(profiles)],
    }


def _profile(rng: Random, name: str, own: Own, *, improved: bool) -> dict[str, Any]:
    """A profile of several strategies, with sorters where these work."""
    enabled: dict[str, list[str]] = {
        "deschedule": rng.sample(sorted(DESCHEDULE), rng.choice([0, 1, 2, 3])),
        "balance": rng.sample(sorted(BALANCE), rng.choice([0, 1, 2, 3])),
    }
    guards = rng.choice(_WITHOUT_SAFE_DEFAULTS) if improved else {}
    config = [_plugin_config("DefaultEvictor", {**guards, **_some(rng, _EVICTORS)})]
    for strategy in (*enabled["deschedule"], *enabled["balance"]):
        args = rng.choice({**DESCHEDULE, **BALANCE}[strategy])
        more = {} if strategy in _UNSELECTING else rng.choice(_SELECTING)
        config.append(_plugin_config(strategy, {**args, **more}))
    if improved:
        enabled |= {point.value: rng.sample(SORTERS, rng.randint(0, 2)) for point in SORTER_POINTS}
    for plugin, choices in own.items():
        config.append(_plugin_config(plugin.name, rng.choice(choices)))
        for point in _points(plugin, improved=improved):
            names = enabled.setdefault(point, [])
            names.insert(rng.randint(0, len(names)), plugin.name)
    plugins = {point: {"enabled": names} for point, names in enabled.items()}
    return {"name": name, "pluginConfig": config, "plugins": plugins}


def _points(plugin: Plugin, *, improved: bool) -> Iterator[str]:
    """Where the plugin is enabled; sorters work in `resettle/v1` only."""
    for point in ExtensionPoint:
        if point in plugin.points and (improved or point not in SORTER_POINTS):
            yield point.value


def _plugin_config(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "args": dict(args)}


def _some(rng: Random, parts: Choices) -> dict[str, Any]:
    """Up to two of the parts, laid over one another."""
    return {
        key: part[key] for part in rng.sample(parts, rng.choice([0, 0, 1, 1, 2])) for key in part
    }


_ALWAYS = ("apiVersion", "kind", "profiles")
_OPTIONAL_ARGS = ("namespaces", "labelSelector")
_EVICTOR = "DefaultEvictor"


def leave_out_parts(
    document: Mapping[str, Any], own: Collection[str], stays: Callable[[], bool]
) -> dict[str, Any]:
    """The policy without what does not stay; plugins of one's own always do.

    A limit, a strategy, a sorter, an argument of DefaultEvictor or a selector can be left out, and
    what is left has no problems either.
    """
    kept = {key: value for key, value in document.items() if key in _ALWAYS or stays()}
    return {
        **kept,
        "profiles": [
            _leave_out_of_profile(profile, own, stays) for profile in document["profiles"]
        ],
    }


def _leave_out_of_profile(
    profile: Mapping[str, Any], own: Collection[str], stays: Callable[[], bool]
) -> dict[str, Any]:
    enabled = {
        point: [name for name in chosen["enabled"] if name in own or stays()]
        for point, chosen in profile["plugins"].items()
    }
    named = {_EVICTOR, *own}.union(*enabled.values())
    return {
        **profile,
        "pluginConfig": [
            {**config, "args": _args(config, own, stays)}
            for config in profile["pluginConfig"]
            if config["name"] in named
        ],
        "plugins": {point: {"enabled": names} for point, names in enabled.items()},
    }


def _args(
    config: Mapping[str, Any], own: Collection[str], stays: Callable[[], bool]
) -> dict[str, Any]:
    if config["name"] in own:
        return dict(config["args"])
    optional = config["args"] if config["name"] == _EVICTOR else _OPTIONAL_ARGS
    return {key: value for key, value in config["args"].items() if key not in optional or stays()}
