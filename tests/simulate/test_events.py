"""What happens from outside, and what the cluster itself makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.model.changes import Change, Changes
from resettle.model.snapshot import Snapshot
from resettle.simulate.events import Event, changes_from
from resettle.testing import NOW, World, budget, cluster, node, pod
from resettle.testing.builders import Object
from tests.simulate.harness import EVICT, homes, objects, scripted, simulate

AGENT = "DaemonSet/agent"
POOL = {"pool": "blue"}


def event(
    *apply: Object,
    delete_nodes: tuple[str, ...] = (),
    delete_pods: tuple[str, ...] = (),
    cycle: int = 1,
    says: str = "something happens",
    **more: Any,
) -> Event:
    came: Snapshot = objects(*apply)
    changes = Changes(
        at=NOW,
        nodes=Change(tuple(came.node_index), frozenset(delete_nodes)),
        pods=Change(came.pods, frozenset(delete_pods)),
    )
    return Event(cycle=cycle, says=says, changes=changes, **more)


WORLD = cluster(
    node("n1").holding(
        pod("web-1", age="3d"), pod("web-2", age="2d"), pod("agent-n1", owner=AGENT)
    ),
    node("n2").holding(pod("web-3", age="1d"), pod("bare", owner=None)),
    node("n3", labels=POOL).holding(pod("done", phase="Succeeded")),
)
ALL = {"web-1": "n1", "web-2": "n1", "web-3": "n2", "agent-n1": "n1", "bare": "n2", "done": "n3"}


@pytest.mark.parametrize(
    ("happens", "differs"),
    [
        pytest.param(
            event(delete_nodes=("n1",)),
            {"web-1": "", "web-2": "", "agent-n1": None},
            id="pods of a node that goes are created again, those of DaemonSets are not",
        ),
        pytest.param(
            event(delete_nodes=("n2",)), {"web-3": "", "bare": None}, id="bare pods go with it"
        ),
        pytest.param(event(delete_nodes=("n3",)), {"done": None}, id="finished ones too"),
        pytest.param(
            event(delete_pods=("default/web-1",)),
            {"web-1": ""},
            id="a deleted pod is created again",
        ),
        pytest.param(
            event(delete_pods=("default/bare",)), {"bare": None}, id="a deleted bare pod is gone"
        ),
        pytest.param(event(pod("new")), {"new": ""}, id="a new pod waits for a node"),
        pytest.param(
            event(node("n1", labels=POOL).node),
            {},
            id="a node applied again keeps its pods",
        ),
        pytest.param(
            event(node("n2", taints=["fire:NoExecute"]).node),
            {"web-3": "", "bare": None},
            id="a NoExecute taint throws pods out",
        ),
        pytest.param(
            event(node("n4").node), {"agent-n4": "n4"}, id="a node that joins gets its daemons"
        ),
        pytest.param(
            event(node("n4", taints=["gpu:NoSchedule"]).node), {}, id="but not past its taints"
        ),
        pytest.param(
            event(scale={"ReplicaSet/default/web": 5}),
            {"web-more-1": "", "web-more-2": ""},
            id="scaled up",
        ),
        pytest.param(
            event(scale={"ReplicaSet/default/web": 1}),
            {"web-2": None, "web-3": None},
            id="scaled down, the youngest first",
        ),
        pytest.param(
            event(scale={"ReplicaSet/default/web": 0}),
            {"web-1": None, "web-2": None, "web-3": None},
            id="scaled to nothing",
        ),
        pytest.param(event(scale={"ReplicaSet/default/web": 3}), {}, id="scaled to what it is"),
        pytest.param(
            event(delete_nodes=("n1",), scale={"ReplicaSet/default/web": 1}),
            {"web-2": None, "web-3": None, "web-1": "", "agent-n1": None},
            id="scaled down and the node gone",
        ),
    ],
)
def test_an_event_has_its_consequences(happens: Event, differs: dict[str, str | None]) -> None:
    before = WORLD.snapshot()

    after = before.next(changes_from(happens, before))

    expected = {name: place for name, place in {**ALL, **differs}.items() if place is not None}
    assert homes(after) == expected


def test_scaling_down_takes_pods_that_wait_first() -> None:
    world = World([*WORLD.objects, pod("web-0", age="9d", phase="Pending")])
    before = world.snapshot()

    after = before.next(changes_from(event(scale={"ReplicaSet/default/web": 3}), before))

    assert set(homes(before)) - set(homes(after)) == {"web-0"}


def test_a_cordoned_node_takes_no_pods() -> None:
    world = cluster(node("n1").holding(pod("a", cpu="1")), node("n2"))

    result = simulate(
        world, scripted({1: ["a"]}), cycles=1, events=[event(cordon=frozenset({"n2"}))]
    )

    assert [move.node for move in result.all_moves] == ["n1"]


def test_events_of_one_cycle_happen_in_order() -> None:
    world = cluster(node("n1").holding(pod("a")), node("n2"))
    events = [
        event(node("n3").node, pod("b"), says="n3 and b come"),
        event(delete_nodes=("n3",), says="n3 goes"),
        event(delete_pods=("default/b",), scale={"ReplicaSet/default/web": 1}, says="b goes"),
    ]

    result = simulate(world, scripted(), cycles=1, events=events)

    (chapter,) = result.cycles_with_events
    assert chapter.events == ("n3 and b come", "n3 goes", "b goes")
    assert set(chapter.cycle.after) == {"n1", "n2"}
    assert sum(load.pods for load in chapter.cycle.after.values()) == 1


def test_pods_created_again_find_their_node_before_the_plan_is_drawn() -> None:
    world = cluster(node("n1").holding(pod("a", cpu="1")), node("n2"), node("n3", cpu="1"))
    gone = event(delete_nodes=("n1",))

    result = simulate(world, scripted({1: ["a"]}), cycles=1, events=[gone])

    (cycle,) = result.cycles
    assert [landing.node for landing in cycle.newly_scheduled] == ["n2"]
    assert [(landing.pod.node, landing.node) for landing in cycle.moves] == [("n2", "n2")]


def test_other_things_come_and_go_as_well() -> None:
    world = cluster(
        node("n1").holding(pod("a", labels={"app": "a"}, annotations=EVICT)), node("n2")
    )
    guard = objects(budget("a", allowed=0, labels={"app": "a"})).budgets.values()
    guarded = Event(cycle=1, says="a budget", changes=Changes(at=NOW, budgets=Change(tuple(guard))))
    freed = Event(
        cycle=3,
        says="no budget",
        changes=Changes(at=NOW, budgets=Change((), frozenset({"default/a"}))),
    )

    result = simulate(world, scripted(always=["a"]), cycles=4, events=[guarded, freed])

    assert [len(cycle.moves) for cycle in result.cycles] == [0, 0, 1, 1]
