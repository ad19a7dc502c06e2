"""RemoveFailedPods: evict pods that have failed, once they are old enough to have been noticed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from heapq import nsmallest

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.pod import Pod, whole_seconds
from resettle.plugins._common import (
    LIMIT_REACHED,
    NO_CANDIDATE,
    NO_EXIT_CODE,
    SweepResult,
    owner_excluded,
    propose_each,
)
from resettle.policy.args import Int32, SelectingArgs, Unsigned
from resettle.times import format_duration

DEFAULT_LIFETIME_SECONDS = 3600


class Args(SelectingArgs, frozen=True, kw_only=True):
    """Arguments of RemoveFailedPods."""

    exclude_owner_kinds: tuple[str, ...] = ()
    """Pods with an owner of such a kind stay."""
    min_pod_lifetime_seconds: Unsigned | None = None
    """Full seconds since creation before a pod may go."""
    reasons: tuple[str, ...] = ()
    """Only pods that failed for one of these: the pod's reason, or why a container waits or
    ended."""
    exit_codes: tuple[Int32, ...] = ()
    """Only pods with a container that ended with one of these."""
    including_init_containers: bool = False
    """`reasons` and `exitCodes` look at init containers too."""


def reason_to_evict(pod: Pod, args: Args, now: datetime) -> str | None:
    """Why the pod should be evicted, or None if it may stay."""
    if pod.state.phase != "Failed":
        return None
    least = args.min_pod_lifetime_seconds
    age = whole_seconds(pod.age(now))
    if age < (DEFAULT_LIFETIME_SECONDS if least is None else least):
        return None
    if pod.template.owned_by(args.exclude_owner_kinds):
        return None
    if args.reasons and not set(args.reasons) & set(_reasons(pod, args)):
        return None
    containers = pod.state.watched_containers(init=args.including_init_containers)
    if args.exit_codes and not any(c.exit_code in args.exit_codes for c in containers):
        return None
    reason = f" ({pod.state.reason})" if pod.state.reason else ""
    return f"has failed{reason} and is {format_duration(timedelta(seconds=age))} old"


def _reasons(pod: Pod, args: Args) -> Iterator[str]:
    if pod.state.reason:
        yield pod.state.reason
    for container in pod.state.watched_containers(init=args.including_init_containers):
        for reason in (container.waiting, container.terminated):
            if reason is not None:
                yield reason


def deschedule(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose the failed pods of each node."""
    has_candidates = False
    phase_failed = [
        pod
        for state, pods in view.pod_index.states.items()
        if state.phase == "Failed"
        for pod in view.pods_selected_by(args, pods)
    ]
    for _, pods in view.pods_by_node(phase_failed):
        reasons = {
            pod: why
            for pod in draft.presort(pods)
            if (why := reason_to_evict(pod, args, view.taken_at))
        }
        has_candidates = has_candidates or bool(reasons)
        if (
            propose_each(draft, draft.sort(reasons), reasons.__getitem__)
            is SweepResult.LIMIT_REACHED
        ):
            return LIMIT_REACHED
    return None if has_candidates else NO_CANDIDATE


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """Which criterion the pod does not meet."""
    now = view.taken_at
    if reason_to_evict(pod, args, now):
        return None
    if pod.state.phase != "Failed":
        return NotProposed("other-state", f"is {pod.state.phase or 'in no phase'}, not Failed")
    if pod.age(now) < _least(args):
        return NotProposed("too-young", _describe_age(pod, args, now))
    if pod.template.owned_by(args.exclude_owner_kinds):
        return owner_excluded(pod, "excludeOwnerKinds")
    if args.reasons and not set(args.reasons) & set(_reasons(pod, args)):
        given = ", ".join(dict.fromkeys(_reasons(pod, args))) or "no reason"
        return NotProposed("other-reason", f"failed with {given}, which is not among the `reasons`")
    return NO_EXIT_CODE


def near_misses(args: Args, view: View) -> Iterator[str]:
    """The oldest failed pods that are not old enough yet."""
    now, least = view.taken_at, _least(args)
    states = view.pod_index.states
    fresh = [
        pod
        for state, pods in states.items()
        if state.phase == "Failed"
        for pod in view.pods_selected_by(args, pods)
        if pod.age(now) < least and pod.node in view.names_in_scope
    ]
    for pod in nsmallest(3, fresh, key=lambda pod: (pod.seniority(), pod.key)):
        yield f"{pod.key} {_describe_age(pod, args, now)}"


def _least(args: Args) -> timedelta:
    least = args.min_pod_lifetime_seconds
    return timedelta(seconds=DEFAULT_LIFETIME_SECONDS if least is None else least)


def _describe_age(pod: Pod, args: Args, now: datetime) -> str:
    least = format_duration(_least(args))
    return f"is {format_duration(pod.age(now))} old, `minPodLifetimeSeconds` is {least}"


PLUGIN = Plugin(
    name="RemoveFailedPods",
    args=Args,
    deschedule=deschedule,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
)
