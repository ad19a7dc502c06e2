"""What is offered as a change that moves a refused pod does move it, and nothing less does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import chain, islice

import pytest

from resettle.explain.cycle import WatchedPlan
from resettle.explain.pod import answer_for
from resettle.explain.settings import all_options
from resettle.explain.smallest_change import (
    ChangeSet,
    InputChange,
    SmallestChange,
    find_smallest_change,
)
from resettle.explain.what_if import PlanInputs, WhatIf
from resettle.framework.codes import REFUSED
from resettle.framework.plan import Plan, Proposal
from resettle.model import Pod
from tests.explain.varied_clusters import Varied, drawn_to, leader_and_follower, varied

pytestmark = pytest.mark.slow

PODS_FOR_EACH_CODE = 9
PODS_HELD_BACK = 20
NOT_IN_THE_WAY = {
    *("already-planned", "declined"),
    *("no-place-to-hold", "placeholder", "pod-changed"),
    *("job-pod", "limit-too-wide", "rolling-out", "too-few-replicas", "workload-unknown"),
    *("moving-namespace", "moving-node", "moving-total", "moving-workload"),
    *("rate-namespace", "rate-workload", "unavailable-workload"),
}
"""The first moves on another plugin's word; the second is known only after a run; the next three
belong to migration jobs, the others to MigrationLimits, which the policies here do not enable."""


class Asked:
    """A pod that was refused, with what was offered for it."""

    def __init__(self, world: Varied, pod: Pod) -> None:
        self.world = world
        self.pod = pod
        self.inputs = PlanInputs(world.descheduler, world.snapshot)
        self.what_if = WhatIf(self.inputs, pod)

    def __repr__(self) -> str:
        return f"{self.world.id} {self.pod.key}"

    def after(self, changes: Iterable[InputChange]) -> bool:
        """Whether the pod moves once these changes are made."""
        inputs = self.inputs
        for change in changes:
            inputs = change.apply(inputs)
        return self.what_if.plan_if_moves(inputs) is not None

    @cached_property
    def refused(self) -> list[Proposal]:
        return self.what_if.refused_in(self.plan, self.inputs)

    @cached_property
    def plan(self) -> Plan:
        return self.inputs.draw_plan(self.pod.key)

    @cached_property
    def smallest(self) -> SmallestChange:
        return find_smallest_change(self.inputs, self.pod, self.plan)

    def single_changes(self) -> Iterator[InputChange]:
        """Every value of every setting, whether or not it has to do with the refusals."""
        refusals = [refusal for proposal in self.refused for refusal in proposal.refusals]
        profiles = {proposal.profile for proposal in self.refused}
        for option in all_options(self.inputs, self.pod, profiles, refusals):
            yield from (InputChange(option, step) for step in range(len(option.values)))


@cache
def worlds() -> tuple[Varied, ...]:
    special = (leader_and_follower(), drawn_to("ssd"), drawn_to("nvme"))
    return (*varied(seed=20260131, every=2), *special)


@cache
def refused_pods() -> tuple[Asked, ...]:
    """Pods of varied clusters, up to nine for each code they were first refused with."""
    by_code: dict[str, list[Asked]] = {}
    for world in worlds():
        keys = [pod.key for pod in world.snapshot.pods]
        plan = world.descheduler.draw_plan(world.snapshot, watching=keys)
        moving = {move.pod.key for move in plan.moves}
        firsts = {
            proposal.subject: proposal.refusals[0]
            for proposal in plan.proposals
            if proposal.refusals
        }
        taken: Counter[str] = Counter()
        for key, refusal in firsts.items():
            of_code = by_code.setdefault(refusal.code, [])
            pod = world.snapshot.pod(*key.split("/"))
            if pod is None or key in moving or taken[refusal.code] > 1:
                continue
            if len(of_code) < PODS_FOR_EACH_CODE:
                taken[refusal.code] += 1
                of_code.append(Asked(world, pod))
    return tuple(chain.from_iterable(by_code[code] for code in sorted(by_code)))


@cache
def held_back_pods() -> tuple[Asked, ...]:
    """Pods that a plugin would have wanted, had their turn come; one of a cluster."""
    held_back: list[Asked] = []
    for world in worlds():
        keys = [pod.key for pod in world.snapshot.pods]
        watched = WatchedPlan(PlanInputs(world.descheduler, world.snapshot), keys)
        waiting = (
            pod
            for pod in world.snapshot.pods
            if not watched.proposals_of(pod) and answer_for(watched, pod).refused
        )
        held_back += (Asked(world, pod) for pod in islice(waiting, 1))
        if len(held_back) == PODS_HELD_BACK:
            break
    return tuple(held_back)


def test_every_refusal_occurs_among_the_pods_that_are_asked_about() -> None:
    met = {proposal.refusals[0].code for asked in refused_pods() for proposal in asked.refused}

    assert met == set(REFUSED) - NOT_IN_THE_WAY
    assert len(refused_pods()) > 200


def test_what_is_offered_moves_the_pod_and_nothing_of_it_can_be_spared() -> None:
    wrong = [
        (asked, [change.says for change in changes], complaint)
        for asked in (*refused_pods(), *held_back_pods())
        for changes in asked.smallest.change_sets
        for complaint in complaints(asked, changes)
    ]

    assert wrong == []


def complaints(asked: Asked, changes: ChangeSet) -> Iterator[str]:
    if not asked.after(changes):
        yield "the pod stays"
    for at, change in enumerate(changes):
        rest = (*changes[:at], *changes[at + 1 :])
        if asked.after(rest):
            yield f"it moves without `{change.says}`"
        if change.step:
            less = InputChange(change.option, change.step - 1)
            if asked.after((*changes[:at], less, *changes[at + 1 :])):
                yield f"it moves with `{less.says}` already"


def test_where_no_single_change_is_offered_none_exists() -> None:
    missed = [
        (asked, change.says)
        for asked in (*refused_pods(), *held_back_pods())
        if not any(len(changes) == 1 for changes in asked.smallest.change_sets)
        for change in asked.single_changes()
        if asked.after([change])
    ]

    assert missed == []


def test_where_nothing_is_offered_a_refusal_is_named() -> None:
    silent = [
        asked
        for asked in refused_pods()
        if not asked.smallest.change_sets and asked.smallest.in_the_way is None
    ]

    assert silent == []
