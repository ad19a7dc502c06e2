"""The smallest change that would let a refused pod go, where one exists.

Every change is tried for real: the plan is drawn again with it, on a cluster that shares the rest,
and the pod is looked for among the moves. First each setting alone; where none helps, one refusal
after the other is lifted, and of what was needed for that nothing can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct, structs

from resettle.explain.overlooked import grounds
from resettle.explain.settings import settings_for
from resettle.explain.stage import Setting, Stage
from resettle.framework.descheduler import Descheduler
from resettle.framework.plan import Plan, Proposal
from resettle.framework.verdict import Refusal
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot

MOST_CHANGES = 4
LARGE_CLUSTER = 5_000
STEPS_IN_SMALL_CLUSTERS = 256
STEPS_IN_LARGE_CLUSTERS = 8
"""How many values are tried one by one where the greatest change does not help; a plan over
thousands of pods takes long enough to be frugal."""


class Change(Struct, frozen=True):
    """A setting, and the value it would have instead."""

    setting: Setting
    value: Any

    @property
    def says(self) -> str:
        """Completes "would move if …"."""
        return self.setting.says(self.value)


Flip = tuple[Change, ...]
"""Changes that together let the pod go; without any one of them it stays."""


class Flips(Struct, frozen=True):
    """What would let the pod go, and if nothing would, what is in the way for good."""

    offered: tuple[Flip, ...] = ()
    in_the_way: Refusal | None = None
    others_first: bool = False
    """Whether without that, other pods would go and this one would not be wanted any more."""


def flips(descheduler: Descheduler, snapshot: Snapshot, pod: Pod) -> Flips:
    """All single changes that let a refused pod go; if there are none, several that do together."""
    trial = Trial(Stage(descheduler, snapshot), pod)
    refused = trial.refused(trial.stage)
    single = [
        (Change(setting, value),)
        for setting in settings_for(trial.stage, pod, refused)
        for value in trial.least(setting, trial.moves, thorough=_lifts_all(setting, refused))
    ]
    if single:
        return Flips(tuple(_one_of_a_kind(single)))
    stuck: list[Stuck] = []
    for proposal in refused:
        found = _followed(trial, proposal)
        if not isinstance(found, Stuck):
            return Flips((found,))
        stuck.append(found)
    return Flips((), stuck[0].refusal, stuck[0].others_first) if stuck else Flips()


class Stuck(Struct, frozen=True):
    """A refusal that no setting lifts, or that only other pods gain by."""

    refusal: Refusal
    others_first: bool = False


def _lifts_all(setting: Setting, refused: list[Proposal]) -> bool:
    """Whether some proposal would meet no refusal any more, as far as codes can tell."""
    return any({it.code for it in proposal.refusals} <= setting.lifts for proposal in refused)


def _one_of_a_kind(single: Iterable[Flip]) -> list[Flip]:
    """The first of several nodes that could be opened, and whatever else there is."""
    kept: dict[object, Flip] = {}
    for flip in single:
        setting = flip[0].setting
        one_will_do = setting.where.startswith("node ")
        kept.setdefault((setting.name, setting.lifts) if one_will_do else setting.key, flip)
    return list(kept.values())


class Trial:
    """Plans drawn on changed stages, with one pod watched."""

    def __init__(self, stage: Stage, pod: Pod) -> None:
        self.stage = stage
        self.pod = pod
        small = len(stage.snapshot.population) < LARGE_CLUSTER
        self._steps = STEPS_IN_SMALL_CLUSTERS if small else STEPS_IN_LARGE_CLUSTERS

    def plan(self, stage: Stage) -> Plan:
        """The plan on another stage."""
        return stage.descheduler.draw_plan(stage.snapshot, watching=(self.pod.key,))

    def moves(self, stage: Stage) -> bool:
        """Whether the pod goes there."""
        return self.moves_in(stage.descheduler.draw_plan(stage.snapshot))

    def moves_in(self, plan: Plan) -> bool:
        """Whether the pod is among the moves of a plan."""
        return any(move.pod.key == self.pod.key for move in plan.moves)

    def refused(self, stage: Stage) -> list[Proposal]:
        """Its proposals that were refused; limits that are used up where it was never proposed."""
        plan = self.plan(stage)
        return [] if self.moves_in(plan) else self.refused_in(plan, stage)

    def refused_in(self, plan: Plan, stage: Stage) -> list[Proposal]:
        """The same of a plan that is drawn already and leaves the pod where it is."""
        return [it for it in plan.proposals if it.refusals] or _held_back(plan, stage, self.pod)

    def least(
        self,
        setting: Setting,
        helps: Callable[[Stage], bool],
        *,
        stage: Stage | None = None,
        thorough: bool = True,
    ) -> Iterator[Any]:
        """The least value that helps, if one does; the value a step before it does not."""
        ladder, before = setting.ladder, stage or self.stage

        def at(step: int) -> bool:
            return helps(setting.turned(before, ladder[step]))

        low, high = -1, len(ladder) - 1
        if not at(high):
            # The most may be too much: other pods then take what this one was to have.
            steps = range(min(high, self._steps)) if thorough else ()
            first = next((step for step in steps if at(step)), None)
            if first is not None:
                yield ladder[first]
            return
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if at(middle) else (middle, high)
        yield ladder[high]


def _held_back(plan: Plan, stage: Stage, pod: Pod) -> list[Proposal]:
    """What a pod that nobody proposed would have met: its guards, and limits that are used up."""
    limits = [
        Refusal(f"limit-{it.limit}", f"the limit of {it.most} for {it.where} is reached", "limits")
        for it in plan.spent
        if it.used >= it.most
    ]
    descheduler = stage.descheduler
    snapshot = stage.snapshot.read_as(descheduler.semantics, descheduler.node_selector)
    met = {
        profile.name: (*grounds(profile, snapshot, pod), *limits)
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


def _followed(trial: Trial, proposal: Proposal) -> Flip | Stuck:
    """Changes that lift one refusal of the proposal after the other, or the refusal that stays."""
    changes: list[Change] = []
    stage = trial.stage
    while not trial.moves(stage):
        now = _same(trial.refused(stage), proposal)
        if now is None:
            return Stuck(proposal.refusals[0])
        change = _lifting(trial, stage, now)
        if isinstance(change, Stuck):
            return change
        if len(changes) == MOST_CHANGES:
            return Stuck(now.refusals[0])
        changes.append(change)
        stage = change.setting.turned(stage, change.value)
    return _nothing_to_spare(trial, changes)


def _same(proposals: list[Proposal], wanted: Proposal) -> Proposal | None:
    """The proposal of the same plugin; any, for a pod that was held back before it was proposed."""
    of_profile = (it for it in proposals if it.profile == wanted.profile)
    plugins = ("", wanted.plugin)
    return next((it for it in of_profile if not wanted.plugin or it.plugin in plugins), None)


def _lifting(trial: Trial, stage: Stage, now: Proposal) -> Change | Stuck:
    """The change of least reach after which the proposal meets its first refusal no longer."""
    first = now.refusals[0]
    others_first = False

    def lifted(changed: Stage) -> bool:
        nonlocal others_first
        plan = trial.plan(changed)
        if trial.moves_in(plan):
            return True
        then = _same(trial.refused_in(plan, changed), now)
        others_first = others_first or then is None
        return then is not None and all(it.code != first.code for it in then.refusals)

    only = structs.replace(now, refusals=(first,))
    for setting in settings_for(stage, trial.pod, [only]):
        for value in trial.least(setting, lifted, stage=stage):
            return Change(setting, value)
    return Stuck(first, others_first)


def _nothing_to_spare(trial: Trial, changes: list[Change]) -> Flip:
    """The same changes without those that are not needed, each as small as the others allow."""
    for change in sorted(changes, key=lambda it: -it.setting.reach):
        rest = [it for it in changes if it is not change]
        if trial.moves(_applied(trial.stage, rest)):
            changes = rest
    for at, change in enumerate(changes):
        rest = [it for it in changes if it is not change]
        before = _applied(trial.stage, rest)
        for value in trial.least(change.setting, trial.moves, stage=before):
            changes[at] = Change(change.setting, value)
    return tuple(changes)


def _applied(stage: Stage, changes: Iterable[Change]) -> Stage:
    for change in changes:
        stage = change.setting.turned(stage, change.value)
    return stage
