"""The smallest change with which a refused pod would move, where there is one.

Every change is tried: the plan is drawn again with it, on a cluster that shares the rest, and the
pod is looked for among the moves. First each option is tried alone. Where none helps, the refusals
are lifted one after the other, and changes that turn out not to be needed are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from resettle.explain.settings import options_for
from resettle.explain.what_if import ChangeOption, PlanInputs, WhatIf
from resettle.framework.plan import Plan, Proposal
from resettle.framework.plugin import ChangeScope
from resettle.framework.verdict import Refusal
from resettle.model.pod import Pod

MOST_CHANGES = 4


class InputChange(Struct, frozen=True):
    """An option, and the index of the value that it would get."""

    option: ChangeOption
    step: int

    @property
    def value(self) -> Any:
        """The value that it would get."""
        return self.option.values[self.step]

    def apply(self, inputs: PlanInputs) -> PlanInputs:
        """The inputs with the change made."""
        return self.option.apply(inputs, self.value)

    @property
    def says(self) -> str:
        """Completes "would move if …"."""
        return self.option.describe(self.value)


ChangeSet = tuple[InputChange, ...]
"""Changes that together let the pod move; without any one of them it stays."""


class SmallestChange(Struct, frozen=True):
    """What would let the pod move, and if nothing would, the refusal that no change lifts."""

    change_sets: tuple[ChangeSet, ...] = ()
    in_the_way: Refusal | None = None
    others_first: bool = False
    """Whether without that refusal, other pods would move and this one would not be proposed."""


class Stuck(Struct, frozen=True):
    """A refusal that no option lifts, or that when lifted lets only other pods move."""

    refusal: Refusal
    others_first: bool = False


def find_smallest_change(inputs: PlanInputs, pod: Pod, plan: Plan) -> SmallestChange:
    """All single changes that let a refused pod move; if there are none, several together.

    `plan` was drawn from the inputs while the pod was watched.
    """
    what_if = WhatIf(inputs, pod)
    refused = what_if.refused_in(plan, inputs)
    single: list[ChangeSet] = []
    for option in options_for(inputs, pod, refused):
        thorough = _lifts_all(option, refused)
        step = what_if.least_step(option, what_if.plan_if_moves, thorough=thorough)
        if step is not None:
            single.append((InputChange(option, step),))
    if single:
        return SmallestChange(tuple(_one_node_of_each_kind(single)))
    stuck: list[Stuck] = []
    # The greatest change of each is quick to try; with the least, fewer other pods come first.
    for by_steps in (False, True):
        for proposal in refused:
            result = _changes_for(what_if, plan, proposal, by_steps=by_steps)
            if not isinstance(result, Stuck):
                return SmallestChange((result,))
            stuck.append(result)
    if not stuck:
        return SmallestChange()
    return SmallestChange((), stuck[0].refusal, stuck[0].others_first)


def _lifts_all(option: ChangeOption, refused: list[Proposal]) -> bool:
    """Whether the option can lift every refusal of some proposal, by their codes."""
    return any(
        {refusal.code for refusal in proposal.refusals} <= option.lifts for proposal in refused
    )


def _one_node_of_each_kind(single: Iterable[ChangeSet]) -> list[ChangeSet]:
    """The changes, with only the first of several nodes to which the same could be done."""
    kept: dict[object, ChangeSet] = {}
    for changes in single:
        option = changes[0].option
        of_node = option.scope is ChangeScope.NODE
        kept.setdefault((option.name, option.lifts) if of_node else option.key, changes)
    return list(kept.values())


def _changes_for(
    what_if: WhatIf, plan: Plan, proposal: Proposal, *, by_steps: bool
) -> ChangeSet | Stuck:
    """Changes that lift the refusals of the proposal one by one, or the refusal that stays."""
    changes: dict[object, InputChange] = {}
    inputs = what_if.inputs
    while not what_if.moves_in(plan):
        current = _same(what_if.refused_in(plan, inputs), proposal)
        if current is None:
            return Stuck(proposal.refusals[0], others_first=True)
        change = _change_that_lifts(what_if, inputs, current, by_steps=by_steps)
        if isinstance(change, Stuck):
            return _in_original_figures(change, proposal)
        known = changes.get(change.option.key)
        if known is not None:
            # Other pods have used up what was enough before, so now make the greatest change.
            change = InputChange(known.option, len(known.option.values) - 1)
        if change == known or (known is None and len(changes) == MOST_CHANGES):
            return _in_original_figures(Stuck(current.refusals[0]), proposal)
        changes[change.option.key] = change
        inputs = _apply_all(what_if.inputs, changes.values())
        plan = what_if.watched_plan(inputs)
    return _without_unneeded(what_if, list(changes.values()))


def _in_original_figures(stuck: Stuck, proposal: Proposal) -> Stuck:
    """The refusal with the figures of the first plan, not those of a plan with changes."""
    original = {refusal.code: refusal for refusal in proposal.refusals}
    return Stuck(original.get(stuck.refusal.code, stuck.refusal), stuck.others_first)


def _same(proposals: list[Proposal], wanted: Proposal) -> Proposal | None:
    """The proposal of the same plugin; any, for a pod that no plugin had proposed."""
    of_profile = (proposal for proposal in proposals if proposal.profile == wanted.profile)
    plugins = ("", wanted.plugin)
    return next(
        (proposal for proposal in of_profile if not wanted.plugin or proposal.plugin in plugins),
        None,
    )


def _change_that_lifts(
    what_if: WhatIf, inputs: PlanInputs, current: Proposal, *, by_steps: bool
) -> InputChange | Stuck:
    """The change of smallest scope with which the proposal no longer meets its first refusal."""
    first = current.refusals[0]
    others_first = False

    def plan_if_lifted(changed: PlanInputs) -> Plan | None:
        nonlocal others_first
        plan = what_if.watched_plan(changed)
        if what_if.moves_in(plan):
            return plan
        later = _same(what_if.refused_in(plan, changed), current)
        others_first = others_first or later is None
        lifted = later is not None and all(refusal.code != first.code for refusal in later.refusals)
        return plan if lifted else None

    only = structs.replace(current, refusals=(first,))
    for option in options_for(inputs, what_if.pod, [only]):
        step: int | None = len(option.values) - 1
        if by_steps:
            step = what_if.least_step(option, plan_if_lifted, inputs=inputs)
        elif not plan_if_lifted(option.apply(inputs, option.values[-1])):
            step = None
        if step is not None:
            return InputChange(option, step)
    return Stuck(first, others_first)


def _without_unneeded(what_if: WhatIf, changes: list[InputChange]) -> ChangeSet:
    """The changes without those that are not needed, each as small as the others allow."""
    for change in sorted(changes, key=lambda change: -change.option.scope):
        rest = [other for other in changes if other is not change]
        # With no change at all the pod stays: that was the first plan.
        if rest and what_if.plan_if_moves(_apply_all(what_if.inputs, rest)):
            changes = rest
    for at, change in enumerate(changes):
        rest = [other for other in changes if other is not change]
        before = _apply_all(what_if.inputs, rest)
        step = what_if.least_step(change.option, what_if.plan_if_moves, inputs=before)
        changes[at] = change if step is None else InputChange(change.option, step)
    return tuple(changes)


def _apply_all(inputs: PlanInputs, changes: Iterable[InputChange]) -> PlanInputs:
    for change in changes:
        inputs = change.apply(inputs)
    return inputs
