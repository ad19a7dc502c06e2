"""PodLifeTime: evict pods that are older than the policy allows, or in a state it names.

Oldest first: when a limit ends the cycle early, the oldest have gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from heapq import nsmallest

from msgspec import Struct

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import Limit, NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.pod import CONDITIONS, ContainerState, Pod, whole_seconds
from resettle.plugins._common import LIMIT_REACHED, NO_CANDIDATE, NO_EXIT_CODE, owner_excluded
from resettle.policy.args import (
    Int32,
    Namespaces,
    SelectingArgs,
    Unsigned,
    include_exclude_problems,
)
from resettle.policy.problems import Problem, did_you_mean
from resettle.times import format_duration

STATES = frozenset(
    {
        # phases
        "Running", "Pending", "Succeeded", "Failed", "Unknown",
        # reasons of a pod
        "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError",
        # reasons of a waiting container
        "PodInitializing", "ContainerCreating", "ImagePullBackOff", "CrashLoopBackOff",
        "CreateContainerConfigError", "ErrImagePull", "CreateContainerError", "InvalidImageName",
        # reasons of an ended container
        "OOMKilled", "Error", "Completed", "DeadlineExceeded", "Evicted", "ContainerCannotRun",
        "StartError",
    }
)  # fmt: skip


class ConditionFilter(
    Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A condition that a pod may be in; every field that is set must agree."""

    type: str = ""
    """What it is called, such as `Ready`."""
    status: str = ""
    """What it says: `True`, `False` or `Unknown`."""
    reason: str = ""
    """The reason it gives, in one word."""
    min_time_since_last_transition_seconds: Unsigned | None = None
    """For how long it must have said so, at least."""

    @property
    def empty(self) -> bool:
        """Whether nothing is asked."""
        return not (self.type or self.status or self.reason) and (
            self.min_time_since_last_transition_seconds is None
        )


class OwnerKinds(Namespaces, frozen=True, kw_only=True):
    """Kinds of owners to keep to, or to leave alone."""

    include: tuple[str, ...] = ()
    """Only pods with an owner of such a kind."""
    exclude: tuple[str, ...] = ()
    """No pod with an owner of such a kind."""


class Args(SelectingArgs, frozen=True, kw_only=True):
    """Arguments of PodLifeTime; categories must all agree, within one any entry will do."""

    max_pod_life_time_seconds: Unsigned | None = None
    """A pod goes once more than this many full seconds have passed since its creation."""
    states: tuple[str, ...] = ()
    """A pod goes when its phase, its reason, or the reason a container waits or ended for is
    listed."""
    conditions: tuple[ConditionFilter, ...] = ()
    """A pod goes when it is in one of these conditions."""
    exit_codes: tuple[Int32, ...] = ()
    """A pod goes when a container has ended with one of these."""
    owner_kinds: OwnerKinds | None = None
    """Kinds of owners; narrows the rest, is no criterion by itself."""
    including_init_containers: bool = False
    """`states` and `exitCodes` look at init containers too."""
    including_ephemeral_containers: bool = False
    """`states` looks at ephemeral containers too."""

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from include_exclude_problems(self.owner_kinds, "ownerKinds")
        for i, state in enumerate(self.states):
            if state not in STATES:
                yield Problem(
                    what=f"no pod is ever in the state `{state}`",
                    fix=did_you_mean(state, STATES),
                    at=("states", i),
                )
        for i, condition in enumerate(self.conditions):
            if condition.empty:
                yield Problem(
                    what="a condition without any field would match every pod",
                    fix="set `type`, `status`, `reason` or `minTimeSinceLastTransitionSeconds`",
                    at=("conditions", i),
                )
        if self.max_pod_life_time_seconds is None and not (
            self.states or self.conditions or self.exit_codes
        ):
            yield Problem(
                what="with no criterion set, every pod would match",
                fix="set `maxPodLifeTimeSeconds`, `states`, `conditions` or `exitCodes`",
            )


def reason_to_evict(pod: Pod, args: Args, now: datetime) -> str | None:
    """Why the pod should be evicted, or None if it may stay."""
    limit = args.max_pod_life_time_seconds
    if limit is not None and not _older(pod, limit, now):
        return None
    if args.states and not _in_a_state(pod, args):
        return None
    if args.conditions and not any(_in_condition(pod, wanted, now) for wanted in args.conditions):
        return None
    if args.exit_codes and not any(
        container.exit_code in args.exit_codes
        for container in pod.state.watched_containers(init=args.including_init_containers)
    ):
        return None
    if args.owner_kinds and not _of_kind(pod, args.owner_kinds):
        return None
    if limit is None:
        return f"is in a state the policy names ({pod.state.reason or pod.state.phase})"
    return _longer(pod.age(now), timedelta(seconds=limit))


def _longer(age: timedelta, limit: timedelta) -> str:
    """Both durations in two units, or in full where two units do not show the difference."""
    units = 2 if format_duration(age) != format_duration(limit) else 4
    old, most = format_duration(age, units), format_duration(limit, units)
    return f"is {old} old, longer than {most}"


def _older(pod: Pod, limit: int, now: datetime) -> bool:
    return (
        pod.created is not None and pod.created <= now and whole_seconds(now - pod.created) > limit
    )


def _in_a_state(pod: Pod, args: Args) -> bool:
    state = pod.state
    if state.phase in args.states or state.reason in args.states:
        return True
    containers: tuple[ContainerState, ...] = state.watched_containers(
        init=args.including_init_containers
    )
    if args.including_ephemeral_containers:
        containers += state.ephemeral_containers
    return any(c.waiting in args.states or c.terminated in args.states for c in containers)


def _in_condition(pod: Pod, wanted: ConditionFilter, now: datetime) -> bool:
    least = wanted.min_time_since_last_transition_seconds
    for condition in pod.conditions:
        if wanted.type and condition.type != wanted.type:
            continue
        if wanted.status and condition.status != wanted.status:
            continue
        if wanted.reason and condition.reason != wanted.reason:
            continue
        if least is None:
            return True
        since = condition.since
        if since is not None and now >= since and (now - since) // timedelta(seconds=1) >= least:
            return True
    return False


def _of_kind(pod: Pod, kinds: Namespaces) -> bool:
    if kinds.include and not pod.template.owned_by(kinds.include):
        return False
    return not pod.template.owned_by(kinds.exclude)


def deschedule(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose every pod that matches the criteria, oldest first."""
    pods = (
        pod
        for node in view.nodes
        for pod in draft.presort(view.pods_selected_by(args, view.pods_on(node)))
    )
    reasons = {pod: why for pod in pods if (why := reason_to_evict(pod, args, view.taken_at))}
    if not reasons:
        return NO_CANDIDATE
    for pod in draft.sort(reasons, Pod.seniority):
        if draft.propose(pod, because=reasons[pod]).limit is Limit.TOTAL:
            return LIMIT_REACHED
    return None


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Which criterion the pod does not meet."""
    now, limit = view.taken_at, args.max_pod_life_time_seconds
    if reason_to_evict(pod, args, now):
        return None
    if limit is not None and not _older(pod, limit, now):
        return NotProposed("too-young", _describe_age(pod, limit, now))
    if args.states and not _in_a_state(pod, args):
        state = pod.state.reason or pod.state.phase
        return NotProposed("other-state", f"is {state}, not {' or '.join(args.states)}")
    if args.conditions and not any(_in_condition(pod, wanted, now) for wanted in args.conditions):
        return NotProposed(
            "other-condition", "is in none of the `conditions`, or not for long enough"
        )
    if args.owner_kinds and not _of_kind(pod, args.owner_kinds):
        return owner_excluded(pod, "ownerKinds")
    return NO_EXIT_CODE


def _describe_age(pod: Pod, limit: int, now: datetime) -> str:
    if pod.created is None:
        return "has no creation time"
    most = format_duration(timedelta(seconds=limit))
    return f"is {format_duration(pod.age(now))} old, the limit is {most}"


def near_misses(args: Args, view: View) -> Iterator[str]:
    """The oldest pods that are not old enough yet."""
    limit, now = args.max_pod_life_time_seconds, view.taken_at
    if limit is None:
        return
    pods = (pod for node in view.nodes for pod in view.pods_on(node))
    young = (
        pod
        for pod in view.pods_selected_by(args, pods)
        if pod.created is not None and not _older(pod, limit, now)
    )
    for pod in nsmallest(3, young, key=Pod.seniority):
        yield f"{pod.key} {_describe_age(pod, limit, now)}"


def reads(args: Args) -> frozenset[str]:
    """Conditions of pods, where some are named."""
    return frozenset({CONDITIONS}) if args.conditions else frozenset()


PLUGIN = Plugin(
    name="PodLifeTime",
    args=Args,
    deschedule=deschedule,
    reads=reads,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
)
