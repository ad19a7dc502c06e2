"""Plans drawn again on other stages, to see whether a pod goes there."""

from __future__ import annotations

from collections.abc import Callable

from resettle.explain.overlooked import grounds
from resettle.explain.stage import Setting, Stage
from resettle.framework.plan import Plan, Proposal
from resettle.framework.verdict import Refusal
from resettle.model.pod import Pod

LARGE_CLUSTER = 5_000
STEPS_IN_SMALL_CLUSTERS = 256
STEPS_IN_LARGE_CLUSTERS = 8
"""How many values are tried one by one where the greatest change does not help; a plan over
thousands of pods takes long enough to be frugal."""

Helps = Callable[[Stage], Plan | None]
"""The plan on a stage if it is what was hoped for."""


class Trial:
    """One pod, and the stage on which it was refused."""

    def __init__(self, stage: Stage, pod: Pod) -> None:
        self.stage = stage
        self.pod = pod
        small = len(stage.snapshot.population) < LARGE_CLUSTER
        self._steps = STEPS_IN_SMALL_CLUSTERS if small else STEPS_IN_LARGE_CLUSTERS

    def watched(self, stage: Stage) -> Plan:
        """The plan on another stage, with every word about the pod."""
        return stage.plan(self.pod.key)

    def moves(self, stage: Stage) -> Plan | None:
        """The plan on another stage if the pod goes there."""
        plan = stage.plan()
        return plan if self.moves_in(plan) else None

    def moves_in(self, plan: Plan) -> bool:
        """Whether the pod is among the moves of a plan."""
        return any(move.pod.key == self.pod.key for move in plan.moves)

    def refused(self, stage: Stage) -> list[Proposal]:
        """Its proposals that were refused there, none if it goes."""
        plan = self.watched(stage)
        return [] if self.moves_in(plan) else self.refused_in(plan, stage)

    def refused_in(self, plan: Plan, stage: Stage) -> list[Proposal]:
        """The same of a plan that is drawn; what it would have met, if nobody proposed it."""
        return [it for it in plan.proposals if it.refusals] or _held_back(plan, stage, self.pod)

    def least(
        self,
        setting: Setting,
        helps: Helps,
        *,
        stage: Stage | None = None,
        thorough: bool = True,
    ) -> int | None:
        """The first step of the ladder that helps, the one before it not; None if none does."""
        ladder, before = setting.ladder, stage or self.stage

        def at(step: int) -> Plan | None:
            return helps(setting.turned(before, ladder[step]))

        low, high = -1, len(ladder) - 1
        plan = at(high)
        if plan is None:
            # The most may be too much: other pods then take what this one was to have.
            steps = range(min(high, self._steps)) if thorough else ()
            return next((step for step in steps if at(step)), None)
        for step in self._near(setting, plan):
            if low < step < high:
                low, high = (low, step) if at(step) else (step, high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if at(middle) else (middle, high)
        return high

    def _near(self, setting: Setting, plan: Plan) -> tuple[int, ...]:
        """Where on the ladder the least value should be, judged by a plan in which the pod goes."""
        if setting.guess is None or not self.moves_in(plan):
            return ()
        value = setting.guess(plan, self.pod)
        if value not in setting.ladder:
            return ()
        step = setting.ladder.index(value)
        return (step, step - 1)


def _held_back(plan: Plan, stage: Stage, pod: Pod) -> list[Proposal]:
    """What a pod that nobody proposed would have met: its guards, and limits that are used up."""
    limits = [
        Refusal(f"limit-{it.limit}", f"the limit of {it.most} for {it.where} is reached", "limits")
        for it in plan.spent
        if it.used >= it.most
    ]
    descheduler = stage.descheduler
    view = descheduler.view(stage.snapshot)
    met = {
        profile.name: (*grounds(profile, view, pod), *limits)
        for profile in descheduler.profiles
        if profile.deschedule or profile.balance
    }
    return [
        Proposal(
            subject=pod.key, profile=name, plugin="", because="", verdict="refused", refusals=all_of
        )
        for name, all_of in met.items()
        if all_of
    ]
