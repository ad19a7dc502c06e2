"""Topology spread: how many pods leave which domain, who of them, and what counts as a domain."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from resettle.plugins.remove_pods_violating_topology_spread_constraint.plugin import PLUGIN
from resettle.plugins.remove_pods_violating_topology_spread_constraint.upstream import (
    moves_between,
)
from resettle.testing import NodeBuilder, Planned, World, cluster, node, plan, pod, spread
from resettle.testing.builders import Object

APP = {"app": "web"}
EVEN = [spread(labels=APP)]


def web(name: str, **options: Any) -> Object:
    """A pod that wants its like spread over the zones."""
    return pod(name, **{"labels": APP, "spread": EVEN, **options})


def webs(prefix: str, count: int, **options: Any) -> list[Object]:
    return [web(f"{prefix}-{i}", **options) for i in range(count)]


def zone(name: str, *pods: Object, **marks: Any) -> NodeBuilder:
    """A zone of one node, `n` and its name, that holds these pods."""
    return node(f"n{name}", **{"zone": name, "pods": 200, **marks}).holding(*pods)


def zones(*sizes: int, **options: Any) -> World:
    """Zones 0, 1 … with so many pods each."""
    return cluster(*(zone(str(i), *webs(f"w{i}", n, **options)) for i, n in enumerate(sizes)))


def leaving(planned: Planned) -> dict[str, int]:
    """How many pods leave each node."""
    return dict(Counter(move.pod.node for move in planned.plan.moves))


@pytest.mark.parametrize(
    ("before", "max_skew", "moved", "after"),
    [
        pytest.param([2, 1], 1, 0, [2, 1], id="2 1"),
        pytest.param([3, 1], 1, 1, [2, 2], id="3 1"),
        pytest.param([5, 2], 1, 1, [4, 3], id="5 2"),
        pytest.param([4, 0], 1, 2, [2, 2], id="4 0"),
        pytest.param([2, 6], 2, 1, [3, 5], id="2 6 with a skew of 2"),
        pytest.param([8, 7, 0], 1, 5, [5, 5, 5], id="8 7 0"),
        pytest.param([5, 5, 5], 1, 0, [5, 5, 5], id="5 5 5"),
        pytest.param([2, 3, 4], 1, 1, [3, 3, 3], id="2 3 4"),
        pytest.param([0, 1, 3, 5], 1, 3, [2, 2, 3, 2], id="0 1 3 5"),
        pytest.param([0, 1, 100], 1, 66, [34, 33, 34], id="0 1 100"),
        pytest.param([3, 3, 2, 0], 1, 2, [2, 2, 2, 2], id="3 3 2 0"),
        pytest.param([4, 3, 1], 1, 1, [3, 3, 2], id="4 3 1"),
        pytest.param([2, 1, 0], 1, 1, [1, 1, 1], id="2 1 0"),
    ],
)
def test_as_many_leave_each_domain_as_even_it_out(
    before: list[int], max_skew: int, moved: int, after: list[int]
) -> None:
    planned = plan(PLUGIN, zones(*before, spread=[spread(labels=APP, max_skew=max_skew)]))
    gone = leaving(planned)

    assert len(planned.evicts) == moved
    assert [gone.get(f"n{i}", 0) for i in range(len(before))] == [
        max(was - will_be, 0) for was, will_be in zip(before, after, strict=True)
    ]
    assert planned.stopped == ([] if moved else ["balanced"])


@pytest.mark.parametrize(
    ("high", "low", "ideal", "max_skew", "count"),
    [
        pytest.param(2, 1, 1.5, 1, 0, id="within the skew"),
        pytest.param(8, 0, 5, 1, 3, id="no more than the giver has too many"),
        pytest.param(100, 1, 33.67, 1, 33, id="no more than the taker lacks"),
        pytest.param(5, 2, 3.5, 1, 1, id="no more than half of what the skew exceeds"),
        pytest.param(2, 0, 2.5, 1, 0, id="a giver below the average gives nothing"),
    ],
)
def test_one_exchange_is_bounded_three_ways(
    high: int, low: int, ideal: float, max_skew: int, count: int
) -> None:
    assert max(moves_between(high, low, ideal, max_skew), 0) == count


@pytest.mark.parametrize(
    ("args", "when", "evicted"),
    [
        pytest.param({}, "DoNotSchedule", 1, id="hard ones by default"),
        pytest.param({}, "ScheduleAnyway", 0, id="soft ones not by default"),
        pytest.param({"constraints": []}, "DoNotSchedule", 1, id="an empty list is the default"),
        pytest.param({"constraints": ["ScheduleAnyway"]}, "ScheduleAnyway", 1, id="soft asked for"),
        pytest.param({"constraints": ["ScheduleAnyway"]}, "DoNotSchedule", 0, id="hard left out"),
        pytest.param(
            {"constraints": ["DoNotSchedule", "ScheduleAnyway"]},
            "DoNotSchedule",
            1,
            id="both: hard",
        ),
        pytest.param(
            {"constraints": ["DoNotSchedule", "ScheduleAnyway"]},
            "ScheduleAnyway",
            1,
            id="both: soft",
        ),
    ],
)
def test_constraints_count_by_what_they_say_of_the_unsatisfiable(
    args: dict[str, Any], when: str, evicted: int
) -> None:
    planned = plan(PLUGIN, zones(3, 1, spread=[spread(labels=APP, when=when)]), **args)

    assert len(planned.evicts) == evicted
    assert planned.stopped == ([] if evicted else ["no-candidate"])


@pytest.mark.parametrize(
    ("changed", "evicted"),
    [
        pytest.param({}, 1, id="three against one"),
        pytest.param({"terminating": True}, 0, id="a terminating pod does not count"),
        pytest.param({"owner": None}, 0, id="a bare pod does not count"),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]}, 0, id="nor does a protected one"
        ),
        pytest.param({"phase": "Succeeded"}, 0, id="nor a finished one"),
        pytest.param({"labels": {"app": "db"}}, 0, id="nor one of other labels"),
        pytest.param({"namespace": "other"}, 0, id="nor one of another namespace"),
        pytest.param({"spread": []}, 1, id="one that states no constraint counts"),
        pytest.param({"phase": "Pending"}, 1, id="one that is starting counts"),
    ],
)
def test_pods_count_that_match_and_could_go(changed: dict[str, Any], evicted: int) -> None:
    world = cluster(zone("a", *webs("a", 2), web("third", **changed)), zone("b", web("b")))

    assert len(plan(PLUGIN, world).evicts) == evicted


@pytest.mark.parametrize(
    ("args", "evicted"),
    [
        pytest.param({"namespaces": {"include": ["default"]}}, 1, id="namespace included"),
        pytest.param({"namespaces": {"exclude": ["default"]}}, 0, id="namespace excluded"),
        pytest.param({"labelSelector": {"matchLabels": APP}}, 1, id="selected by label"),
        pytest.param(
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]
                }
            },
            0,
            id="NotIn leaves them out",
        ),
        pytest.param(
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}]
                }
            },
            0,
            id="pods that are not selected are not counted",
        ),
    ],
)
def test_arguments_narrow_what_is_counted(args: dict[str, Any], evicted: int) -> None:
    front = {**APP, "tier": "front"}
    world = cluster(
        zone("a", *webs("a", 1), *webs("af", 2, labels=front)), zone("b", web("bf", labels=front))
    )

    assert len(plan(PLUGIN, world, **args).evicts) == evicted


@pytest.mark.parametrize(
    ("first", "second", "keys", "evicted"),
    [
        pytest.param("x", "y", [], 0, id="without keys all are counted together"),
        pytest.param("x", "y", ["hash"], 2, id="each hash is spread for itself"),
        pytest.param("x", "x", ["hash"], 0, id="one hash"),
        pytest.param("x", "y", ["absent"], 0, id="a key that the pod lacks adds nothing"),
    ],
)
def test_match_label_keys_count_each_value_apart(
    first: str, second: str, keys: list[str], evicted: int
) -> None:
    rule = [spread(labels=APP, matchLabelKeys=keys)]
    world = cluster(
        zone("a", *webs("a", 2, labels={**APP, "hash": first}, spread=rule)),
        zone("b", *webs("b", 2, labels={**APP, "hash": second}, spread=rule)),
    )

    assert len(plan(PLUGIN, world).evicts) == evicted


@pytest.mark.parametrize(
    ("selector", "evicted"),
    [
        pytest.param({"labelSelector": None}, 0, id="no selector selects nothing"),
        pytest.param({"labelSelector": {}}, 1, id="an empty selector selects all"),
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}},
            0,
            id="an unreadable selector is skipped",
        ),
        pytest.param({"minDomains": 5}, 1, id="minDomains is ignored"),
    ],
)
def test_constraints_are_read_as_upstream_reads_them(
    selector: dict[str, Any], evicted: int
) -> None:
    planned = plan(PLUGIN, zones(3, 1, spread=[spread(labels=APP, **selector)]))

    assert len(planned.evicts) == evicted
    assert planned.errors == []


@pytest.mark.parametrize(
    ("pods", "goes"),
    [
        pytest.param(
            [web("low", priority=1), web("high", priority=9), web("mid", priority=5)],
            {"high"},
            id="the highest priority first",
        ),
        pytest.param(
            [web("nil", priority=None), web("minus", priority=-5), web("nil-2", priority=None)],
            {"minus"},
            id="any priority before none",
        ),
        pytest.param(
            [
                web("tied", priority=9, node_selector={"os": "linux"}),
                web("tied-2", priority=9, node_selector={"os": "linux"}),
                web("free", priority=0),
            ],
            {"free"},
            id="a pod with a node selector rather stays",
        ),
        pytest.param(
            [
                web("tied", priority=9, affinity={"nodeAffinity": {}}),
                web("tied-2", priority=9, affinity={"nodeAffinity": {}}),
                web("free", priority=0),
            ],
            {"free"},
            id="a pod with a node affinity rather stays",
        ),
        pytest.param(
            [web("big", priority=9, cpu="3"), web("small", cpu="1"), web("big-2", cpu="3")],
            {"small"},
            id="a pod that fits the smaller domain before one that does not",
        ),
    ],
)
def test_who_leaves_a_domain(pods: list[Object], goes: set[str]) -> None:
    world = cluster(
        zone("a", *pods, cpu="8", labels={"os": "linux"}),
        zone("b", web("other"), cpu="2", labels={"os": "linux"}),
    )

    assert set(plan(PLUGIN, world).evicts) == goes


@pytest.mark.parametrize(
    ("receiver", "options", "fits"),
    [
        pytest.param({}, {}, True, id="room enough"),
        pytest.param({"cpu": "500m"}, {"cpu": "1"}, False, id="too little cpu"),
        pytest.param({"pods": 1}, {}, False, id="no place for one more pod"),
        pytest.param({"cordoned": True}, {}, False, id="cordoned"),
        pytest.param({"taints": ["gpu:NoSchedule"]}, {}, False, id="tainted"),
    ],
)
def test_pods_leave_only_for_a_node_they_fit_unless_reported_otherwise(
    receiver: dict[str, Any], options: dict[str, Any], fits: bool
) -> None:
    world = cluster(
        zone("a", *webs("a", 3, **options)),
        zone("b", web("b"), **receiver),
        zone("c", *webs("c", 2)),
    )
    strict, default = plan(PLUGIN, world, topologyBalanceNodeFit=True), plan(PLUGIN, world)

    assert leaving(strict) == leaving(default) == ({"na": 1} if fits else {})
    assert strict.stopped == ([] if fits else ["balanced"])
    assert leaving(plan(PLUGIN, world, topologyBalanceNodeFit=False)) == {"na": 1}
