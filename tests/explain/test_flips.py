"""What is offered as a change that moves a refused pod does move it, and nothing less does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import chain, islice

import pytest

from resettle.explain.flips import Change, Flip, Flips, flips
from resettle.explain.pod import answer_for
from resettle.explain.settings import every_setting
from resettle.explain.stage import Stage
from resettle.explain.trial import Trial
from resettle.explain.watched import Watched
from resettle.framework.codes import REFUSED
from resettle.model import Pod
from tests.explain.varied import Varied, drawn_to, leader_and_follower, varied

pytestmark = pytest.mark.slow

PODS_FOR_EACH_CODE = 9
PODS_HELD_BACK = 20
NOT_IN_THE_WAY = {"already-planned", "declined"}
"""The first moves on another plugin's word; of the second only a run can tell, and no plan."""


class Asked:
    """A pod that was refused, with what was offered for it."""

    def __init__(self, world: Varied, pod: Pod) -> None:
        self.world = world
        self.pod = pod
        self.trial = Trial(Stage(world.descheduler, world.snapshot), pod)

    def __repr__(self) -> str:
        return f"{self.world.id} {self.pod.key}"

    def after(self, changes: Iterable[Change]) -> bool:
        """Whether the pod moves once these changes are made."""
        stage = self.trial.stage
        for change in changes:
            stage = change.made(stage)
        return self.trial.moves(stage) is not None

    @cached_property
    def offered(self) -> Flips:
        return flips(Stage(self.world.descheduler, self.world.snapshot), self.pod)

    def single_changes(self) -> Iterator[Change]:
        """Every value of every setting, whether or not it has to do with the refusals."""
        refused = self.trial.refused(self.trial.stage)
        met = [refusal for proposal in refused for refusal in proposal.refusals]
        profiles = {proposal.profile for proposal in refused}
        for setting in every_setting(self.trial.stage, self.pod, profiles, met):
            yield from (Change(setting, step) for step in range(len(setting.ladder)))


@cache
def worlds() -> tuple[Varied, ...]:
    special = (leader_and_follower(), drawn_to("ssd"), drawn_to("nvme"))
    return (*varied(seed=20260131, every=2), *special)


@cache
def refused_pods() -> tuple[Asked, ...]:
    """Pods of varied clusters, up to nine for each code they were first refused with."""
    found: dict[str, list[Asked]] = {}
    for world in worlds():
        keys = [pod.key for pod in world.snapshot.pods]
        plan = world.descheduler.draw_plan(world.snapshot, watching=keys)
        moving = {move.pod.key for move in plan.moves}
        firsts = {it.subject: it.refusals[0] for it in plan.proposals if it.refusals}
        taken: Counter[str] = Counter()
        for key, refusal in firsts.items():
            of_code = found.setdefault(refusal.code, [])
            pod = world.snapshot.pod(*key.split("/"))
            if pod is None or key in moving or taken[refusal.code] > 1:
                continue
            if len(of_code) < PODS_FOR_EACH_CODE:
                taken[refusal.code] += 1
                of_code.append(Asked(world, pod))
    return tuple(chain.from_iterable(found[code] for code in sorted(found)))


@cache
def held_back_pods() -> tuple[Asked, ...]:
    """Pods that a plugin would have wanted, had their turn come; one of a cluster."""
    found: list[Asked] = []
    for world in worlds():
        keys = [pod.key for pod in world.snapshot.pods]
        watched = Watched(Stage(world.descheduler, world.snapshot), keys)
        waiting = (
            pod
            for pod in world.snapshot.pods
            if not watched.proposals_of(pod) and answer_for(watched, pod).refused
        )
        found += (Asked(world, pod) for pod in islice(waiting, 1))
        if len(found) == PODS_HELD_BACK:
            break
    return tuple(found)


def test_every_refusal_occurs_among_the_pods_that_are_asked_about() -> None:
    met = {
        proposal.refusals[0].code
        for asked in refused_pods()
        for proposal in asked.trial.refused(asked.trial.stage)
    }

    assert met == set(REFUSED) - NOT_IN_THE_WAY
    assert len(refused_pods()) > 200


def test_what_is_offered_moves_the_pod_and_nothing_of_it_can_be_spared() -> None:
    wrong = [
        (asked, [change.says for change in flip], complaint)
        for asked in (*refused_pods(), *held_back_pods())
        for flip in asked.offered.offered
        for complaint in complaints(asked, flip)
    ]

    assert wrong == []


def complaints(asked: Asked, flip: Flip) -> Iterator[str]:
    if not asked.after(flip):
        yield "the pod stays"
    for at, change in enumerate(flip):
        rest = (*flip[:at], *flip[at + 1 :])
        if asked.after(rest):
            yield f"it moves without `{change.says}`"
        if change.step:
            less = Change(change.setting, change.step - 1)
            if asked.after((*flip[:at], less, *flip[at + 1 :])):
                yield f"it moves with `{less.says}` already"


def test_where_no_single_change_is_offered_none_exists() -> None:
    missed = [
        (asked, change.says)
        for asked in (*refused_pods(), *held_back_pods())
        if not any(len(flip) == 1 for flip in asked.offered.offered)
        for change in asked.single_changes()
        if asked.after([change])
    ]

    assert missed == []


def test_where_nothing_is_offered_a_refusal_is_named() -> None:
    silent = [
        asked
        for asked in refused_pods()
        if not asked.offered.offered and asked.offered.in_the_way is None
    ]

    assert silent == []
