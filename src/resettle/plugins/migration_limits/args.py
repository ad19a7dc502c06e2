"""Arguments of MigrationLimits, with the names that Koordinator's MigrationController uses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

from msgspec import Meta, Struct

from resettle.model.workloads import ScaleKind, parse_scale_kind
from resettle.policy.args import Args as PluginArgs
from resettle.policy.args import Duration, Unsigned, parse_duration
from resettle.policy.problems import Problem, did_you_mean

GLOBALLY, PER_NODE, PER_NAMESPACE, PER_WORKLOAD, UNAVAILABLE, EXPECTED, ROLLOUT = GATES = (
    "MaxMigratingGlobally",
    "MaxMigratingPerNode",
    "MaxMigratingPerNamespace",
    "MaxMigratingPerWorkload",
    "MaxUnavailablePerWorkload",
    "ExpectedReplicas",
    "Rollout",
)
"""Checks that `skipEvictionGates` can turn off; `Rollout` is not a gate of Koordinator."""

_ELSEWHERE = {
    "PVC": "`PodsWithPVC` of its `podProtections`",
    "LocalStorage": "`PodsWithLocalStorage` of its `podProtections`",
    "SystemCritical": "`SystemCriticalPods` of its `podProtections`",
    "BarePods": "`FailedBarePods` of its `podProtections`",
    "PriorityThreshold": "its `priorityThreshold`",
    "LabelSelector": "its `labelSelector`",
    "Namespaces": "its `namespaceLabelSelector`",
    "NodeFit": "its `nodeFit`",
}
"""Gates of Koordinator that are arguments of DefaultEvictor here."""

Percentage = Annotated[
    str, Meta(pattern=r"^(100|[1-9][0-9]?)%$", description="a percentage such as `10%`")
]
IntOrPercent = Annotated[int, Meta(ge=1)] | Percentage


class ObjectLimiter(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How often pods of one workload, or of one namespace, may be moved."""

    duration: Duration = "0s"
    """The time in which so many pods may be moved; `0s` for no limit."""
    max_migrating: IntOrPercent | None = None
    """How many; of a workload by default what `maxMigratingPerWorkload` comes to."""
    burst: Unsigned = 0
    """How many of them may follow each other at once; 0 is read as 1."""

    @property
    def span(self) -> timedelta:
        """The duration, not negative."""
        return max(parse_duration(self.duration), timedelta())


class ObjectLimiters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits over time, besides those on pods that move at the same time."""

    workload: ObjectLimiter = ObjectLimiter()
    """For each workload."""
    namespace: ObjectLimiter = ObjectLimiter()
    """For each namespace; here `maxMigrating` is a number."""


class Args(PluginArgs, frozen=True, kw_only=True):
    """Arguments of MigrationLimits."""

    max_migrating_globally: Unsigned | None = None
    """How many pods may be on their way in all; 0 for no limit."""
    max_migrating_per_node: Unsigned = 2
    """How many pods may be leaving one node; 0 for no limit."""
    max_migrating_per_namespace: Unsigned | None = None
    """How many pods of one namespace may be on their way; 0 for no limit."""
    max_migrating_per_workload: IntOrPercent | None = None
    """How many pods of one workload may be on their way, or how many percent of its replicas, at
    least one; by default 1 of up to 3 replicas, then 2, and 10% from 30 on."""
    max_unavailable_per_workload: IntOrPercent | None = None
    """How many pods of one workload may be unavailable with the moved ones counted; by default as
    many as `maxMigratingPerWorkload` has by default."""
    skip_check_expected_replicas: bool = False
    """Also move pods of workloads with one replica, and where the limits above cover all replicas
    of a workload."""
    evict_job_pods: bool = False
    """Also move pods of Jobs, which begin their work again; limits count from `parallelism`."""
    object_limiters: ObjectLimiters = ObjectLimiters()
    """How often pods of one workload or one namespace may be moved."""
    skip_eviction_gates: tuple[str, ...] = ()
    """Checks to leave out: `MaxMigratingGlobally`, `MaxMigratingPerNode`,
    `MaxMigratingPerNamespace`, `MaxMigratingPerWorkload`, `MaxUnavailablePerWorkload`,
    `ExpectedReplicas`, `Rollout`."""
    scale_kinds: tuple[str, ...] = ()
    """Other kinds of workloads, as `GROUP/VERSION/KIND`; their replicas are read from the `scale`
    subresource."""

    def is_checked(self, gate: str) -> bool:
        """Whether this check is in force."""
        if gate == EXPECTED and self.skip_check_expected_replicas:
            return False
        return gate not in self.skip_eviction_gates

    @property
    def checks_workloads(self) -> bool:
        """Whether something is checked for which workloads have to be known."""
        gates = (PER_WORKLOAD, UNAVAILABLE, EXPECTED, ROLLOUT)
        return any(map(self.is_checked, gates)) or bool(self.object_limiters.workload.span)

    @property
    def scales(self) -> frozenset[ScaleKind]:
        """The kinds whose `scale` is read."""
        return frozenset(filter(None, map(parse_scale_kind, self.scale_kinds)))

    @property
    def eviction_window(self) -> timedelta:
        """How far back evictions matter: until the slowest limiter has filled up again."""
        limiters = (self.object_limiters.workload, self.object_limiters.namespace)
        return max(limiter.span * max(limiter.burst, 1) for limiter in limiters)

    def problems(self) -> Iterator[Problem]:
        for i, gate in enumerate(self.skip_eviction_gates):
            at = ("skipEvictionGates", i)
            if gate in _ELSEWHERE:
                fix = f"DefaultEvictor decides this: use {_ELSEWHERE[gate]}"
                yield Problem(what=f"`{gate}` is not a check of MigrationLimits", fix=fix, at=at)
            elif gate not in GATES:
                yield Problem(
                    what=f"no eviction gate is named `{gate}`", fix=did_you_mean(gate, GATES), at=at
                )
        for i, text in enumerate(self.scale_kinds):
            if parse_scale_kind(text) is None:
                yield Problem(
                    what=f"`{text}` does not name a kind with its group and version",
                    fix="write `GROUP/VERSION/KIND`, such as `apps.kruise.io/v1alpha1/CloneSet`",
                    at=("scaleKinds", i),
                )
        yield from self._limiter_problems()

    def _limiter_problems(self) -> Iterator[Problem]:
        for name in ("workload", "namespace"):
            limiter: ObjectLimiter = getattr(self.object_limiters, name)
            at = ("objectLimiters", name)
            if parse_duration(limiter.duration) < timedelta():
                what = f"the duration {limiter.duration} is negative"
                yield Problem(what=what, fix="write a positive one", at=(*at, "duration"))
        namespace = self.object_limiters.namespace
        if isinstance(namespace.max_migrating, str):
            yield Problem(
                what="a namespace has no number of replicas to take a percentage of",
                fix="write a number",
                at=("objectLimiters", "namespace", "maxMigrating"),
            )
        if namespace.span and namespace.max_migrating is None:
            yield Problem(
                what="`duration` without `maxMigrating` limits nothing",
                fix="add `maxMigrating`, or remove `duration`",
                at=("objectLimiters", "namespace"),
            )
