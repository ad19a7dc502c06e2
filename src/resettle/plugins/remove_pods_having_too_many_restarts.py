"""RemovePodsHavingTooManyRestarts: evict pods whose containers keep restarting, the worst first."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest

from resettle.framework.draft import Draft
from resettle.framework.plugin import Plugin
from resettle.framework.verdict import NotProposed, Stopped
from resettle.framework.view import View
from resettle.model.pod import Pod, State
from resettle.plugins._common import LIMIT_REACHED, NO_CANDIDATE, SweepResult, propose_each
from resettle.policy.args import Int32, SelectingArgs
from resettle.policy.problems import Problem, did_you_mean

STATES = frozenset({"Running", "CrashLoopBackOff"})


class Args(SelectingArgs, frozen=True, kw_only=True):
    """Arguments of RemovePodsHavingTooManyRestarts."""

    pod_restart_threshold: Int32 = 0
    """A pod goes when its containers have restarted this often together."""
    including_init_containers: bool = False
    """Restarts and states of init containers count too."""
    states: tuple[str, ...] = ()
    """Only pods in this phase, or with a container that waits for this reason."""

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.pod_restart_threshold < 1:
            yield Problem(
                what="`podRestartThreshold` is missing or below 1",
                fix="write how many restarts are too many, at least 1",
                at=("podRestartThreshold",),
            )
        for i, state in enumerate(self.states):
            if state not in STATES:
                yield Problem(
                    what=f"`{state}` is not a state this plugin looks at",
                    fix=did_you_mean(state, STATES),
                    at=("states", i),
                )


def restarts(state: State, args: Args) -> int:
    """How often the containers that count have restarted."""
    containers = state.watched_containers(init=args.including_init_containers)
    return sum(container.restarts for container in containers)


def restarts_too_often(state: State, args: Args) -> bool:
    """Whether the threshold is reached, in one of the states asked for."""
    if restarts(state, args) < args.pod_restart_threshold:
        return False
    if not args.states or state.phase in args.states:
        return True
    containers = state.watched_containers(init=args.including_init_containers)
    return any(container.waiting in args.states for container in containers)


def deschedule(args: Args, view: View, draft: Draft) -> Stopped | None:
    """Propose on each node the pods that restart too often, most restarts first."""

    def because(pod: Pod) -> str:
        times, most = restarts(pod.state, args), args.pod_restart_threshold
        return f"has restarted {times} times, the threshold is {most}"

    has_candidates = False
    unsettled = [
        pod
        for state, pods in view.pod_index.states.items()
        if restarts_too_often(state, args)
        for pod in view.pods_selected_by(args, pods)
    ]
    for _, pods in view.pods_by_node(unsettled):
        has_candidates = True
        worst_first = draft.sort(draft.presort(pods), lambda pod: -restarts(pod.state, args))
        if propose_each(draft, worst_first, because) is SweepResult.LIMIT_REACHED:
            return LIMIT_REACHED
    return None if has_candidates else NO_CANDIDATE


def why_not_proposed(args: Args, view: View, pod: Pod) -> NotProposed | None:
    """How far the pod is from the threshold, or in which state it is instead."""
    if restarts_too_often(pod.state, args):
        return None
    if restarts(pod.state, args) < args.pod_restart_threshold:
        return NotProposed("few-restarts", _describe_restarts(pod.state, args))
    return NotProposed("other-state", f"is {pod.state.phase}, not {' or '.join(args.states)}")


def near_misses(args: Args, view: View) -> Iterator[str]:
    """The pods with the most restarts below the threshold."""
    settled = [
        pod
        for state, pods in view.pod_index.states.items()
        if 0 < restarts(state, args) < args.pod_restart_threshold
        for pod in view.pods_selected_by(args, pods)
        if pod.node in view.names_in_scope
    ]
    for pod in nsmallest(3, settled, key=lambda pod: (-restarts(pod.state, args), pod.key)):
        yield f"{pod.key} {_describe_restarts(pod.state, args)}"


def _describe_restarts(state: State, args: Args) -> str:
    count, most = restarts(state, args), args.pod_restart_threshold
    times = "once" if count == 1 else f"{count} times"
    return f"has {f'restarted {times}' if count else 'never restarted'}, the threshold is {most}"


PLUGIN = Plugin(
    name="RemovePodsHavingTooManyRestarts",
    args=Args,
    deschedule=deschedule,
    why_not_proposed=why_not_proposed,
    near_misses=near_misses,
)
