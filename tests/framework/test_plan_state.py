"""A plan drawn again after outcomes: it spends what is left, and asks no pod twice."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.framework import Descheduler, Draft, Limits, MoveResult, Plan
from resettle.framework.view import View
from resettle.model.semantics import IMPROVED, PARITY, Semantics
from resettle.testing import World, budget, cluster, node, pod, spread
from tests.framework.fakes import Cycle, by_name, earlier_rounds_of, planner
from tests.framework.harness import (
    EVICTOR,
    Sweeping,
    guarded_by,
    instance,
    pod_named,
    proposing,
    sweeper,
)

E = MoveResult
BOTH = pytest.mark.parametrize(
    "semantics", [pytest.param(PARITY, id="parity"), pytest.param(IMPROVED, id="improved")]
)
WEB = {"app": "web"}
WORLD = cluster(
    node("n1").holding(pod("a", labels=WEB), pod("b", labels=WEB), pod("c")),
    node("n2").holding(pod("d")),
    node("n3"),
)


def drawn_again(
    sweep: Sweeping,
    endings: dict[str, MoveResult],
    *,
    world: World = WORLD,
    limits: Limits | None = None,
    semantics: Semantics = PARITY,
) -> Plan:
    """The plan of a sweep after moves of these pods have ended so."""
    profile = guarded_by(EVICTOR, deschedule=(instance(sweeper(sweep, "Sweeper0")),))
    snapshot = world.snapshot()
    made = Descheduler(profiles=(profile,), limits=limits or Limits(), semantics=semantics)
    return made.draw_plan(snapshot, earlier_rounds=earlier_rounds_of(snapshot, endings))


def moved(plan: Plan) -> list[str]:
    return [move.pod.name for move in plan.moves]


# -- what is left ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("ending", "next_in_line"),
    [
        pytest.param(E.EVICTED, [], id="evicted"),
        pytest.param(E.BACKGROUND, [], id="moved by others from now on"),
        pytest.param(E.UNKNOWN, [], id="the result is unknown, so it counts"),
        pytest.param(E.GONE, ["b"], id="left without our help, so it costs nothing"),
        pytest.param(E.BUDGET, ["b"], id="refused by a budget"),
        pytest.param(E.WEBHOOK, ["b"], id="refused by a webhook"),
        pytest.param(E.CHANGED, ["b"], id="left alone"),
        pytest.param(E.ERROR, ["b"], id="not asked in the end"),
    ],
)
@pytest.mark.parametrize(
    ("limits", "budgets"),
    [
        pytest.param(Limits(total=1), [], id="a limit of the cycle"),
        pytest.param(Limits(node=1), [], id="a limit of the node"),
        pytest.param(Limits(namespace=1), [], id="a limit of the namespace"),
        pytest.param(Limits(), [budget("web", allowed=1, labels=WEB)], id="a budget"),
    ],
)
def test_what_a_move_did_not_use_is_left_to_the_next_pod(
    limits: Limits,
    budgets: list[dict[str, Any]],
    ending: MoveResult,
    next_in_line: list[str],
    semantics: Semantics,
) -> None:
    world = World([*WORLD.objects, *budgets])
    sweep = proposing("a", "b")

    plan = drawn_again(sweep, {"a": ending}, world=world, limits=limits, semantics=semantics)

    assert moved(plan) == next_in_line


@pytest.mark.parametrize(
    ("endings", "verdicts"),
    [
        pytest.param({}, ["admitted", "admitted"], id="nothing has happened"),
        pytest.param({"a": E.EVICTED}, ["moving", "admitted"], id="one has left"),
        pytest.param({"a": E.GONE}, ["moving", "admitted"], id="or had"),
        pytest.param({"a": E.ERROR}, ["declined", "admitted"], id="one was declined"),
        pytest.param({"a": E.UNSENT}, ["admitted", "admitted"], id="one was never asked"),
    ],
)
def test_a_plugin_learns_what_became_of_a_pod(
    endings: dict[str, MoveResult], verdicts: list[str]
) -> None:
    answers: list[str] = []

    def sweep(view: View, draft: Draft) -> None:
        for name in ("a", "b"):
            verdict = draft.propose(pod_named(view, name), because="was asked")
            answers.append(verdict.refusal.code if verdict.refusal else verdict.kind)

    drawn_again(sweep, endings)

    assert answers == verdicts


def test_a_declined_pod_uses_no_limit_up_so_it_stops_no_plugin() -> None:
    """A limit would have the plugin leave the node, with pods behind that it has yet to meet."""
    limits = Limits(node=1)
    answers: list[object] = []

    def sweep(view: View, draft: Draft) -> None:
        for name in ("a", "b"):
            verdict = draft.propose(pod_named(view, name), because="was asked")
            answers.append(verdict.limit)

    drawn_again(sweep, {"a": E.ERROR, "b": E.EVICTED}, limits=limits)

    assert answers == [None, None]


@pytest.mark.parametrize(
    ("endings", "goes"),
    [
        pytest.param({}, ["a"], id="in the first plan"),
        pytest.param({"a": E.EVICTED}, [], id="and in the next"),
    ],
)
def test_in_parity_who_is_proposed_twice_spends_a_limit_twice(
    endings: dict[str, MoveResult], goes: list[str]
) -> None:
    plan = drawn_again(proposing("a", "a", "b"), endings, limits=Limits(total=2))

    assert moved(plan) == goes
    assert plan.refused == {"limit-total": 1}


@BOTH
@pytest.mark.parametrize(
    ("endings", "goes"),
    [
        pytest.param({}, ["a", "b"], id="in the first plan"),
        pytest.param({"a": E.EVICTED}, ["b"], id="and in the next"),
        pytest.param({"a": E.ERROR}, ["b", "c"], id="where some were declined"),
    ],
)
def test_to_ask_for_objections_costs_nothing(
    endings: dict[str, MoveResult], goes: list[str], semantics: Semantics
) -> None:
    def sweep(view: View, draft: Draft) -> None:
        for name in ("a", "b", "c"):
            for other in ("a", "b", "c", name):
                draft.objection(pod_named(view, other))
            draft.propose(pod_named(view, name), because="was asked")
            draft.objection(pod_named(view, name))

    plan = drawn_again(sweep, endings, limits=Limits(total=2), semantics=semantics)

    assert moved(plan) == goes


@BOTH
def test_a_pod_that_left_looks_so_from_where_the_plan_meets_it(semantics: Semantics) -> None:
    looks: list[bool] = []

    def sweep(view: View, draft: Draft) -> None:
        leaving = pod_named(view, "a")
        looks.append(draft.is_terminating(leaving))
        draft.propose(leaving, because="was asked")
        looks.append(draft.is_terminating(leaving))

    drawn_again(sweep, {"a": E.EVICTED}, semantics=semantics)

    assert looks == [False, True]


def test_a_declined_pod_is_refused_in_the_words_of_the_one_who_declined() -> None:
    plan = drawn_again(proposing("a"), {"a": E.BUDGET})
    (run,) = plan.runs

    assert run.refused == {"declined": 1}
    assert run.for_instance == {"declined": "was not moved when it was asked to leave"}


# -- who seeks a substitute -----------------------------------------------------------------------


def policy(plugin: str, point: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
    profile = {
        "name": "it",
        "pluginConfig": [
            {"name": "DefaultEvictor", "args": {"minReplicas": 0}},
            {"name": plugin, "args": args},
        ],
        "plugins": {point: {"enabled": [plugin]}},
    }
    return {"profiles": [profile], **more}


RULE = {"topologySpreadConstraints": [spread(labels=WEB)]}
UNEVEN = cluster(
    node("n1", zone="a").holding(*(pod(f"p{i}", labels=WEB, spec=RULE) for i in range(6))),
    node("n2", zone="b"),
)
COPIES = cluster(
    node("n1").holding(*(pod(f"p{i}", owner="ReplicaSet/web") for i in range(3))),
    node("n2"),
    node("n3"),
)
BUSY = cluster(
    node("n1", cpu="4").holding(*(pod(f"p{i}", cpu="400m") for i in range(9))),
    node("n2", cpu="4"),
)
OLD = cluster(node("n1").holding(*(pod(f"p{i}", age=f"{9 - i}h") for i in range(4))), node("n2"))
SPREAD = policy("RemovePodsViolatingTopologySpreadConstraint", "balance", {})
DUPLICATES = policy("RemoveDuplicates", "balance", {})
LEVEL = policy(
    "LowNodeUtilization",
    "balance",
    {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}},
)
AGE = policy("PodLifeTime", "deschedule", {"maxPodLifeTimeSeconds": 60}, maxNoOfPodsToEvictTotal=2)


@pytest.mark.parametrize(
    ("world", "document", "substitutes"),
    [
        pytest.param(UNEVEN, SPREAD, 0, id="spread chose its pods before it asked"),
        pytest.param(COPIES, DUPLICATES, 0, id="so did duplicates"),
        pytest.param(BUSY, LEVEL, 1, id="a node is relieved by any pod that goes"),
        pytest.param(OLD, AGE, 1, id="a limit is used by any pod that goes"),
    ],
)
def test_in_parity_a_substitute_is_sought_only_where_upstream_seeks_one(
    world: World, document: dict[str, Any], substitutes: int
) -> None:
    planned = planner(document)
    first = moved(planned.draw_plan(world.snapshot()))
    assert len(first) >= 2

    cycle = Cycle(planned, world.snapshot(), by_name({first[0]: E.BUDGET}))

    assert cycle.names[0] == first
    assert len(cycle.names[1]) == substitutes
    assert not set(first) & set(cycle.names[1])
    assert cycle.plans[1].refused["declined"] == 1


SHOP = {"app": "shop"}


def crowd(letter: str, count: int) -> list[dict[str, Any]]:
    """Pods in the order in which they would go."""
    return [
        pod(f"{letter}{i}", cpu="500m", priority=i, labels=SHOP if (letter, i) == ("a", 0) else {})
        for i in range(count)
    ]


CROWDED = cluster(
    node("n1", cpu="4").holding(*crowd("a", 8)),
    node("n2", cpu="4").holding(*crowd("b", 7)),
    node("n3", cpu="4").holding(*crowd("c", 6)),
    node("n4", cpu="4"),
    budget("shop", allowed=0, labels=SHOP),
)


def test_a_limit_that_pods_yet_to_be_met_have_filled_does_not_end_a_turn() -> None:
    """The empty node takes four; a0, which its budget keeps, stands before those that have left.

    A plugin that left n1 at a0 would never hear that two of its pods go to the empty node.
    """
    planned = planner({**LEVEL, "maxNoOfPodsToEvictPerNode": 2})
    assert moved(planned.draw_plan(CROWDED.snapshot())) == ["a1", "a2", "b0", "b1"]

    cycle = Cycle(planned, CROWDED.snapshot(), by_name({"b0": E.WEBHOOK}))

    assert cycle.names == [["a1", "a2", "b0", "b1"], ["b2"], []]


def test_substitutes_end_when_no_pod_is_left() -> None:
    everybody = {f"p{i}": E.WEBHOOK for i in range(9)}

    cycle = Cycle(planner(LEVEL), BUSY.snapshot(), by_name(everybody))

    assert sorted(name for names in cycle.names for name in names) == sorted(everybody)
    assert cycle.names[-1] == []
    assert cycle.plans[-1].refused == {"declined": 9}


def test_the_same_snapshot_gives_the_same_plan_again() -> None:
    """What one plan foresaw of rooms and places must not show in the next."""
    snapshot = BUSY.snapshot()
    planned = planner({**LEVEL, "apiVersion": "resettle/v1", "maxNoOfPodsToEvictTotal": 9})

    assert planned.draw_plan(snapshot) == planned.draw_plan(snapshot)
