from __future__ import annotations

import pytest
from moving_day.retired_pools import PLUGIN, Args

from resettle.testing import cluster, node, plan, pod

BLUE, GREEN = {"pool": "blue"}, {"pool": "green"}


@pytest.mark.parametrize(
    ("blue", "green", "evicts"),
    [
        pytest.param([pod("a")], [], ["a"], id="a pod of a retired pool goes"),
        pytest.param([], [pod("a")], [], id="a pod of another pool stays"),
        pytest.param([pod("a", phase="Succeeded")], [], [], id="a finished pod needs no new place"),
        pytest.param([pod("a", owner="DaemonSet/logs")], [], [], id="guards still have their say"),
        pytest.param([pod("a", cpu="3")], [], ["a"], id="there is room where it would go"),
        pytest.param([pod("a", cpu="3")], [pod("b", cpu="2")], [], id="no room, no move"),
        pytest.param([pod("a", node_selector=BLUE)], [], [], id="it wants that very pool"),
    ],
)
def test_pods_leave_a_retired_pool_when_another_would_take_them(
    blue: list[dict[str, object]], green: list[dict[str, object]], evicts: list[str]
) -> None:
    world = cluster(
        node("old", labels=BLUE).holding(*blue), node("new", labels=GREEN).holding(*green)
    )

    assert plan(PLUGIN, world, retired=["blue"]).evicts == evicts


def test_a_move_says_which_pool_is_retired() -> None:
    world = cluster(node("old", labels=BLUE).holding(pod("a")), node("new", labels=GREEN))

    (move,) = plan(PLUGIN, world, retired=["blue"]).plan.moves

    assert move.reason == "old belongs to the retired pool blue"


def test_a_watched_pod_without_another_node_gets_that_reason() -> None:
    world = cluster(
        node("old", labels=BLUE).holding(pod("a", cpu="3")), node("new", labels=GREEN, cpu="1")
    )

    (note,) = plan(PLUGIN, world, retired=["blue"], watching=["default/a"]).plan.notes

    assert note.code == "no-room"
    assert note.says == "old belongs to the retired pool blue, but no node that stays would take it"


@pytest.mark.parametrize(
    ("pools", "stopped"),
    [
        pytest.param(("green", "green"), ["no-candidate"], id="no node is of the pool"),
        pytest.param(("blue", "blue"), ["nothing-stays"], id="every node is of the pool"),
        pytest.param(("blue", "green"), [], id="some are and some are not"),
    ],
)
def test_a_sweep_that_cannot_help_says_why(pools: tuple[str, str], stopped: list[str]) -> None:
    first, second = pools
    world = cluster(
        node("n1", labels={"pool": first}).holding(pod("a")),
        node("n2", labels={"pool": second}),
    )

    assert plan(PLUGIN, world, retired=["blue"]).stopped == stopped


def test_the_limit_of_a_cycle_ends_the_sweep() -> None:
    pods = [pod(name) for name in "abc"]
    world = cluster(node("old", labels=BLUE).holding(*pods), node("new", labels=GREEN))

    planned = plan(PLUGIN, world, policy={"maxNoOfPodsToEvictTotal": 1}, retired=["blue"])

    assert len(planned.evicts) == 1
    assert planned.refused == {"limit-total": 1}
    assert planned.stopped == ["limit-total"]


def test_a_full_node_limit_leaves_the_other_nodes_their_turn() -> None:
    world = cluster(
        node("old-1", labels=BLUE).holding(pod("a"), pod("b")),
        node("old-2", labels=BLUE).holding(pod("c"), pod("d")),
        node("new", labels=GREEN),
    )

    planned = plan(PLUGIN, world, policy={"maxNoOfPodsToEvictPerNode": 1}, retired=["blue"])

    assert sorted(move.pod.node for move in planned.plan.moves) == ["old-1", "old-2"]


@pytest.mark.parametrize(
    ("args", "places"),
    [
        pytest.param(Args(retired=("blue",)), [], id="a pool is named"),
        pytest.param(Args(), [("retired",)], id="no pool is named"),
        pytest.param(Args(retired=("blue",), pool_label=""), [("poolLabel",)], id="no label"),
    ],
)
def test_arguments_that_could_do_nothing_are_a_problem(
    args: Args, places: list[tuple[str, ...]]
) -> None:
    assert [problem.at for problem in args.problems()] == places
