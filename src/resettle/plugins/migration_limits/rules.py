"""The rules of MigrationLimits, in the order in which they are asked.

    a workload that is not known, a pod of a Job,         about the pod itself: as long as nothing
    too few replicas, a limit that covers them all        else changes, the answer stays the same
    a rollout, pods that are moving, replicas that        about the load of the moment: the answer
    are unavailable, moves of the last minutes            is temporary, and the pod may go later

Counted are moves in flight and the moves that the plan holds so far (`view.leaving`), never the pod
that is asked about. A finished pod takes nothing from its workload, so the rules about workloads do
not apply to it. An `evict` annotation changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from math import ceil
from typing import NamedTuple

from msgspec import structs

from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.pod import Pod, Template
from resettle.model.workloads import JOB, UnknownWorkload, Workload
from resettle.plugins.migration_limits.args import (
    EXPECTED,
    GLOBALLY,
    PER_NAMESPACE,
    PER_NODE,
    PER_WORKLOAD,
    ROLLOUT,
    UNAVAILABLE,
    Args,
    ObjectLimiter,
)
from resettle.plugins.migration_limits.workload_limits import Rate, WorkloadCounts, limit_of
from resettle.text import format_count
from resettle.times import format_seconds

_NOT_KNOWN = Refusal("workload-unknown", "belongs to {workload}, which is not known")
_REPLACED = Refusal(
    "workload-unknown", "belongs to {workload}, which was replaced by another of its name"
)
_OF_JOB = Refusal("job-pod", "belongs to {workload}, and would begin its work again")
_ONLY_REPLICA = Refusal("too-few-replicas", "is the only pod that {workload} should have")
_NO_REPLICAS = Refusal("too-few-replicas", "belongs to {workload}, which should have no pods")
_COVERS_ALL = Refusal(
    "limit-too-wide",
    "would let all {desired} pods of {workload} go at once",
    subject="`{key}`",
)
_ROLLS_OUT = Refusal("rolling-out", "is being rolled out", subject="{workload}", temporary=True)
_UNAVAILABLE = Refusal(
    "unavailable-workload",
    "{verb} unavailable or on the way, and the limit is {limit}",
    subject="{count} of {workload}",
    temporary=True,
)
_MOVING_ALREADY = "{verb} on the way already, and the limit is {limit}"
_MOVING_PODS = "{count} of {where}"
_MOVING = {
    GLOBALLY: Refusal("moving-total", _MOVING_ALREADY, subject=_MOVING_PODS, temporary=True),
    PER_NODE: Refusal("moving-node", _MOVING_ALREADY, subject=_MOVING_PODS, temporary=True),
    PER_NAMESPACE: Refusal(
        "moving-namespace", _MOVING_ALREADY, subject=_MOVING_PODS, temporary=True
    ),
    PER_WORKLOAD: Refusal("moving-workload", _MOVING_ALREADY, subject=_MOVING_PODS, temporary=True),
}
_IN_A_WHILE = "may be moved in {wait}: the limit is {limit} in {span}"
_NEXT_POD = "the next pod of {where}"
_TOO_OFTEN_OF_WORKLOAD = Refusal("rate-workload", _IN_A_WHILE, subject=_NEXT_POD, temporary=True)
_TOO_OFTEN_OF_NAMESPACE = Refusal("rate-namespace", _IN_A_WHILE, subject=_NEXT_POD, temporary=True)
_OF_CONTROLLER, _OF_NAMESPACE = "controller", "namespace"
"""What evictions are looked up by."""


class MovesInView:
    """The rules for one set of arguments in one view."""

    def __init__(self, args: Args, view: View) -> None:
        self.args = args
        self.view = view
        self._checks_workloads = args.checks_workloads
        self._scales = {(kind.group, kind.kind) for kind in args.scales}
        self._by_template: dict[Template, WorkloadCounts | UnknownWorkload | None] = {}
        self._by_uid: dict[str, WorkloadCounts] = {}
        self._evictions: dict[tuple[str, str], list[tuple[str, datetime]]] | None = None
        in_force = (rule for rule in RULES if rule.gate is None or args.is_checked(rule.gate))
        # Functions, not bound methods, which would keep the view from being freed.
        self._checks = tuple(rule.check for rule in in_force)

    def refusal(self, pod: Pod) -> Refusal | None:
        """The first rule that refuses the pod."""
        for check in self._checks:
            refusal = check(self, pod)
            if refusal is not None:
                return refusal
        return None

    def refusals(self, pod: Pod) -> Iterator[Refusal]:
        """All rules that refuse the pod, in order."""
        for check in self._checks:
            refusal = check(self, pod)
            if refusal is not None:
                yield refusal

    # -- the workload ---------------------------------------------------------------------------

    def counts_of(self, pod: Pod) -> WorkloadCounts | UnknownWorkload | None:
        """The workload of the pod; None if it has none, is finished, or nothing needs it."""
        if not self._checks_workloads or pod.finished:
            return None
        template = pod.template
        if template not in self._by_template:
            self._by_template[template] = self._counts_of(self.view.workload_of(pod))
        return self._by_template[template]

    def _counts_of(
        self, workload: Workload | UnknownWorkload | None
    ) -> WorkloadCounts | UnknownWorkload | None:
        if not isinstance(workload, Workload):
            return workload
        counts = self._by_uid.get(workload.uid)
        if counts is None:
            counts = self._by_uid[workload.uid] = WorkloadCounts(workload, self.args, self.view)
        return counts

    def _known_counts(self, pod: Pod) -> WorkloadCounts | None:
        counts = self.counts_of(pod)
        return counts if isinstance(counts, WorkloadCounts) else None

    # -- rules about the pod itself -------------------------------------------------------------

    def is_unknown(self, pod: Pod) -> Refusal | None:
        counts = self.counts_of(pod)
        if not isinstance(counts, UnknownWorkload):
            return None
        refusal = _REPLACED if counts.replaced else _NOT_KNOWN
        # What is only not read yet will be known soon.
        is_read = counts.is_built_in or counts.scale_name in self._scales
        refusal = structs.replace(refusal, temporary=is_read and not counts.replaced)
        return _with(refusal, workload=counts.title)

    def is_of_job(self, pod: Pod) -> Refusal | None:
        counts = self._known_counts(pod)
        if counts is None or counts.workload.kind != JOB or self.args.evict_job_pods:
            return None
        return _with(_OF_JOB, workload=counts.workload.title)

    def has_too_few_replicas(self, pod: Pod) -> Refusal | None:
        counts = self._known_counts(pod)
        if counts is None or counts.workload.kind == JOB or counts.desired > 1:
            return None
        refusal = _ONLY_REPLICA if counts.desired else _NO_REPLICAS
        return _with(refusal, workload=counts.workload.title, desired=counts.desired)

    def is_covered_by_limit(self, pod: Pod) -> Refusal | None:
        counts = self._known_counts(pod)
        if counts is None or counts.workload.kind == JOB or counts.desired <= 1:
            return None
        limits = (
            (PER_WORKLOAD, "maxMigratingPerWorkload", counts.max_migrating),
            (UNAVAILABLE, "maxUnavailablePerWorkload", counts.max_unavailable),
        )
        for gate, key, limit in limits:
            if limit >= counts.desired and self.args.is_checked(gate):
                facts = {"workload": counts.workload.title, "desired": counts.desired}
                return _with(_COVERS_ALL, key=key, limit=limit, **facts)
        return None

    # -- rules about the load of the moment -----------------------------------------------------

    def is_rolling_out(self, pod: Pod) -> Refusal | None:
        counts = self._known_counts(pod)
        if counts is None or not counts.is_rolling_out:
            return None
        return _with(_ROLLS_OUT, workload=counts.workload.title)

    def moving_globally(self, pod: Pod) -> Refusal | None:
        limit = self.args.max_migrating_globally
        if not limit:
            return None
        return _moving(GLOBALLY, self.view.leaving.count(besides=pod), limit, "the cluster")

    def moving_from_node(self, pod: Pod) -> Refusal | None:
        limit = self.args.max_migrating_per_node
        if not limit or not pod.node:
            return None
        count = self.view.leaving.count_on_node(besides=pod)
        return _moving(PER_NODE, count, limit, f"node {pod.node}")

    def moving_in_namespace(self, pod: Pod) -> Refusal | None:
        limit = self.args.max_migrating_per_namespace
        if not limit:
            return None
        count = self.view.leaving.count_in_namespace(besides=pod)
        return _moving(PER_NAMESPACE, count, limit, f"namespace {pod.namespace}")

    def moving_in_workload(self, pod: Pod) -> Refusal | None:
        counts = self._known_counts(pod)
        if counts is None:
            return None
        count = counts.moving(besides=pod)
        limit = max(counts.max_migrating, 1)
        return _moving(PER_WORKLOAD, count, limit, counts.workload.title)

    def is_short_of_replicas(self, pod: Pod) -> Refusal | None:
        counts = self._known_counts(pod)
        if counts is None:
            return None
        count, limit = counts.unavailable(besides=pod), max(counts.max_unavailable, 1)
        if count < limit:
            return None
        facts = {"workload": counts.workload.title, "desired": counts.desired}
        many = format_count(count, "other replica")
        verb = "is" if count == 1 else "are"
        return _with(_UNAVAILABLE, count=many, verb=verb, limit=limit, **facts)

    def is_moved_too_often(self, pod: Pod) -> Refusal | None:
        limiter, counts = self.args.object_limiters.workload, self._known_counts(pod)
        if not limiter.span or counts is None:
            return None
        written = limiter.max_migrating
        if written is None:
            written = self.args.max_migrating_per_workload
        limit = max(limit_of(written, counts.desired), 1)
        keys = [(_OF_CONTROLLER, uid) for uid in counts.controllers]
        return self._too_often(
            pod, limiter, limit, keys, _TOO_OFTEN_OF_WORKLOAD, counts.workload.title
        )

    def is_namespace_moved_too_often(self, pod: Pod) -> Refusal | None:
        limiter = self.args.object_limiters.namespace
        limit = limiter.max_migrating
        if not limiter.span or not isinstance(limit, int):
            return None
        keys = [(_OF_NAMESPACE, pod.namespace)]
        where = f"namespace {pod.namespace}"
        return self._too_often(pod, limiter, limit, keys, _TOO_OFTEN_OF_NAMESPACE, where)

    def _too_often(
        self,
        pod: Pod,
        limiter: ObjectLimiter,
        limit: int,
        keys: list[tuple[str, str]],
        refusal: Refusal,
        where: str,
    ) -> Refusal | None:
        now = self.view.taken_at
        times = {uid: at for key in keys for uid, at in self._recent(key)}
        for uid in self._leaving_with(keys):
            times.setdefault(uid, now)
        times.pop(pod.uid, None)
        wait = Rate(limit, limiter.span, max(limiter.burst, 1)).wait(times.values(), now)
        if not wait:
            return None
        seconds = format_seconds(ceil(wait.total_seconds()))
        return _with(refusal, wait=seconds, limit=limit, span=limiter.duration, where=where)

    def _leaving_with(self, keys: list[tuple[str, str]]) -> Iterator[str]:
        leaving = self.view.leaving
        for scope, key in keys:
            if scope == _OF_CONTROLLER:
                yield from (pod.uid for pod in leaving.of_controller(key) if not pod.finished)
            else:
                for uid, pod in list(leaving.pods.items()):
                    if pod.namespace == key and not pod.finished:
                        yield uid

    def _recent(self, key: tuple[str, str]) -> list[tuple[str, datetime]]:
        """Uid and time of the evictions of a controller or a namespace."""
        if self._evictions is None:
            evictions: dict[tuple[str, str], list[tuple[str, datetime]]] = {}
            oldest = self.view.taken_at - self.args.eviction_window
            for eviction in self.view.evictions:
                if eviction.at >= oldest:
                    for place in (
                        (_OF_CONTROLLER, eviction.owner),
                        (_OF_NAMESPACE, eviction.namespace),
                    ):
                        evictions.setdefault(place, []).append((eviction.pod, eviction.at))
            self._evictions = evictions
        return self._evictions.get(key, [])


def _moving(gate: str, count: int, limit: int, where: str) -> Refusal | None:
    """The refusal for pods that are moving already, if these are as many as the limit."""
    if count < limit:
        return None
    verb = "is" if count == 1 else "are"
    many = format_count(count, "pod")
    return _with(_MOVING[gate], count=many, verb=verb, limit=limit, where=where)


def _with(refusal: Refusal, **facts: object) -> Refusal:
    return structs.replace(refusal, facts=facts)


class LimitRule(NamedTuple):
    """A check, and the gate of `skipEvictionGates` that turns it off."""

    check: Callable[[MovesInView, Pod], Refusal | None]
    gate: str | None = None


RULES = (
    LimitRule(MovesInView.is_unknown),
    LimitRule(MovesInView.is_of_job, EXPECTED),
    LimitRule(MovesInView.has_too_few_replicas, EXPECTED),
    LimitRule(MovesInView.is_covered_by_limit, EXPECTED),
    LimitRule(MovesInView.is_rolling_out, ROLLOUT),
    LimitRule(MovesInView.moving_globally, GLOBALLY),
    LimitRule(MovesInView.moving_from_node, PER_NODE),
    LimitRule(MovesInView.moving_in_namespace, PER_NAMESPACE),
    LimitRule(MovesInView.moving_in_workload, PER_WORKLOAD),
    LimitRule(MovesInView.is_short_of_replicas, UNAVAILABLE),
    LimitRule(MovesInView.is_moved_too_often),
    LimitRule(MovesInView.is_namespace_moved_too_often),
)
"""The rules, in the order in which they are asked."""
