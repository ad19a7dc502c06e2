"""Short words for the tests: plans drawn again and again, with answers that a test makes up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from msgspec import structs

from resettle.framework import (
    Descheduler,
    Draft,
    Instance,
    Move,
    MoveResponse,
    MoveResult,
    Plan,
    Plugin,
    build_descheduler,
    default_registry,
    load_policy,
)
from resettle.framework.plan_state import NO_EARLIER_ROUNDS, EarlierRounds
from resettle.framework.view import View
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.policy.args import ExtensionPoint

Judge = Callable[[Move], MoveResult]
ROUNDS = 8


class Cycle:
    """Plans drawn from one snapshot one after the other, and what became of their moves."""

    def __init__(self, planner: Descheduler, snapshot: Snapshot, judge: Judge) -> None:
        self.snapshot = snapshot
        self.plans: list[Plan] = []
        self.moved: list[tuple[Move, MoveResult]] = []
        earlier_rounds = NO_EARLIER_ROUNDS
        for _ in range(ROUNDS):
            plan = planner.draw_plan(snapshot, earlier_rounds=earlier_rounds)
            ends = [judge(move) for move in plan.moves]
            self.plans.append(plan)
            self.moved += zip(plan.moves, ends, strict=True)
            earlier_rounds = earlier_rounds.after(plan.moves, map(MoveResponse, ends))
            if not plan.moves:
                break

    @property
    def made(self) -> list[Pod]:
        """Pods that count against limits and budgets."""
        return [move.pod for move, ending in self.moved if ending.counts_as_leaving]

    @property
    def away(self) -> list[Pod]:
        """Pods that were on their way before."""
        return [pod for pod in self.snapshot.pods if pod.uid in self.snapshot.moving]

    @property
    def names(self) -> list[list[str]]:
        """The names of the pods that each plan moves."""
        return [[move.pod.name for move in plan.moves] for plan in self.plans]


def by_chance(seed: int, endings: Sequence[MoveResult]) -> Judge:
    """Throws dice for every move."""
    dice = Random(seed)
    return lambda move: dice.choice(endings)


def by_name(endings: Mapping[str, MoveResult]) -> Judge:
    """Grants every move but those named."""
    return lambda move: endings.get(move.pod.name, MoveResult.EVICTED)


def earlier_rounds_of(snapshot: Snapshot, endings: Mapping[str, MoveResult]) -> EarlierRounds:
    """The earlier rounds in which moves of these pods of `default` had these results."""
    pods = {pod.name: pod for pod in snapshot.pods}
    moves = [Move(pods[name], "Sweeper0", "it", "was asked") for name in endings]
    return NO_EARLIER_ROUNDS.after(moves, map(MoveResponse, endings.values()))


# -- plugins that ask much ------------------------------------------------------------------------


def propose_everybody(args: Any, view: View, draft: Draft) -> None:
    for pod in view.pods:
        draft.propose(pod, because="everybody goes")


def propose_everybody_twice(args: Any, view: View, draft: Draft) -> None:
    for pod in reversed(view.pods * 2):
        draft.propose(pod, because="everybody goes")


def ask_about_everybody(args: Any, view: View, draft: Draft) -> None:
    for pod in view.pods * 2:
        draft.objection(pod)


EAGER = Plugin(name="Eager", deschedule=propose_everybody, balance=propose_everybody_twice)
CURIOUS = Plugin(name="Curious", deschedule=ask_about_everybody, balance=ask_about_everybody)
REGISTRY = default_registry().with_plugins(EAGER)


def planner(document: Mapping[str, Any]) -> Descheduler:
    """The descheduler of a policy document."""
    header = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    text = json.dumps({**header, **document})
    return build_descheduler(load_policy(text, name="policy", plugins=REGISTRY), REGISTRY)


def questioned(plans: Descheduler) -> Descheduler:
    """The descheduler with a plugin that only asks, before and after every plugin's turn."""

    def among(turns: tuple[Instance, ...], point: ExtensionPoint) -> tuple[Instance, ...]:
        asks = Instance(CURIOUS, CURIOUS.args(), point)
        return (asks, *(instance for turn in turns for instance in (turn, asks)))

    return structs.replace(
        plans,
        profiles=tuple(
            structs.replace(
                profile,
                deschedule=among(profile.deschedule, ExtensionPoint.DESCHEDULE),
                balance=among(profile.balance, ExtensionPoint.BALANCE),
            )
            for profile in plans.profiles
        ),
    )
