"""`descheduler/v1alpha1`: its shape, and how it becomes a `descheduler/v1alpha2` document.

Each enabled strategy turns into a profile of its own. `origins` remembers which line of the old
document each part of the new one came from, so problems name the lines that the author wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import field

from resettle.model.selectors import LabelSelector
from resettle.policy.args import (
    DEFAULT_EVICTOR,
    FILTER_POINTS,
    ExtensionPoint,
    Int32,
    KnownPlugins,
    Namespaces,
    Unsigned,
)
from resettle.policy.document import KIND, V1ALPHA2, Document
from resettle.policy.problems import ProblemCollector, did_you_mean
from resettle.policy.yaml.source import KeyPath
from resettle.policy.yaml.typed_walk import shape_of


class NodeResourceUtilizationThresholds(Document, frozen=True, kw_only=True):
    """Params of both utilization strategies."""

    use_deviation_thresholds: bool = False
    thresholds: dict[str, float] = field(default_factory=dict)
    target_thresholds: dict[str, float] = field(default_factory=dict)
    number_of_nodes: int = 0


class PodsHavingTooManyRestarts(Document, frozen=True, kw_only=True):
    """Params of RemovePodsHavingTooManyRestarts."""

    pod_restart_threshold: Int32 = 0
    including_init_containers: bool = False


class PodLifeTime(Document, frozen=True, kw_only=True):
    """Params of PodLifeTime; `podStatusPhases` is the older name of `states`."""

    max_pod_life_time_seconds: Unsigned | None = None
    states: tuple[str, ...] = ()
    pod_status_phases: tuple[str, ...] = ()


class RemoveDuplicates(Document, frozen=True, kw_only=True):
    """Params of RemoveDuplicates."""

    exclude_owner_kinds: tuple[str, ...] = ()


class FailedPods(Document, frozen=True, kw_only=True):
    """Params of RemoveFailedPods."""

    exclude_owner_kinds: tuple[str, ...] = ()
    min_pod_lifetime_seconds: Unsigned | None = None
    reasons: tuple[str, ...] = ()
    including_init_containers: bool = False


class Params(Document, frozen=True, kw_only=True):
    """Everything any strategy takes; each looks at its own part."""

    node_resource_utilization_thresholds: NodeResourceUtilizationThresholds | None = None
    node_affinity_type: tuple[str, ...] = ()
    pods_having_too_many_restarts: PodsHavingTooManyRestarts | None = None
    pod_life_time: PodLifeTime | None = None
    remove_duplicates: RemoveDuplicates | None = None
    failed_pods: FailedPods | None = None
    include_soft_constraints: bool = False
    namespaces: Namespaces | None = None
    threshold_priority: Int32 | None = None
    threshold_priority_class_name: str = ""
    label_selector: LabelSelector | None = None
    node_fit: bool = False
    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] = ()


class Strategy(Document, frozen=True, kw_only=True):
    """One entry of `strategies`."""

    enabled: bool = False
    weight: int = 0
    params: Params | None = None


class OldDocument(Document, frozen=True, kw_only=True):
    """A whole document of `descheduler/v1alpha1`."""

    api_version: str = ""
    kind: str = ""
    strategies: dict[str, Strategy | None] = field(default_factory=dict)
    node_selector: str | None = None
    evict_failed_bare_pods: bool | None = None
    evict_local_storage_pods: bool | None = None
    evict_system_critical_pods: bool | None = None
    evict_daemon_set_pods: bool | None = None
    ignore_pvc_pods: bool | None = None
    max_no_of_pods_to_evict_per_node: Unsigned | None = None
    max_no_of_pods_to_evict_per_namespace: Unsigned | None = None


_UTILIZATION = "nodeResourceUtilizationThresholds"
_RESTARTS = "podsHavingTooManyRestarts"
_SELECTING: dict[str, KeyPath] = {
    "namespaces": ("namespaces",),
    "labelSelector": ("labelSelector",),
}

# For each strategy: its arguments, and the place in `params` each of them is taken from.
STRATEGIES: dict[str, dict[str, KeyPath]] = {
    "RemoveDuplicates": {
        "namespaces": ("namespaces",),
        "excludeOwnerKinds": ("removeDuplicates", "excludeOwnerKinds"),
    },
    "LowNodeUtilization": {
        "useDeviationThresholds": (_UTILIZATION, "useDeviationThresholds"),
        "thresholds": (_UTILIZATION, "thresholds"),
        "targetThresholds": (_UTILIZATION, "targetThresholds"),
        "numberOfNodes": (_UTILIZATION, "numberOfNodes"),
        "evictableNamespaces": ("namespaces",),
    },
    "HighNodeUtilization": {
        "thresholds": (_UTILIZATION, "thresholds"),
        "numberOfNodes": (_UTILIZATION, "numberOfNodes"),
        "evictableNamespaces": ("namespaces",),
    },
    "RemovePodsViolatingInterPodAntiAffinity": _SELECTING,
    "RemovePodsViolatingNodeAffinity": {
        **_SELECTING,
        "nodeAffinityType": ("nodeAffinityType",),
    },
    "RemovePodsViolatingNodeTaints": {
        **_SELECTING,
        "includePreferNoSchedule": ("includePreferNoSchedule",),
        "excludedTaints": ("excludedTaints",),
    },
    "RemovePodsViolatingTopologySpreadConstraint": {
        **_SELECTING,
        "constraints": ("includeSoftConstraints",),
    },
    "RemovePodsHavingTooManyRestarts": {
        **_SELECTING,
        "podRestartThreshold": (_RESTARTS, "podRestartThreshold"),
        "includingInitContainers": (_RESTARTS, "includingInitContainers"),
    },
    "PodLifeTime": {
        **_SELECTING,
        "maxPodLifeTimeSeconds": ("podLifeTime", "maxPodLifeTimeSeconds"),
        "states": ("podLifeTime", "states"),
    },
    "RemoveFailedPods": {
        **_SELECTING,
        "excludeOwnerKinds": ("failedPods", "excludeOwnerKinds"),
        "minPodLifetimeSeconds": ("failedPods", "minPodLifetimeSeconds"),
        "reasons": ("failedPods", "reasons"),
        "includingInitContainers": ("failedPods", "includingInitContainers"),
    },
}

_PHASES: KeyPath = ("podLifeTime", "podStatusPhases")
_EVICTOR_PARAMS: tuple[KeyPath, ...] = (
    ("nodeFit",),
    ("thresholdPriority",),
    ("thresholdPriorityClassName",),
)
_KEPT = ("nodeSelector", "maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace")
_EVICTOR_SWITCHES = (
    "evictLocalStoragePods",
    "evictDaemonSetPods",
    "evictSystemCriticalPods",
    "evictFailedBarePods",
    "ignorePvcPods",
)


class ConvertedDocument(NamedTuple):
    """A `descheduler/v1alpha2` document in plain values, and where each part came from."""

    document: dict[str, Any]
    origins: dict[KeyPath, KeyPath]


def convert_document(
    old: Mapping[str, Any], report: ProblemCollector, plugins: KnownPlugins
) -> ConvertedDocument:
    """The old document as a new one; `old` holds what the walker could read of it."""
    origins: dict[KeyPath, KeyPath] = {}
    profiles: list[dict[str, Any]] = []
    for name, strategy in sorted(old.get("strategies", {}).items()):
        path: KeyPath = ("strategies", name)
        if name not in STRATEGIES or name not in plugins:
            known = [strategy for strategy in STRATEGIES if strategy in plugins]
            what, place = f"no strategy is named `{name}`", report.source.place_of_key(path)
            report.error(path, what, did_you_mean(name, known), place=place)
            continue
        if strategy is None or not strategy.get("enabled", False):
            continue
        _warn_of_losses(name, strategy, report, plugins)
        params = strategy.get("params", {})
        if params.get("thresholdPriorityClassName") and "thresholdPriority" in params:
            what = "both `thresholdPriority` and `thresholdPriorityClassName` are set"
            report.error((*path, "params", "thresholdPriority"), what, "keep one of the two")
        origins |= _origins_of(name, params, len(profiles))
        profiles.append(_profile(name, params, old, plugins))
    kept = {key: old[key] for key in _KEPT if key in old}
    document = {"apiVersion": V1ALPHA2, "kind": KIND, **kept, "profiles": profiles}
    return ConvertedDocument(document, origins)


def _profile(
    name: str, params: Mapping[str, Any], old: Mapping[str, Any], plugins: KnownPlugins
) -> dict[str, Any]:
    """The profile that one strategy becomes."""
    sets = {point.value: {"enabled": [DEFAULT_EVICTOR]} for point in FILTER_POINTS}
    sets[_point_of(name, plugins).value] = {"enabled": [name]}
    return {
        "name": f"strategy-{name}-profile",
        "pluginConfig": [
            {"name": DEFAULT_EVICTOR, "args": _evictor_args(name, params, old)},
            {"name": name, "args": _strategy_args(name, params)},
        ],
        "plugins": sets,
    }


def _point_of(name: str, plugins: KnownPlugins) -> ExtensionPoint:
    balances = ExtensionPoint.BALANCE in plugins[name].points
    return ExtensionPoint.BALANCE if balances else ExtensionPoint.DESCHEDULE


def _evictor_args(name: str, params: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of DefaultEvictor; PodLifeTime never asked whether a pod fits elsewhere."""
    args = {key: old[key] for key in _EVICTOR_SWITCHES if key in old}
    if "nodeFit" in params and name != "PodLifeTime":
        args["nodeFit"] = params["nodeFit"]
    threshold = {}
    if "thresholdPriority" in params:
        threshold["value"] = params["thresholdPriority"]
    if params.get("thresholdPriorityClassName"):
        threshold["name"] = params["thresholdPriorityClassName"]
    return {**args, "priorityThreshold": threshold} if threshold else args


def _strategy_args(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the strategy's plugin: what the table names, and those that are computed."""
    values = {key: _at(params, place) for key, place in STRATEGIES[name].items()}
    args = {key: value for key, value in values.items() if value is not None}
    if name == "PodLifeTime":
        states = [*(_at(params, _PHASES) or ()), *args.get("states", ())]
        if states:
            args["states"] = states
    if name == "RemovePodsViolatingTopologySpreadConstraint":
        soft = ["ScheduleAnyway"] if params.get("includeSoftConstraints") else []
        args["constraints"] = ["DoNotSchedule", *soft]
        args["topologyBalanceNodeFit"] = True
    return args


def _origins_of(name: str, params: Mapping[str, Any], index: int) -> dict[KeyPath, KeyPath]:
    """Where each part of the profile with this index came from."""
    profile: KeyPath = ("profiles", index)
    source: KeyPath = ("strategies", name)
    origins: dict[KeyPath, KeyPath] = {profile: source}
    for entry in (0, 1):
        origins[(*profile, "pluginConfig", entry)] = source
        origins[(*profile, "pluginConfig", entry, "name")] = source
        origins[(*profile, "pluginConfig", entry, "args")] = (*source, "params")
    evictor: KeyPath = (*profile, "pluginConfig", 0, "args")
    for switch in _EVICTOR_SWITCHES:
        origins[(*evictor, switch)] = (switch,)
    by_value, by_name = "thresholdPriority", "thresholdPriorityClassName"
    either = by_value if by_value in params else by_name
    origins[(*evictor, "priorityThreshold")] = (*source, "params", either)
    origins[(*evictor, "priorityThreshold", "value")] = (*source, "params", by_value)
    origins[(*evictor, "priorityThreshold", "name")] = (*source, "params", by_name)
    args: KeyPath = (*profile, "pluginConfig", 1, "args")
    for key, place in STRATEGIES[name].items():
        origins[(*args, key)] = (*source, "params", *place)
    if name == "PodLifeTime":
        phases = _at(params, _PHASES) or ()
        states = _at(params, ("podLifeTime", "states")) or ()
        if phases and not states:
            origins[(*args, "states")] = (*source, "params", *_PHASES)
        spots = [(*_PHASES, i) for i in range(len(phases))]
        spots += [("podLifeTime", "states", i) for i in range(len(states))]
        for position, spot in enumerate(spots):
            origins[(*args, "states", position)] = (*source, "params", *spot)
    return origins


def _warn_of_losses(
    name: str, strategy: Mapping[str, Any], report: ProblemCollector, plugins: KnownPlugins
) -> None:
    """Warn of settings that the conversion does not carry over."""
    path: KeyPath = ("strategies", name)
    if strategy.get("weight"):
        report.warn((*path, "weight"), "`weight` has no effect", "remove it")
    params = strategy.get("params", {})
    if params.get("nodeFit") and name == "PodLifeTime":
        what = "`nodeFit` has no effect on `PodLifeTime` in `descheduler/v1alpha1`"
        report.warn((*path, "params", "nodeFit"), what, "convert the policy and set it there")
    used = {*STRATEGIES[name].values(), *_EVICTOR_PARAMS}
    if name == "PodLifeTime":
        used.add(_PHASES)
    arguments = {argument.encode_name for argument in shape_of(plugins[name].args).fields}
    for place in _leaves(params):
        if place not in used:
            key = place[-1]
            known = key in arguments
            fix = f"convert the policy and set `{key}` there" if known else "remove it"
            what = f"`{key}` has no effect on `{name}` in `descheduler/v1alpha1`"
            report.warn((*path, "params", *place), what, fix)


def _leaves(params: Mapping[str, Any]) -> Iterator[KeyPath]:
    """Each setting in `params`: a key, or a key inside the part that belongs to one strategy."""
    grouped = {place[0] for table in STRATEGIES.values() for place in table.values() if place[1:]}
    for key, value in params.items():
        if key in grouped:
            yield from ((key, inner) for inner in value)
        else:
            yield (key,)


def _at(params: Mapping[str, Any], place: KeyPath) -> Any:
    """The value at a place in `params`, or None."""
    value: Any = params
    for step in place:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
