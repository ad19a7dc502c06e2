"""The limits of a cycle: numbers, shares of the cluster, and how each says that it is reached."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from resettle.framework import Descheduler, Instance, Limits, default_registry
from resettle.framework.codes import REASONS
from resettle.framework.limits import share
from resettle.policy.args import ExtensionPoint
from resettle.testing import World, cluster, node, plan, pod, spread
from tests.framework.harness import EVICTOR, drawn, guarded_by, proposing, verdicts, words


def on_nodes(*names: str, nodes: int = 0) -> World:
    """A pod for each name on a node of its own, a1 and a2 on one; and empty nodes beside them."""
    homes: dict[str, list[str]] = {}
    for name in names:
        homes.setdefault(name.rstrip("0123456789"), []).append(name)
    full = [node(f"n-{home}").holding(*map(pod, pods)) for home, pods in homes.items()]
    return cluster(*full, *(node(f"spare-{i:02}") for i in range(nodes - len(full))))


@pytest.mark.parametrize(
    ("percent", "whole", "part"),
    [
        pytest.param(None, 100, None, id="no share is no limit"),
        pytest.param(10, 100, 10, id="a share that comes out even"),
        pytest.param(10, 101, 11, id="the rest is rounded up"),
        pytest.param(1, 3, 1, id="at least one"),
        pytest.param(5, 0, 1, id="even of nothing"),
        pytest.param(100, 7, 7, id="all"),
        pytest.param(0.5, 400, 2, id="part of a percent"),
        pytest.param(1.1, 1000, 11, id="no more for the sake of binary fractions"),
        pytest.param(7, 100, 7, id="nor here, where 7/100 of 100 is more than 7"),
    ],
)
def test_a_share_is_rounded_up_and_at_least_one(
    percent: float | None, whole: int, part: int | None
) -> None:
    assert share(percent, whole) == part


@pytest.mark.parametrize(
    ("limits", "answers"),
    [
        pytest.param(Limits(), ["admitted"] * 3, id="none"),
        pytest.param(Limits(percent_of_pods=34), ["admitted"] * 2 + ["limit-total"], id="a share"),
        pytest.param(
            Limits(percent_of_pods=1), ["admitted"] + ["limit-total"] * 2, id="at least one"
        ),
        pytest.param(
            Limits(total=1, percent_of_pods=67),
            ["admitted"] + ["limit-total"] * 2,
            id="the number is smaller",
        ),
        pytest.param(
            Limits(total=3, percent_of_pods=34),
            ["admitted"] * 2 + ["limit-total"],
            id="the share is smaller",
        ),
        pytest.param(Limits(total=0, percent_of_pods=50), ["limit-total"] * 3, id="zero wins"),
    ],
)
def test_a_cycle_moves_no_more_than_a_share_of_the_pods(limits: Limits, answers: list[str]) -> None:
    world = on_nodes("a", "b", "c")

    assert words(verdicts(world, "a", "b", "c", limits=limits)) == answers


@pytest.mark.parametrize(
    ("percent", "answers"),
    [
        pytest.param(None, ["admitted"] * 4, id="no limit"),
        pytest.param(
            34, ["admitted", "admitted", "admitted", "limit-nodes"], id="two nodes of four"
        ),
        pytest.param(
            25, ["admitted", "limit-nodes", "admitted", "limit-nodes"], id="one node of four"
        ),
    ],
)
def test_pods_leave_no_more_than_a_share_of_the_nodes(
    percent: float | None, answers: list[str]
) -> None:
    world = on_nodes("a1", "b", "a2", "c", nodes=4)
    results = verdicts(world, "a1", "b", "a2", "c", limits=Limits(percent_of_nodes=percent))

    assert words(results) == answers


def test_the_share_of_nodes_is_one_of_nodes_in_scope() -> None:
    unready = [node(f"down-{i}", ready=False) for i in range(8)]
    world = cluster(node("n-a").holding(pod("a")), node("n-b").holding(pod("b")), *unready)

    results = verdicts(world, "a", "b", limits=Limits(percent_of_nodes=50))

    assert words(results) == ["admitted", "limit-nodes"]


def test_nodes_that_pods_are_leaving_already_count() -> None:
    world = on_nodes("a1", "a2", "b", nodes=4)
    results = verdicts(world, "b", "a2", moving=["a1"], limits=Limits(percent_of_nodes=25))

    assert words(results) == ["limit-nodes", "admitted"]


def test_a_pod_that_is_refused_for_something_else_uses_up_no_node() -> None:
    world = cluster(
        node("n1").holding(pod("bare", owner=None)), node("n2").holding(pod("a")), node("n3")
    )
    results = verdicts(world, "bare", "a", limits=Limits(percent_of_nodes=1))

    assert words(results) == ["no-owner", "admitted"]


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        pytest.param(
            Limits(total=1), "the limit of 1 for this cycle is reached", id="a number of pods"
        ),
        pytest.param(
            Limits(percent_of_pods=1.5),
            "the limit of 1 for this cycle (1.5% of 2 pods) is reached",
            id="a share of pods",
        ),
        pytest.param(
            Limits(percent_of_nodes=2.5),
            "the limit of 1 node for this cycle (2.5% of 40) is reached",
            id="a share of nodes",
        ),
    ],
)
def test_a_limit_says_what_it_is_and_where_it_comes_from(limits: Limits, sentence: str) -> None:
    _, last = verdicts(on_nodes("a", "b", nodes=40), "a", "b", limits=limits)

    assert last.refusal is not None
    assert last.refusal.sentence == sentence
    assert last.refusal.code in REASONS


def test_several_nodes_are_printed_in_the_plural() -> None:
    world = on_nodes("a", "b", "c", nodes=40)
    *_, last = verdicts(world, "a", "b", "c", limits=Limits(percent_of_nodes=5))

    assert last.refusal is not None
    assert last.refusal.sentence == "the limit of 2 nodes for this cycle (5% of 40) is reached"


def test_the_share_counts_over_all_plugins_together() -> None:
    world = on_nodes("a", "b", "c", nodes=3)
    plan = drawn(world, proposing("a"), proposing("b", "c"), limits=Limits(percent_of_nodes=40))

    assert [move.pod.name for move in plan.moves] == ["a", "b"]
    assert plan.refused == {"limit-nodes": 1}


# -- how plugins go on --------------------------------------------------------------------------

REGISTRY = default_registry()
APP = {"app": "web"}


def pods(home: str, count: int, **made: Any) -> list[dict[str, Any]]:
    return [pod(f"{home}-{i}", **made) for i in range(count)]


EACH_PLUGIN = pytest.mark.parametrize(
    ("name", "args", "world"),
    [
        pytest.param(
            "RemovePodsViolatingNodeTaints",
            {},
            cluster(
                node("n1", taints=["a=1:NoSchedule"]).holding(*pods("n1", 2)),
                node("n2", taints=["a=1:NoSchedule"]).holding(*pods("n2", 2)),
                node("n3"),
            ),
            id="taints",
        ),
        pytest.param(
            "RemovePodsHavingTooManyRestarts",
            {"podRestartThreshold": 1},
            cluster(
                node("n1").holding(*pods("n1", 2, restarts=9)),
                node("n2").holding(*pods("n2", 2, restarts=9)),
            ),
            id="restarts",
        ),
        pytest.param(
            "RemovePodsViolatingInterPodAntiAffinity",
            {},
            cluster(
                node("n1").holding(*pods("n1", 3, labels=APP, away_from=APP)),
                node("n2").holding(*pods("n2", 3, labels=APP, away_from=APP)),
                *(node(f"spare-{i}") for i in range(6)),
            ),
            id="anti-affinity",
        ),
        pytest.param(
            "LowNodeUtilization",
            {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}},
            cluster(
                node("n1").holding(*pods("n1", 4, cpu="900m")),
                node("n2").holding(*pods("n2", 4, cpu="900m")),
                node("n3"),
                node("n4"),
            ),
            id="LowNodeUtilization",
        ),
        pytest.param(
            "RemoveDuplicates",
            {},
            cluster(
                node("n1").holding(*pods("n1", 3)),
                node("n2").holding(*pods("n2", 3)),
                node("n3"),
                node("n4"),
            ),
            id="RemoveDuplicates",
        ),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            {},
            cluster(
                node("n1", zone="a").holding(
                    *pods("n1", 3, labels=APP, spread=[spread(labels=APP)])
                ),
                node("n2", zone="a").holding(
                    *pods("n2", 3, labels=APP, spread=[spread(labels=APP)])
                ),
                node("n3", zone="b"),
            ),
            id="topology spread",
        ),
    ],
)


@EACH_PLUGIN
def test_a_plugin_goes_on_with_the_next_node_and_asks_no_more_of_this_one(
    name: str, args: dict[str, Any], world: World
) -> None:
    policy = {"maxNoOfPodsToEvictTotal": 100, "maxPercentOfNodesToEvictFrom": 100}
    free = plan(REGISTRY[name], world, policy=policy, api_version="resettle/v1", **args).plan
    policy["maxPercentOfNodesToEvictFrom"] = 1
    tight = plan(REGISTRY[name], world, policy=policy, api_version="resettle/v1", **args).plan

    assert len({move.pod.node for move in free.moves}) == 2, "without the limit both give pods"
    assert len({move.pod.node for move in tight.moves}) == 1
    assert tight.refused["limit-nodes"] >= 1
    assert "limit-total" not in tight.refused


@EACH_PLUGIN
def test_where_pods_go_node_by_node_one_refusal_is_enough(
    name: str, args: dict[str, Any], world: World
) -> None:
    plugin = REGISTRY[name]
    point = "deschedule" if plugin.deschedule else "balance"
    read = convert(args, plugin.args)
    turns: dict[str, Any] = {point: (Instance(plugin, read, ExtensionPoint(point)),)}
    descheduler = Descheduler(
        profiles=(guarded_by(EVICTOR, **turns),), limits=Limits(percent_of_nodes=1)
    )

    tight = descheduler.draw_plan(world.snapshot())

    assert len({move.pod.node for move in tight.moves}) == 1
    assert tight.refused["limit-nodes"] == 1
