"""The settings of MigrationLimits that could be changed so that a pod may move: for `explain`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from resettle.framework.plugin import ChangeScope, Setting
from resettle.model.pod import Pod
from resettle.model.workloads import JOB
from resettle.plugins.migration_limits.args import EXPECTED, ROLLOUT, Args, ObjectLimiter
from resettle.plugins.migration_limits.rules import MovesInView
from resettle.plugins.migration_limits.workload_limits import WorkloadCounts

MORE = 100
"""How many larger values of a limit are tried."""


def settings_that_admit(moves: MovesInView, pod: Pod) -> Iterator[Setting]:
    """All settings that could be changed, whatever the pod was refused for."""
    args = moves.args
    for key, field, code in (
        ("maxMigratingGlobally", "max_migrating_globally", "moving-total"),
        ("maxMigratingPerNode", "max_migrating_per_node", "moving-node"),
        ("maxMigratingPerNamespace", "max_migrating_per_namespace", "moving-namespace"),
    ):
        if limit := getattr(args, field):
            yield _figure(key, field, limit, range(limit + 1, limit + MORE + 1), code)
    counts = moves.counts_of(pod)
    if isinstance(counts, WorkloadCounts):
        yield from _of_workload(args, counts)
    yield from _of_limiters(args)


def _of_workload(args: Args, counts: WorkloadCounts) -> Iterator[Setting]:
    for key, field, limit, code in (
        (
            "maxMigratingPerWorkload",
            "max_migrating_per_workload",
            counts.max_migrating,
            "moving-workload",
        ),
        (
            "maxUnavailablePerWorkload",
            "max_unavailable_per_workload",
            counts.max_unavailable,
            "unavailable-workload",
        ),
    ):
        if limit >= counts.desired:
            smaller = range(counts.desired - 1, 0, -1)
            yield _figure(key, field, getattr(args, field), smaller, "limit-too-wide")
        else:
            yield _figure(key, field, limit, range(limit + 1, counts.desired), code)
    if counts.workload.kind == JOB:
        yield _switch("evictJobPods", "evict_job_pods", "job-pod")
    elif args.is_checked(EXPECTED):
        codes = ("too-few-replicas", "limit-too-wide")
        yield _switch("skipCheckExpectedReplicas", "skip_check_expected_replicas", *codes)
    if args.is_checked(ROLLOUT):
        yield Setting(
            key="skipEvictionGates",
            current=list(args.skip_eviction_gates),
            values=(ROLLOUT,),
            apply=_skip_gate,
            describe=lambda gate: f"`skipEvictionGates` listed `{gate}`",
            lifts=frozenset({"rolling-out"}),
            scope=ChangeScope.CHECK,
        )


def _of_limiters(args: Args) -> Iterator[Setting]:
    for name in ("workload", "namespace"):
        limiter = getattr(args.object_limiters, name)
        if limiter.span:
            yield _burst(name, limiter)


def _burst(name: str, limiter: ObjectLimiter) -> Setting:
    key, burst = f"objectLimiters.{name}.burst", max(limiter.burst, 1)
    return Setting(
        key=key,
        current=limiter.burst,
        values=range(burst + 1, burst + MORE + 1),
        apply=lambda args, value: _with_burst(args, name, value),
        describe=lambda value: f"`{key}` were {value}",
        lifts=frozenset({f"rate-{name}"}),
    )


def _figure(key: str, field: str, current: Any, values: Sequence[int], code: str) -> Setting:
    return Setting(
        key=key,
        current=current,
        values=values,
        apply=lambda args, value: structs.replace(args, **{field: value}),
        describe=lambda value: f"`{key}` were {value}",
        lifts=frozenset({code}),
    )


def _switch(key: str, field: str, *codes: str) -> Setting:
    return Setting(
        key=key,
        current=False,
        values=(True,),
        apply=lambda args, value: structs.replace(args, **{field: value}),
        describe=lambda _: f"`{key}` were true",
        lifts=frozenset(codes),
        scope=ChangeScope.PROTECTION,
    )


def _skip_gate(args: Args, gate: str) -> Args:
    return structs.replace(args, skip_eviction_gates=(*args.skip_eviction_gates, gate))


def _with_burst(args: Args, name: str, burst: int) -> Args:
    limiters = args.object_limiters
    limiter = structs.replace(getattr(limiters, name), burst=burst)
    return structs.replace(args, object_limiters=structs.replace(limiters, **{name: limiter}))
