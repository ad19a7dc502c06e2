"""A simulation from beginning to end, and what it came to."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from resettle.cli.text.simulation_json import simulation_document
from resettle.model.changes import Changes
from resettle.simulate.events import Event
from resettle.simulate.ping_pong import PingPongSummary
from resettle.testing import NOW, World, cluster, node, pod
from tests.simulate.harness import EVICT, FIVE_MINUTES, scripted, simulate

BUSY = pod("busy", owner=None, cpu="3")
PAIR = cluster(node("n1").holding(pod("a", cpu="1"), pod("b", cpu="1")), node("n2").holding(BUSY))


@pytest.mark.parametrize(
    ("moved_in", "cycles", "interval", "settled_after"),
    [
        pytest.param([1, 2], 4, FIVE_MINUTES, 2, id="two quiet cycles of five minutes"),
        pytest.param([1, 2], 3, FIVE_MINUTES, None, id="one quiet cycle is too few"),
        pytest.param([1], 2, timedelta(hours=1), None, id="however long it is"),
        pytest.param([1], 9, timedelta(minutes=1), None, id="before pods come of age"),
        pytest.param([1], 11, timedelta(minutes=1), 1, id="once they have"),
        pytest.param([], 3, FIVE_MINUTES, 0, id="from the start"),
        pytest.param([], 2, FIVE_MINUTES, None, id="nothing so far"),
        pytest.param([1, 4], 4, FIVE_MINUTES, None, id="not while the last cycle moves"),
    ],
)
def test_a_cluster_has_settled_once_it_stays_quiet(
    moved_in: list[int], cycles: int, interval: timedelta, settled_after: int | None
) -> None:
    script = scripted({number: ["a"] for number in moved_in})

    result = simulate(PAIR, script, cycles=cycles, interval=interval)

    assert result.settled_after == settled_after
    assert len(result.cycles) == cycles


@pytest.mark.parametrize(
    ("moved_in", "happens_in", "cycles"),
    [
        pytest.param([1], [], 3, id="two cycles after the last move"),
        pytest.param([], [], 3, id="nothing moves"),
        pytest.param([1], [7], 9, id="not before everything has happened"),
        pytest.param([1, 5], [], 3, id="what would come later is not seen"),
        pytest.param([*range(1, 11)], [], 10, id="never"),
    ],
)
def test_it_stops_early_when_asked_to_and_nothing_is_to_come(
    moved_in: list[int], happens_in: list[int], cycles: int
) -> None:
    script = scripted({number: ["a"] for number in moved_in})
    events = [
        Event(cycle=number, says="a change", changes=Changes(at=NOW)) for number in happens_in
    ]

    result = simulate(PAIR, script, events=events, until_settled=True)

    assert len(result.cycles) == cycles
    assert result.stopped_early == (cycles < 10)


def test_totals_add_up_over_all_cycles() -> None:
    world = cluster(
        node("n1").holding(
            pod("a", cpu="1"),
            pod("b", owner="ReplicaSet/other", cpu="1"),
            pod("c", owner=None, annotations=EVICT),
        ),
        node("n2").holding(BUSY),
    )

    result = simulate(world, scripted({1: ["c"], 2: ["b"]}, always=["a"]), cycles=3)

    assert (result.move_count, result.returned) == (5, 4)
    assert result.evictions_by_workload == {
        "ReplicaSet default/web": 3,
        "ReplicaSet default/other": 1,
        "pod default/c": 1,
    }
    assert [(each.workload, each.times) for each in result.ping_pong] == [
        ("ReplicaSet default/web", 2)
    ]


def test_pods_that_wait_at_the_end_are_reported_with_what_rules_the_nodes_out() -> None:
    world = cluster(
        node("n1", taints=["old:NoSchedule"]).holding(pod("a", cpu="1")),
        node("n2").holding(pod("full", owner=None, cpu="4")),
        node("n3", cordoned=True),
    )

    result = simulate(world, scripted({1: ["a"]}), cycles=2)

    assert [(waiting.pod.name, waiting.why) for waiting in result.waiting_pods] == [
        ("a", "1 cordoned, 1 taint old:NoSchedule, 1 cpu")
    ]


@pytest.mark.parametrize(
    ("nodes", "plugins", "times", "says"),
    [
        pytest.param(
            ("n1", "n2"),
            ("RemoveDuplicates",),
            8,
            "ReplicaSet shop/cart moves back and forth between n1 and n2 by RemoveDuplicates, "
            "8 times",
            id="two nodes",
        ),
        pytest.param(
            ("n1", "n2", "n3"),
            ("A", "B"),
            2,
            "ReplicaSet shop/cart moves back and forth among n1, n2 and n3 by A and B, 2 times",
            id="three nodes and two plugins",
        ),
        pytest.param(
            tuple(f"n{i}" for i in range(9)),
            ("A",),
            1,
            "ReplicaSet shop/cart moves back and forth among 9 nodes by A, 1 time",
            id="many nodes",
        ),
        pytest.param(
            ("n1",),
            ("A",),
            3,
            "ReplicaSet shop/cart is sent off n1 and comes back, by A, 3 times",
            id="never away from its node",
        ),
    ],
)
def test_ping_pong_reads_as_a_sentence(
    nodes: tuple[str, ...], plugins: tuple[str, ...], times: int, says: str
) -> None:
    rally = PingPongSummary(
        workload="ReplicaSet shop/cart", times=times, pods=("c-1",), plugins=plugins, nodes=nodes
    )

    assert str(rally) == says


def test_the_same_cluster_gives_the_same_result_byte_for_byte() -> None:
    script = scripted({2: ["b"]}, always=["a"])
    backwards = World(PAIR.objects[::-1])

    first, again, reversed_ = (
        json.dumps(simulation_document([simulate(world, script)]))
        for world in (PAIR, PAIR, backwards)
    )

    assert first == again == reversed_
