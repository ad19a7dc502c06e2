"""The smallest change that would let a refused pod go, where one exists.

Every change is tried for real: the plan is drawn again with it, on a cluster that shares the rest,
and the pod is looked for among the moves. First each setting alone; where none helps, one refusal
after the other is lifted, and of what was needed for that nothing can be left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from resettle.explain.settings import settings_for
from resettle.explain.stage import Setting, Stage
from resettle.explain.trial import Trial
from resettle.framework.plan import Plan, Proposal
from resettle.framework.verdict import Refusal
from resettle.model.pod import Pod

MOST_CHANGES = 4


class Change(Struct, frozen=True):
    """A setting, and how far up its ladder it would be turned."""

    setting: Setting
    step: int

    @property
    def value(self) -> Any:
        """What the setting would be instead."""
        return self.setting.ladder[self.step]

    def made(self, stage: Stage) -> Stage:
        """The stage with the change made."""
        return self.setting.turned(stage, self.value)

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


def flips(stage: Stage, pod: Pod) -> Flips:
    """All single changes that let a refused pod go; if there are none, several that do together."""
    trial = Trial(stage, pod)
    refused = trial.refused(trial.stage)
    single: list[Flip] = []
    for setting in settings_for(trial.stage, pod, refused):
        step = trial.least(setting, trial.moves, thorough=_lifts_all(setting, refused))
        if step is not None:
            single.append((Change(setting, step),))
    if single:
        return Flips(tuple(_one_of_a_kind(single)))
    stuck: list[Stuck] = []
    # Settings turned all the way are quick to try; by small steps, fewer others get in between.
    for by_steps in (False, True):
        for proposal in refused:
            found = _followed(trial, proposal, by_steps=by_steps)
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


def _followed(trial: Trial, proposal: Proposal, *, by_steps: bool) -> Flip | Stuck:
    """Changes that lift one refusal of the proposal after the other, or the refusal that stays."""
    changes: dict[object, Change] = {}
    stage = trial.stage
    while not trial.moves(stage):
        now = _same(trial.refused(stage), proposal)
        if now is None:
            return Stuck(proposal.refusals[0], others_first=True)
        change = _lifting(trial, stage, now, by_steps=by_steps)
        if isinstance(change, Stuck):
            return _as_first_told(change, proposal)
        known = changes.get(change.setting.key)
        if known is not None:
            # Others have used up what had been enough, so this time it is all there is.
            change = Change(known.setting, len(known.setting.ladder) - 1)
        if change == known or (known is None and len(changes) == MOST_CHANGES):
            return _as_first_told(Stuck(now.refusals[0]), proposal)
        changes[change.setting.key] = change
        stage = _applied(trial.stage, changes.values())
    return _nothing_to_spare(trial, list(changes.values()))


def _as_first_told(stuck: Stuck, proposal: Proposal) -> Stuck:
    """The refusal in the figures of today, not in those of a stage that was tried."""
    today = {refusal.code: refusal for refusal in proposal.refusals}
    return Stuck(today.get(stuck.refusal.code, stuck.refusal), stuck.others_first)


def _same(proposals: list[Proposal], wanted: Proposal) -> Proposal | None:
    """The proposal of the same plugin; any, for a pod that was held back before it was proposed."""
    of_profile = (it for it in proposals if it.profile == wanted.profile)
    plugins = ("", wanted.plugin)
    return next((it for it in of_profile if not wanted.plugin or it.plugin in plugins), None)


def _lifting(trial: Trial, stage: Stage, now: Proposal, *, by_steps: bool) -> Change | Stuck:
    """The change of least reach after which the proposal meets its first refusal no longer."""
    first = now.refusals[0]
    others_first = False

    def lifted(changed: Stage) -> Plan | None:
        nonlocal others_first
        plan = trial.watched(changed)
        if trial.moves_in(plan):
            return plan
        then = _same(trial.refused_in(plan, changed), now)
        others_first = others_first or then is None
        gone = then is not None and all(it.code != first.code for it in then.refusals)
        return plan if gone else None

    only = structs.replace(now, refusals=(first,))
    for setting in settings_for(stage, trial.pod, [only]):
        step: int | None = len(setting.ladder) - 1
        if by_steps:
            step = trial.least(setting, lifted, stage=stage)
        elif not lifted(setting.turned(stage, setting.ladder[-1])):
            step = None
        if step is not None:
            return Change(setting, step)
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
        step = trial.least(change.setting, trial.moves, stage=before)
        changes[at] = change if step is None else Change(change.setting, step)
    return tuple(changes)


def _applied(stage: Stage, changes: Iterable[Change]) -> Stage:
    for change in changes:
        stage = change.made(stage)
    return stage
