"""The oracle on topology spread constraints that are a must."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import NodeBuilder, node, pod, spread
from tests.oracle.objects import HOSTNAME, ZONE, Object, on_nodes, oracle, row, where

WEB = {"app": "web"}


def webs(name: str, count: int, **made: Any) -> list[Object]:
    """So many pods like the one that is asked about, but for their constraints."""
    return [pod(f"{name}-{i}", **{"labels": WEB, **made}) for i in range(count)]


def takers(nodes: list[NodeBuilder], **made: Any) -> set[str]:
    """Names of the nodes that would take `it`, which is on a node of its own without any labels."""
    home = node("home")
    home.node["metadata"]["labels"] = {}
    asked = oracle(home.holding(pod("it", **{"labels": WEB, **made})), *nodes)
    names = [builder.node["metadata"]["name"] for builder in nodes]
    return {name for name in names if asked.refuses("default/it", name) is None}


def zones(a: int, b: int, c: int) -> list[NodeBuilder]:
    """Three nodes of a zone each, with so many pods."""
    counts = {"a": a, "b": b, "c": c}
    return [node(f"n-{zone}", zone=zone).holding(*webs(zone, n)) for zone, n in counts.items()]


@pytest.mark.parametrize(
    ("nodes", "rule", "takes"),
    [
        pytest.param(zones(1, 1, 1), {}, "abc", id="even"),
        pytest.param(zones(2, 1, 1), {}, "bc", id="not where there is one more"),
        pytest.param(zones(2, 1, 0), {}, "c", id="only where there is the least"),
        pytest.param(zones(2, 1, 0), {"max_skew": 2}, "bc", id="a wider skew"),
        pytest.param(zones(5, 0, 0), {"when": "ScheduleAnyway"}, "abc", id="only preferred"),
        pytest.param(
            zones(1, 1, 1), {"minDomains": 4}, "", id="fewer domains than wanted: least is zero"
        ),
        pytest.param(zones(1, 1, 1), {"minDomains": 3}, "abc", id="as many domains as wanted"),
        pytest.param(zones(2, 0, 0), {"labels": {"app": "db"}}, "abc", id="others are counted"),
    ],
)
def test_a_domain_may_have_so_many_more_than_the_least(
    nodes: list[NodeBuilder], rule: dict[str, Any], takes: str
) -> None:
    constraint = spread(**{"labels": WEB, **rule})

    assert takers(nodes, spread=[constraint]) == {f"n-{zone}" for zone in takes}


def test_a_pod_that_its_own_rule_does_not_select_adds_nothing() -> None:
    rule = spread(labels=WEB)

    assert takers(zones(1, 1, 0), labels={"app": "db"}, spread=[rule]) == {"n-a", "n-b", "n-c"}
    assert takers(zones(2, 1, 0), labels={"app": "db"}, spread=[rule]) == {"n-b", "n-c"}


@pytest.mark.parametrize(
    ("selector", "takes"),
    [
        pytest.param(None, "abc", id="no selector at all"),
        pytest.param({}, "abc", id="an empty one"),
    ],
)
def test_a_selector_without_requirements_counts_no_pods(
    selector: Object | None, takes: str
) -> None:
    rule = {**spread(labels={}), "labelSelector": selector}

    assert takers(zones(2, 1, 1), spread=[rule]) == {f"n-{zone}" for zone in takes}


@pytest.mark.parametrize(
    ("made", "counts"),
    [
        pytest.param({}, True, id="like any"),
        pytest.param({"namespace": "shop"}, False, id="not in another namespace"),
        pytest.param({"terminating": True}, False, id="not on its way out"),
        pytest.param({"phase": "Succeeded"}, False, id="not once it has finished"),
        pytest.param({"labels": {**WEB, "version": "1"}}, True, id="of the same version"),
        pytest.param({"labels": {**WEB, "version": "2"}}, False, id="not of another version"),
    ],
)
def test_which_pods_count(made: dict[str, Any], counts: bool) -> None:
    nodes = [node("n-a", zone="a").holding(*webs("a", 1, **made)), node("n-b", zone="b")]
    own = {**WEB, "version": "1"} if "labels" in made else WEB
    rule = spread(labels=WEB, matchLabelKeys=["version", "unheard-of"])

    takes = takers(nodes, labels=own, spread=[rule])
    assert takes == ({"n-b"} if counts else {"n-a", "n-b"})


def test_a_node_without_the_key_takes_no_such_pod() -> None:
    nodes = [node("n-a", zone="a"), node("nowhere")]

    assert takers(nodes, spread=[spread(labels=WEB)]) == {"n-a"}


EMPTY = node("n-c", zone="c", labels={"pool": "red"})
"""A node in a domain of its own: where it counts, the least is zero."""


@pytest.mark.parametrize(
    ("empty", "made", "rule", "counts"),
    [
        pytest.param(EMPTY, {}, {}, True, id="any node"),
        pytest.param(EMPTY, {"node_selector": {"pool": "blue"}}, {}, False, id="not selected"),
        pytest.param(
            EMPTY,
            {"affinity": on_nodes(where(row("pool", "In", "blue")))},
            {},
            False,
            id="not by affinity",
        ),
        pytest.param(
            EMPTY,
            {"node_selector": {"pool": "blue"}},
            {"nodeAffinityPolicy": "Ignore"},
            True,
            id="not selected, and that is ignored",
        ),
        pytest.param(
            node("n-c", zone="c", taints=["gpu:NoSchedule"]), {}, {}, True, id="taints are ignored"
        ),
        pytest.param(
            node("n-c", zone="c", taints=["gpu:NoSchedule"]),
            {},
            {"nodeTaintsPolicy": "Honor"},
            False,
            id="unless they are honoured",
        ),
        pytest.param(
            node("n-c", zone="c", taints=["gpu:NoSchedule"]),
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            {"nodeTaintsPolicy": "Honor"},
            True,
            id="honoured, and tolerated",
        ),
        pytest.param(
            node("n-c", zone="c", taints=["gpu:PreferNoSchedule"]),
            {},
            {"nodeTaintsPolicy": "Honor"},
            True,
            id="honoured, and only preferred",
        ),
        pytest.param(node("n-c", zone="c", cordoned=True), {}, {}, True, id="cordoned"),
        pytest.param(node("n-c", zone="c", ready=False), {}, {}, True, id="unready"),
        pytest.param(node("n-c"), {}, {}, False, id="without the key"),
    ],
)
def test_which_nodes_count(
    empty: NodeBuilder, made: dict[str, Any], rule: dict[str, Any], counts: bool
) -> None:
    others = [
        node(f"n-{zone}", zone=zone, labels={"pool": "blue"}).holding(*webs(zone, 1))
        for zone in "ab"
    ]

    takes = takers([*others, empty], spread=[spread(labels=WEB, **rule)], **made)
    assert ("n-a" in takes) == (not counts)


def test_a_node_counts_only_if_it_has_the_keys_of_all_the_pods_rules() -> None:
    rack = {"rack": "r"}
    nodes = [
        node("n-a", zone="a", labels=rack).holding(*webs("a", 1)),
        node("n-b", zone="b", labels=rack).holding(*webs("b", 1)),
        node("n-c", zone="c"),
    ]
    over_zones, over_racks = spread(labels=WEB), spread(labels=WEB, key="rack", max_skew=9)

    assert takers(nodes, spread=[over_zones]) == {"n-c"}
    assert takers(nodes, spread=[over_zones, over_racks]) == {"n-a", "n-b"}
    soft = {**over_racks, "whenUnsatisfiable": "ScheduleAnyway"}
    assert takers(nodes, spread=[over_zones, soft]) == {"n-c"}


def test_every_rule_must_hold() -> None:
    nodes = [
        node("n1", zone="a").holding(*webs("n1", 2)),
        node("n2", zone="a"),
        node("n3", zone="b").holding(*webs("n3", 1)),
        node("n4", zone="b").holding(*webs("n4", 1)),
    ]
    over_zones, over_nodes = spread(labels=WEB), spread(labels=WEB, key=HOSTNAME)

    assert takers(nodes, spread=[over_zones]) == {"n1", "n2", "n3", "n4"}
    assert takers(nodes, spread=[over_zones, over_nodes]) == {"n2"}


def test_a_pod_counts_neither_where_it_was_nor_twice_where_it_is() -> None:
    rule = spread(labels=WEB)
    asked = oracle(
        node("n1", zone="a").holding(pod("it", labels=WEB, spread=[rule])),
        node("n2", zone="b").holding(*webs("b", 1)),
    )

    assert asked.refuses("default/it", "n1") is None
    assert asked.refuses("default/it", "n2") == f"b has its share of pods spread over {ZONE}"
