"""One cycle after the other: where pods go, who waits, and who is moved for nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resettle.model.changes import Change, Changes
from resettle.simulate.ping_pong import MoveHistory
from resettle.testing import NOW, World, budget, cluster, node, pod
from resettle.testing.builders import Object, merge_objects
from tests.simulate.harness import EVICT, FIVE_MINUTES, homes, landed, objects, on_stage, scripted

FULL = pod("full", owner=None, cpu="4")
BUSY = pod("busy", owner=None, cpu="3")


@pytest.mark.parametrize(
    ("world", "lands"),
    [
        pytest.param(
            cluster(node("n1").holding(pod("a", cpu="1"), BUSY), node("n2")),
            {"a": "n2"},
            id="to the emptiest node",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("a", cpu="1")), node("n2").holding(BUSY)),
            {"a": "n1"},
            id="back to its own where that is emptiest without it",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("a", cpu="1"), BUSY), node("n2", cordoned=True)),
            {"a": "n1"},
            id="back to its own where no other takes it",
        ),
        pytest.param(
            cluster(
                node("n1", taints=["old:NoSchedule"]).holding(pod("a", cpu="1")),
                node("n2").holding(FULL),
            ),
            {"a": None},
            id="nowhere while no node takes it",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("a", owner=None, annotations=EVICT)), node("n2")),
            {"a": ""},
            id="a bare pod is not replaced",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("a", phase="Failed")), node("n2")),
            {"a": ""},
            id="a finished pod vanishes",
        ),
        pytest.param(
            cluster(
                node("n1").holding(pod("a", owner="DaemonSet/agent", annotations=EVICT), BUSY),
                node("n2"),
            ),
            {"a": "n1"},
            id="a pod of a DaemonSet belongs to its node",
        ),
        pytest.param(
            cluster(
                node("n1", taints=["old:NoSchedule"]).holding(
                    pod("a", owner="DaemonSet/agent", annotations=EVICT)
                ),
                node("n2"),
            ),
            {"a": ""},
            id="a DaemonSet makes none for a node that does not take it",
        ),
    ],
)
def test_a_pod_that_is_moved_lands_where_the_scheduler_would_put_it(
    world: World, lands: dict[str, str | None]
) -> None:
    simulation = on_stage(world, scripted({1: ["a"]}))

    cycle = simulation.run_cycle()

    assert landed(cycle) == lands
    there = {name: place for name, place in homes(simulation.snapshot).items() if name == "a"}
    assert there == {name: place or "" for name, place in lands.items() if place != ""}


def test_a_pod_that_comes_back_was_moved_for_nothing() -> None:
    world = cluster(
        node("n1").holding(pod("stays", cpu="1"), pod("goes", cpu="1"), BUSY),
        node("n2").holding(pod("back", cpu="2")),
        node("n3").holding(pod("rest", owner=None, cpu="1")),
    )

    cycle = on_stage(world, scripted({1: ["goes", "back"]})).run_cycle()

    assert landed(cycle) == {"goes": "n3", "back": "n2"}
    assert [landing.pod.name for landing in cycle.moves if landing.returned] == ["back"]


def test_a_replacement_is_young_ready_and_known_by_the_old_name() -> None:
    world = cluster(node("n1").holding(pod("a", restarts=7)), node("n2"))
    simulation = on_stage(world, scripted({1: ["a"]}))
    simulation.run_cycle()

    later = simulation.snapshot
    (a,) = later.pods

    assert (a.created, a.state.ready, a.state.containers) == (NOW, True, ())
    assert a.uid != "uid-default-a"
    assert a.age(later.taken_at) == FIVE_MINUTES


def test_time_goes_on_and_plugins_remember() -> None:
    world = cluster(node("n1").holding(pod("a"), pod("b")), node("n2"))
    simulation = on_stage(world, scripted({1: ["a"], 3: ["b"]}), timedelta(hours=1))

    cycles = [simulation.run_cycle() for _ in range(4)]

    assert [list(landed(cycle)) for cycle in cycles] == [["a"], [], ["b"], []]
    assert [cycle.at - NOW for cycle in cycles] == [timedelta(hours=i) for i in range(4)]
    assert [cycle.is_quiet for cycle in cycles] == [False, True, False, True]


# -- pods that wait -------------------------------------------------------------------------------

CROWDED = cluster(
    node("n1", taints=["old:NoSchedule"]).holding(pod("a", cpu="1", labels={"app": "a"})),
    node("n2").holding(FULL),
    budget("a", allowed=1, labels={"app": "a"}),
)
JOINS = Changes(at=NOW, nodes=Change(tuple(objects(node("n3").node).node_index)))


def test_pods_that_wait_come_in_when_a_node_joins() -> None:
    simulation = on_stage(CROWDED, scripted({1: ["a"]}))

    waits, still, comes = (
        simulation.run_cycle(),
        simulation.run_cycle(),
        simulation.run_cycle(JOINS),
    )

    assert (waits.waiting, still.waiting, comes.waiting) == (1, 1, 0)
    assert (waits.violations, comes.violations) == ({"pending": 1}, {})
    assert [(landing.pod.name, landing.node) for landing in comes.newly_scheduled] == [("a", "n3")]
    assert homes(simulation.snapshot)["a"] == "n3"


def test_pods_that_wait_from_the_start_come_in_where_there_is_room() -> None:
    world = cluster(node("n1"), node("n2").holding(FULL), pod("new", cpu="1", phase="Pending"))

    cycle = on_stage(world, scripted()).run_cycle()

    assert [(landing.pod.name, landing.node) for landing in cycle.newly_scheduled] == [
        ("new", "n1")
    ]


@pytest.mark.parametrize(
    ("pods", "first"),
    [
        pytest.param(
            [pod("old", cpu="3", age="2d"), pod("vital", cpu="3", age="1d", priority=7)],
            "vital",
            id="the most important first",
        ),
        pytest.param(
            [pod("young", cpu="3", age="1d"), pod("old", cpu="3", age="2d")],
            "old",
            id="then the oldest",
        ),
    ],
)
def test_pods_that_wait_are_served_in_turn(pods: list[Object], first: str) -> None:
    waiting = [merge_objects(each, {"status": {"phase": "Pending"}}) for each in pods]

    cycle = on_stage(cluster(node("n1"), *waiting), scripted()).run_cycle()

    assert [landing.pod.name for landing in cycle.newly_scheduled] == [first]
    assert cycle.waiting == 1


def test_a_budget_allows_less_while_a_pod_of_it_waits() -> None:
    simulation = on_stage(CROWDED, scripted({1: ["a"]}))

    allowed = []
    for disturbance in (None, None, JOINS):
        simulation.run_cycle(disturbance)
        allowed.append(simulation.snapshot.budgets["default/a"].disruptions_allowed)

    assert allowed == [0, 0, 1]


def test_pods_that_were_ending_end_and_only_a_stateful_set_had_waited_for_it() -> None:
    world = cluster(
        node("n1").holding(
            pod("web", terminating=True), pod("db", owner="StatefulSet/db", terminating=True)
        ),
        node("n2"),
    )
    simulation = on_stage(world, scripted())

    cycle = simulation.run_cycle()

    assert [landing.pod.name for landing in cycle.newly_scheduled] == ["db"]
    assert [(pod.name, pod.terminating) for pod in simulation.snapshot.pods] == [("db", False)]


# -- ping-pong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moved_in", "disturbed_in", "named_in"),
    [
        pytest.param([1, 2], [], [2], id="at once"),
        pytest.param([1, 11], [], [11], id="after ten cycles"),
        pytest.param([1, 12], [], [], id="after eleven cycles it counts as new"),
        pytest.param([1, 3], [2], [], id="something had changed in between"),
        pytest.param([2, 3], [1], [3], id="something had changed before"),
        pytest.param([1, 2, 3], [], [2, 3], id="again and again"),
        pytest.param([1], [], [], id="once"),
    ],
)
def test_a_pod_that_moves_again_before_long_plays_ping_pong(
    moved_in: list[int], disturbed_in: list[int], named_in: list[int]
) -> None:
    world = cluster(node("n1").holding(pod("a", cpu="1")), node("n2").holding(BUSY))
    simulation = on_stage(world, scripted({number: ["a"] for number in moved_in}))
    nothing_new = Changes(at=NOW)

    cycles = [
        simulation.run_cycle(nothing_new if number in disturbed_in else None)
        for number in range(1, 14)
    ]

    assert [cycle.number for cycle in cycles if cycle.ping_pong] == named_in


def test_ping_pong_is_reported_with_workload_plugins_and_places() -> None:
    world = cluster(node("n1").holding(pod("a", cpu="1")), node("n2").holding(BUSY))
    simulation = on_stage(world, scripted({1: ["a"], 3: ["a"]}))

    (ping_pong,) = [each for _ in range(3) for each in simulation.run_cycle().ping_pong]

    assert (ping_pong.workload, ping_pong.pod) == ("ReplicaSet default/web", "default/a")
    assert (ping_pong.plugins, ping_pong.cycles) == (("Script", "Script"), (1, 3))
    assert ping_pong.nodes == ("n1", "n1", "n1")


def test_a_pod_that_had_to_wait_in_between_is_followed_too() -> None:
    (a,) = objects(*node("n1").holding(pod("a")).pods).pods
    trails = MoveHistory()

    assert trails.record_move(a, None, "First", 1) is None
    trails.record_arrival(a, "n2")
    ping_pong = trails.record_move(a, "n3", "Second", 4)

    assert ping_pong is not None
    assert (ping_pong.nodes, ping_pong.plugins) == (("n1", "n2", "n3"), ("First", "Second"))
