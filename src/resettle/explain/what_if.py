"""Plans drawn again with something changed, to see whether one pod moves then.

    PlanInputs    a descheduler, a cluster, and earlier results: all that a plan is drawn from
    ChangeOption  one thing about the inputs that could be different, with the values to try
    WhatIf        one pod, and the questions that are asked of plans with changed inputs

An option only says how to make other inputs: whether it helps is seen by drawing the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from resettle.framework.descheduler import Descheduler
from resettle.framework.plan import Plan, Proposal
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds
from resettle.framework.plugin import ChangeScope
from resettle.framework.profile import Profile
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot

LARGE_CLUSTER = 5_000
STEPS_IN_SMALL_CLUSTERS = 256
STEPS_IN_LARGE_CLUSTERS = 8
"""How many values are tried one by one where the greatest change does not help; a plan for
thousands of pods takes so long that only a few are tried."""


class PlanInputs(NamedTuple):
    """All that a plan is drawn from."""

    descheduler: Descheduler
    snapshot: Snapshot
    earlier_rounds: EarlierRounds = NO_EARLIER_ROUNDS
    """The results of earlier plans from the same snapshot."""

    def draw_plan(self, *watching: str) -> Plan:
        """The plan, with all proposals and notes about the pods and nodes being watched."""
        return self.descheduler.draw_plan(
            self.snapshot, watching=watching, earlier_rounds=self.earlier_rounds
        )


class ChangeOption(Struct, frozen=True, kw_only=True):
    """Something that could be different, and the values it could have instead."""

    name: str
    """A key of the policy, or a property of an object in the cluster."""
    where: str = ""
    """The profile that holds it, or the object it belongs to."""
    current: Any = None
    values: Sequence[Any]
    """The values to try, the least change first."""
    apply: Callable[[PlanInputs, Any], PlanInputs]
    """Returns the inputs with the value in place."""
    describe: Callable[[Any], str]
    """Completes the sentence "would move if …"."""
    lifts: frozenset[str]
    """Codes of the refusals it can lift."""
    scope: ChangeScope = ChangeScope.FIGURE
    guess: Callable[[Plan, Pod], Any] | None = None
    """A value that should be near the least, given a plan in which the pod moves."""

    @property
    def key(self) -> tuple[str, str, frozenset[str]]:
        """Identifies the option among all options for the same inputs."""
        return (self.where, self.name, self.lifts)


Helps = Callable[[PlanInputs], Plan | None]
"""Returns the plan for the inputs if it is the one looked for."""


class WhatIf:
    """One pod, and the inputs with which it was refused."""

    def __init__(self, inputs: PlanInputs, pod: Pod) -> None:
        self.inputs = inputs
        self.pod = pod
        small = len(inputs.snapshot.pod_index) < LARGE_CLUSTER
        self._steps = STEPS_IN_SMALL_CLUSTERS if small else STEPS_IN_LARGE_CLUSTERS

    def watched_plan(self, inputs: PlanInputs) -> Plan:
        """The plan for other inputs, with all proposals of the pod."""
        return inputs.draw_plan(self.pod.key)

    def plan_if_moves(self, inputs: PlanInputs) -> Plan | None:
        """The plan for other inputs if the pod moves in it."""
        plan = inputs.draw_plan()
        return plan if self.moves_in(plan) else None

    def moves_in(self, plan: Plan) -> bool:
        """Whether the pod is among the moves of a plan."""
        return any(move.pod.key == self.pod.key for move in plan.moves)

    def refused_in(self, plan: Plan, inputs: PlanInputs) -> list[Proposal]:
        """The refused proposals of the pod in a plan that was drawn while it was watched.

        For a pod that no plugin proposed, these are the refusals that a proposal would have met;
        for a pod that moves, there are none.
        """
        if self.moves_in(plan):
            return []
        refused = [
            proposal
            for proposal in plan.proposals
            if proposal.subject == self.pod.key and proposal.refusals
        ]
        return refused or _expected_refusals(plan, inputs, self.pod)

    def least_step(
        self,
        option: ChangeOption,
        helps: Helps,
        *,
        inputs: PlanInputs | None = None,
        thorough: bool = True,
    ) -> int | None:
        """The index of the first value that helps while the one before does not, if any does."""
        values, before = option.values, inputs or self.inputs

        def plan_at(step: int) -> Plan | None:
            return helps(option.apply(before, values[step]))

        low, high = -1, len(values) - 1
        plan = plan_at(high)
        if plan is None:
            # The greatest change may be too much: other pods then use what this one needs.
            steps = range(min(high, self._steps)) if thorough else ()
            return next((step for step in steps if plan_at(step)), None)
        for step in self._steps_near_guess(option, plan):
            if low < step < high:
                low, high = (low, step) if plan_at(step) else (step, high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if plan_at(middle) else (middle, high)
        return high

    def _steps_near_guess(self, option: ChangeOption, plan: Plan) -> tuple[int, ...]:
        """Where the least value should be, given a plan in which the pod moves."""
        if option.guess is None or not self.moves_in(plan):
            return ()
        value = option.guess(plan, self.pod)
        if value not in option.values:
            return ()
        step = option.values.index(value)
        return (step, step - 1)


def _expected_refusals(plan: Plan, inputs: PlanInputs, pod: Pod) -> list[Proposal]:
    """What a proposal of the pod would have met: its filters, and limits that are used up."""
    limits = [
        Refusal(
            f"limit-{spent.limit}",
            "is reached",
            "limits",
            subject=f"the limit of {spent.most} for {spent.where}",
        )
        for spent in plan.spent
        if spent.used >= spent.most
    ]
    descheduler = inputs.descheduler
    view = descheduler.view(inputs.snapshot)
    refusals = {
        profile.name: (*filter_refusals(profile, view, pod), *limits)
        for profile in descheduler.profiles
        if profile.deschedule or profile.balance
    }
    return [
        Proposal(
            subject=pod.key, profile=name, plugin="", because="", verdict="refused", refusals=all_of
        )
        for name, all_of in refusals.items()
        if all_of
    ]


def filter_refusals(profile: Profile, view: View, pod: Pod) -> Iterator[Refusal]:
    """All refusals of the pod by the filters of a profile, whichever plugin would propose it."""
    for instance in (*profile.filters, *profile.pre_eviction_filters):
        try:
            first = instance.pod_check(view)(pod)
        except Exception:
            continue  # in a plan such a filter refuses the pod, and the plan says so
        if first is not None:
            yield from list(instance.all_refusals(view, pod)) or [first]
