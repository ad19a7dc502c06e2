"""What strategies do better in `resettle/v1`: no more moves than needed, and the right ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from resettle.plugins import (
    high_node_utilization,
    low_node_utilization,
    remove_duplicates,
    remove_pods_violating_inter_pod_anti_affinity,
    remove_pods_violating_topology_spread_constraint,
)
from resettle.testing import World, cluster, node, plan, pod, spread
from tests.plugins.builders import improved, landings

SPREAD = remove_pods_violating_topology_spread_constraint.PLUGIN
ANTI = remove_pods_violating_inter_pod_anti_affinity.PLUGIN
COPIES = remove_duplicates.PLUGIN
LOW = low_node_utilization.PLUGIN
HIGH = high_node_utilization.PLUGIN
WEB = {"app": "web"}
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


# -- topology spread ------------------------------------------------------------------------------


def zones(sizes: list[int], **rule: Any) -> World:
    return cluster(
        *(
            node(f"n{i}", zone=f"z{i}", pods=1000, cpu="64").holding(
                *(
                    pod(f"p{i}-{k}", labels=WEB, spread=[spread(labels=WEB, **rule)])
                    for k in range(size)
                )
            )
            for i, size in enumerate(sizes)
        )
    )


@pytest.mark.parametrize(
    ("sizes", "max_skew", "moves"),
    [
        ([2, 1], 1, 0),
        ([3, 1], 1, 1),
        ([5, 2], 1, 1),
        ([4, 0], 1, 2),
        ([2, 6], 2, 1),
        ([8, 7, 0], 1, 5),
        ([5, 5, 5], 1, 0),
        ([2, 3, 4], 1, 1),
        ([0, 1, 3, 5], 1, 3),
        ([0, 1, 100], 1, 66),
        ([3, 3, 2, 0], 1, 2),
        ([4, 3, 1], 1, 1),
        ([2, 1, 0], 1, 1),
    ],
)
def test_domains_are_evened_out_with_as_few_moves_as_upstream_makes(
    sizes: list[int], max_skew: int, moves: int
) -> None:
    world = zones(sizes, max_skew=max_skew)

    planned = improved(SPREAD, world)

    assert len(planned.evicts) == len(plan(SPREAD, world).evicts) == moves
    lying = Counter({f"n{i}": size for i, size in enumerate(sizes)})
    for move in planned.plan.moves:
        lying[move.pod.node] -= 1
        lying[move.lands_on] += 1
    assert max(lying.values()) - min(lying.values()) <= max_skew


@pytest.mark.parametrize("when", ["DoNotSchedule", "ScheduleAnyway"])
def test_a_soft_constraint_counts_only_when_asked(when: str) -> None:
    world = zones([3, 0], when="ScheduleAnyway")

    assert len(improved(SPREAD, world, constraints=[when]).evicts) == (when == "ScheduleAnyway")


def test_all_constraints_of_a_pod_are_solved_together() -> None:
    """Evening out the zones may not put two on one node, though the free node is in the wrong one.

    Rule by rule, a pod would leave zone a for any node of zone b, even for the one that is taken.
    """
    both = [spread(labels=WEB), spread(labels=WEB, key=HOST)]
    pods = [pod(f"p{i}", labels=WEB, spread=both) for i in range(4)]
    world = cluster(
        node("a1", zone="a").holding(pods[0]),
        node("a2", zone="a").holding(pods[1]),
        node("a3", zone="a").holding(pods[2]),
        node("b1", zone="b").holding(pods[3]),
        node("b2", zone="b"),
    )

    assert set(landings(improved(SPREAD, world)).values()) == {"b2"}


def test_a_domain_too_few_keeps_everyone_where_they_are() -> None:
    planned = improved(SPREAD, zones([3, 1], minDomains=3))

    assert planned.evicts == []
    assert set(planned.refused) == {"no-node-fits"}


def test_the_least_important_pod_goes() -> None:
    ranked = [pod(f"p{i}", labels=WEB, spread=[spread(labels=WEB)], priority=i) for i in range(3)]
    world = cluster(node("n1", zone="a").holding(*ranked), node("n2", zone="b"))

    assert improved(SPREAD, world).evicts == ["p0"]


# -- anti-affinity --------------------------------------------------------------------------------


def away(labels: dict[str, str], key: str = HOST, **more: Any) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def test_of_pods_that_keep_away_from_each_other_the_most_important_stays() -> None:
    pods = [pod(f"p{i}", labels=WEB, away_from=WEB, priority=i) for i in range(3)]
    world = cluster(node("n1").holding(*pods), node("n2"), node("n3"))

    assert improved(ANTI, world).evicts == ["p0", "p1"]


def test_the_less_important_side_goes_whichever_side_states_the_rule() -> None:
    world = cluster(
        node("n1").holding(
            pod("stating", away_from=WEB, priority=10), pod("meant", labels=WEB, priority=1)
        ),
        node("n2"),
    )

    assert improved(ANTI, world).evicts == ["meant"]


def test_one_goes_rather_than_many_even_if_it_matters_more() -> None:
    crowd = [pod(f"p{i}", labels=WEB, priority=1) for i in range(4)]
    world = cluster(
        node("n1").holding(pod("loner", away_from=WEB, priority=10), *crowd), node("n2")
    )

    assert improved(ANTI, world).evicts == plan(ANTI, world).evicts == ["loner"]


def test_a_pod_whose_conflicts_are_all_resolved_stays() -> None:
    """a would go for b, and b for c; once b is gone, a has no pod left to keep away from."""
    world = cluster(
        node("n1").holding(
            pod("a", labels={"it": "a"}, away_from={"it": "b"}, priority=1),
            pod("b", labels={"it": "b"}, priority=2),
            pod("c", labels={"it": "c"}, away_from={"it": "b"}, priority=3),
        ),
        node("n2"),
    )

    assert improved(ANTI, world).evicts == ["b"]


@pytest.mark.parametrize(
    ("rule", "goes"),
    [
        pytest.param(away(WEB, "topology.kubernetes.io/zone"), 1, id="over the whole zone"),
        pytest.param(away(WEB), 0, id="another node is far enough"),
        pytest.param(
            away(WEB, "topology.kubernetes.io/zone", namespaces=["elsewhere"]), 0, id="not here"
        ),
        pytest.param(
            away(WEB, "topology.kubernetes.io/zone", namespaceSelector={}), 1, id="in any namespace"
        ),
    ],
)
def test_near_is_what_the_topology_and_the_namespaces_of_the_rule_say(
    rule: dict[str, Any], goes: int
) -> None:
    world = cluster(
        node("n1", zone="a").holding(pod("stating", affinity=rule)),
        node("n2", zone="a").holding(pod("meant", labels=WEB)),
        node("n3", zone="b"),
    )

    assert len(improved(ANTI, world).evicts) == goes


@pytest.mark.parametrize("asked", [True, False])
def test_preferred_anti_affinity_counts_only_when_asked(asked: bool) -> None:
    term = {"labelSelector": {"matchLabels": WEB}, "topologyKey": HOST}
    affinity = {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}
    twins = [pod(name, labels=WEB, affinity=affinity) for name in ("a", "b")]
    world = cluster(node("n1").holding(*twins), node("n2"))

    planned = improved(ANTI, world, includePreferred=asked)

    assert len(planned.evicts) == asked
    assert set(landings(planned).values()) == ({"n2"} if asked else set())


# -- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("copies", "moves"),
    [([5, 3, 1], 2), ([2, 0, 0], 1), ([1, 0, 0], 0), ([3, 3, 0, 0], 2), ([2, 2, 0], 0)],
)
def test_copies_go_only_to_nodes_that_have_fewer_than_their_share(
    copies: list[int], moves: int
) -> None:
    world = cluster(
        *(
            node(f"n{i}").holding(*(pod(f"p{i}-{k}") for k in range(count)))
            for i, count in enumerate(copies)
        )
    )

    planned = improved(COPIES, world)

    assert len(planned.evicts) == len(plan(COPIES, world).evicts) == moves
    share = -(-sum(copies) // len(copies))
    lying = Counter({f"n{i}": count for i, count in enumerate(copies)})
    for move in planned.plan.moves:
        assert lying[move.lands_on] < share
        lying[move.lands_on] += 1


# -- load -----------------------------------------------------------------------------------------

HALF: dict[str, Any] = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}}


def test_an_overfull_node_gives_away_no_more_than_it_must() -> None:
    """The small pod would go first, but the large one alone is enough, and it is needed anyway."""
    world = cluster(
        node("n1", cpu="10").holding(
            pod("small", cpu="500m", priority=1),
            pod("large", cpu="3", priority=2),
            pod("base", cpu="4", priority=3),
        ),
        node("n2", cpu="10"),
    )

    assert improved(LOW, world, **HALF).evicts == ["large"]
    assert plan(LOW, world, **HALF).evicts == ["small", "large"]


def test_pods_that_use_nothing_of_what_is_short_are_left_alone() -> None:
    world = cluster(
        node("n1", cpu="10").holding(pod("idle", priority=1), pod("busy", cpu="6", priority=2)),
        node("n2", cpu="10"),
    )
    room: dict[str, Any] = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 60}}
    over: dict[str, Any] = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 55}}

    assert improved(LOW, world, **room).evicts == []
    # The only pod that would help fits no destination within its own target.
    assert improved(LOW, world, **over).refused == {"no-better-node": 1}


def test_no_destination_is_filled_beyond_its_own_target() -> None:
    full = [pod(f"p{i}", cpu="2") for i in range(5)]
    world = cluster(node("n1", cpu="10").holding(*full), node("n2", cpu="4"), node("n3", cpu="4"))

    assert Counter(landings(improved(LOW, world, **HALF)).values()) == {"n2": 1, "n3": 1}


@pytest.mark.parametrize(
    ("second", "goes"),
    [
        pytest.param(pod("b", cpu="500m"), {"a", "b"}, id="both can go"),
        pytest.param(pod("b", cpu="500m", owner=None), set(), id="one is protected"),
        pytest.param(pod("b", cpu="3500m"), set(), id="one finds no room"),
        pytest.param(pod("b", cpu="500m", owner="DaemonSet/log"), {"a"}, id="one belongs there"),
    ],
)
def test_a_node_is_emptied_of_all_its_pods_or_of_none(second: Any, goes: set[str]) -> None:
    world = cluster(
        node("n1", cpu="16").holding(pod("a", cpu="100m"), second),
        node("n2", cpu="8").holding(pod("load", cpu="5")),
    )

    assert set(improved(HIGH, world, thresholds={"cpu": 30}).evicts) == goes
