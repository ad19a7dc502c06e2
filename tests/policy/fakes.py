"""Small stand-ins for the real plugins: the same names and keys, and rules enough to test with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from resettle.policy.args import (
    Args,
    Duration,
    ExtensionPoint,
    Int32,
    Namespaces,
    SelectingArgs,
    Unsigned,
)
from resettle.policy.document import ResettleOnly
from resettle.policy.problems import Problem

Percent = Annotated[float, Meta(ge=0, le=100, description="a percentage")]


class FakePlugin(Struct, frozen=True):
    name: str
    args: type[Args]
    points: frozenset[ExtensionPoint]


class PriorityThreshold(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: Int32 | None = None
    name: str = ""


class EvictorArgs(Args, frozen=True, kw_only=True):
    node_fit: bool | None = None
    node_selector: str = ""
    min_replicas: Unsigned | None = None
    priority_threshold: PriorityThreshold | None = None
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    evict_failed_bare_pods: bool = False
    ignore_pvc_pods: bool = False


class LifeArgs(SelectingArgs, frozen=True, kw_only=True):
    max_pod_life_time_seconds: Unsigned | None = None
    states: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        for i, state in enumerate(self.states):
            if state == "Sleeping":
                yield Problem(what="`Sleeping` is not a state", at=("states", i))
        if self.max_pod_life_time_seconds is None and not self.states:
            yield Problem(
                what="with no criterion set, every pod would match",
                fix="set `maxPodLifeTimeSeconds`, `states`, or both",
            )


class FailedArgs(SelectingArgs, frozen=True, kw_only=True):
    exclude_owner_kinds: tuple[str, ...] = ()
    min_pod_lifetime_seconds: Unsigned | None = None
    reasons: tuple[str, ...] = ()
    including_init_containers: bool = False


class RestartsArgs(SelectingArgs, frozen=True, kw_only=True):
    pod_restart_threshold: Int32 = 0
    including_init_containers: bool = False

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.pod_restart_threshold < 1:
            yield Problem(
                what=f"a threshold of {self.pod_restart_threshold} matches every pod",
                fix="write a number of 1 or more",
                at=("podRestartThreshold",),
            )


class TaintsArgs(SelectingArgs, frozen=True, kw_only=True):
    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] = ()
    included_taints: tuple[str, ...] | None = None
    min_taint_age: ResettleOnly[Duration | None] = None


class AffinityArgs(SelectingArgs, frozen=True, kw_only=True):
    node_affinity_type: tuple[str, ...] = ()


class DuplicatesArgs(Args, frozen=True, kw_only=True):
    namespaces: Namespaces | None = None
    exclude_owner_kinds: tuple[str, ...] = ()


class SpreadArgs(SelectingArgs, frozen=True, kw_only=True):
    constraints: tuple[Literal["DoNotSchedule", "ScheduleAnyway"], ...] = ()
    topology_balance_node_fit: bool | None = None


class LowArgs(Args, frozen=True, kw_only=True):
    thresholds: dict[str, Percent] = field(default_factory=dict)
    target_thresholds: dict[str, Percent] = field(default_factory=dict)
    use_deviation_thresholds: bool = False
    number_of_nodes: int = 0
    evictable_namespaces: Namespaces | None = None

    def problems(self) -> Iterator[Problem]:
        if not self.thresholds:
            yield Problem(what="`thresholds` is missing", fix="add it", at=("thresholds",))
        for name in sorted(self.target_thresholds.keys() ^ self.thresholds.keys()):
            yield Problem(
                what=f"only one of `thresholds` and `targetThresholds` has `{name}`",
                fix="give both the same keys",
                at=("targetThresholds",),
            )


class HighArgs(Args, frozen=True, kw_only=True):
    thresholds: dict[str, Percent] = field(default_factory=dict)
    number_of_nodes: int = 0
    evictable_namespaces: Namespaces | None = None


class SortArgs(Args, frozen=True, kw_only=True):
    weight: Unsigned = 0


def _plugin(name: str, args: type[Args], *points: str) -> tuple[str, FakePlugin]:
    return name, FakePlugin(name, args, frozenset(map(ExtensionPoint, points)))


PLUGINS = dict(
    (
        _plugin("DefaultEvictor", EvictorArgs, "filter", "preevictionfilter"),
        _plugin("PodLifeTime", LifeArgs, "deschedule"),
        _plugin("RemoveFailedPods", FailedArgs, "deschedule"),
        _plugin("RemovePodsHavingTooManyRestarts", RestartsArgs, "deschedule"),
        _plugin("RemovePodsViolatingNodeTaints", TaintsArgs, "deschedule"),
        _plugin("RemovePodsViolatingNodeAffinity", AffinityArgs, "deschedule"),
        _plugin("RemovePodsViolatingInterPodAntiAffinity", SelectingArgs, "deschedule"),
        _plugin("RemoveDuplicates", DuplicatesArgs, "balance"),
        _plugin("RemovePodsViolatingTopologySpreadConstraint", SpreadArgs, "balance"),
        _plugin("LowNodeUtilization", LowArgs, "balance"),
        _plugin("HighNodeUtilization", HighArgs, "balance"),
        _plugin("ByAge", SortArgs, "sort", "presort"),
    )
)
