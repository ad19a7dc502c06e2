"""Which nodes would take a pod: each check but that of room, and the two ways to ask."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.placement.upstream_fit import NodeFit
from resettle.testing import NodeBuilder, World, cluster, node, pod

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"


def takers(
    world: World, *, own: bool = False, key: tuple[str, str] = ("default", "it")
) -> set[str]:
    """Names of the nodes that would take the pod, its own only where asked."""
    snapshot = world.snapshot()
    subject = snapshot.pod(*key)
    assert subject is not None
    everyone = snapshot.node_index.all_nodes
    fit = NodeFit(snapshot)
    nodes = (
        fit.feasible_anywhere(subject, everyone)
        if own
        else fit.feasible_elsewhere(subject, everyone)
    )
    return {each.name for each in snapshot.node_index.members(nodes)}


def fits(other: NodeBuilder, **made: Any) -> bool:
    """Whether the other of two nodes would take the pod."""
    return takers(cluster(node("n1").holding(pod("it", **made)), other)) == {"n2"}


def requiring(key: str, operator: str, *values: str) -> Object:
    rows = [{"key": key, "operator": operator, "values": list(values)}]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": rows}]}}}


def away(selector: Object | None, key: str = HOSTNAME, **more: Any) -> Object:
    rule = {"labelSelector": selector, "topologyKey": key, **more}
    return {"podAntiAffinity": {REQUIRED: [rule]}}


@pytest.mark.parametrize(
    ("other", "made", "takes"),
    [
        pytest.param(node("n2"), {}, True, id="an empty node"),
        pytest.param(node("n2", cordoned=True), {}, False, id="cordoned"),
        pytest.param(node("n2", ready=False), {}, True, id="readiness is not asked about here"),
        pytest.param(
            node("n2", labels={"a": "b"}), {"node_selector": {"a": "b"}}, True, id="selector met"
        ),
        pytest.param(node("n2"), {"node_selector": {"a": "b"}}, False, id="selector not met"),
        pytest.param(node("n2"), {"node_selector": {}}, True, id="an empty selector"),
        pytest.param(
            node("n2", labels={"a": "b"}),
            {"affinity": requiring("a", "In", "b")},
            True,
            id="affinity met",
        ),
        pytest.param(
            node("n2"), {"affinity": requiring("a", "In", "b")}, False, id="affinity not met"
        ),
        pytest.param(
            node("n2"), {"affinity": requiring("a", "Like", "b")}, False, id="affinity unreadable"
        ),
        pytest.param(
            node("n2", labels={"a": "b"}),
            {"node_selector": {"c": "d"}, "affinity": requiring("a", "In", "b")},
            False,
            id="affinity met, selector not",
        ),
        pytest.param(node("n2", taints=["a:NoSchedule"]), {}, False, id="NoSchedule"),
        pytest.param(node("n2", taints=["a:NoExecute"]), {}, False, id="NoExecute"),
        pytest.param(node("n2", taints=["a:PreferNoSchedule"]), {}, True, id="PreferNoSchedule"),
        pytest.param(
            node("n2", taints=["a:NoSchedule", "b:NoExecute"]),
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            False,
            id="one of two taints tolerated",
        ),
        pytest.param(
            node("n2", taints=["a:NoSchedule", "b:NoExecute"]),
            {"tolerations": [{"operator": "Exists"}]},
            True,
            id="all taints tolerated at once",
        ),
    ],
)
def test_cordon_placement_and_taints_decide(other: NodeBuilder, made: Object, takes: bool) -> None:
    assert fits(other, **made) is takes


DB = {"matchLabels": {"app": "db"}}


@pytest.mark.parametrize(
    ("affinity", "neighbour", "takes"),
    [
        pytest.param(away(DB), pod("db", labels={"app": "db"}), False, id="conflict"),
        pytest.param(away(DB), pod("web", labels={"app": "web"}), True, id="other labels"),
        pytest.param(
            away(DB), pod("db", labels={"app": "db"}, namespace="x"), True, id="other namespace"
        ),
        pytest.param(
            away(DB, namespaces=["x"]),
            pod("db", labels={"app": "db"}, namespace="x"),
            False,
            id="named namespace",
        ),
        pytest.param(
            away(DB, namespaces=["x"]),
            pod("db", labels={"app": "db"}),
            True,
            id="only named namespaces",
        ),
        pytest.param(
            away(DB, namespaceSelector={}),
            pod("db", labels={"app": "db"}, namespace="x"),
            True,
            id="a namespace selector is ignored",
        ),
        pytest.param(
            away(DB, "zone"), pod("db", labels={"app": "db"}), True, id="the node lacks the label"
        ),
        pytest.param(
            away(None), pod("db", labels={"app": "db"}), True, id="no selector means none"
        ),
        pytest.param(away({}), pod("db"), False, id="an empty selector means all"),
        pytest.param(
            away(DB), pod("db", labels={"app": "db"}, phase="Failed"), True, id="finished neighbour"
        ),
        pytest.param(
            away(DB),
            pod("db", labels={"app": "db"}, terminating=True),
            False,
            id="terminating neighbour",
        ),
        pytest.param(
            away(DB, namespaces=["x"]),
            pod("it", labels={"app": "db"}, namespace="x"),
            True,
            id="a namesake is no neighbour",
        ),
        pytest.param(
            {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            pod("db", labels={"app": "db"}),
            True,
            id="preferences do not count",
        ),
        pytest.param(
            {}, pod("shy", affinity=away({})), True, id="the rules of the neighbour do not count"
        ),
    ],
)
def test_the_pod_s_own_anti_affinity_decides(
    affinity: Object, neighbour: Object, takes: bool
) -> None:
    assert fits(node("n2").holding(neighbour), affinity=affinity) is takes


def test_only_pods_of_the_very_node_conflict_not_those_of_its_zone() -> None:
    zone = {"zone": "a"}
    world = cluster(
        node("n1").holding(pod("it", affinity=away(DB, "zone"))),
        node("n2", labels=zone),
        node("n3", labels=zone).holding(pod("db", labels={"app": "db"})),
    )

    assert takers(world) == {"n2"}


def database(name: str, namespace: str, phase: str = "Running") -> Object:
    return pod(name, namespace=namespace, phase=phase, labels={"app": "db"})


@pytest.mark.parametrize(
    ("there", "takes"),
    [
        pytest.param([database("it", "x")], True, id="one namesake"),
        pytest.param(
            [database("it", "x"), database("it", "y")], True, id="namesakes in two namespaces"
        ),
        pytest.param(
            [database("it", "x"), database("db", "y")], False, id="a namesake and another"
        ),
        pytest.param(
            [database("it", "x", "Failed"), database("db", "y")],
            False,
            id="a finished namesake and another",
        ),
    ],
)
def test_no_number_of_namesakes_makes_a_neighbour(there: list[Object], takes: bool) -> None:
    other = node("n2").holding(*there)

    assert fits(other, affinity=away(DB, namespaces=["x", "y"])) is takes


@pytest.mark.parametrize(
    ("own", "made", "takes"),
    [
        pytest.param(node("n1"), {}, True, id="the own node"),
        pytest.param(node("n1", cpu="1"), {"cpu": "2"}, True, id="its room is not asked about"),
        pytest.param(node("n1", pods=1), {}, True, id="nor its places"),
        pytest.param(node("n1", cordoned=True), {}, False, id="its cordon is"),
        pytest.param(node("n1", taints=["a:NoSchedule"]), {}, False, id="its taints are"),
        pytest.param(node("n1"), {"node_selector": {"a": "b"}}, False, id="its labels are"),
        pytest.param(
            node("n1").holding(pod("db", labels={"app": "db"})),
            {"affinity": away(DB)},
            False,
            id="its pods are",
        ),
        pytest.param(
            node("n1"),
            {"affinity": away(DB), "labels": {"app": "db"}},
            True,
            id="but not the pod itself",
        ),
    ],
)
def test_asked_about_any_node_the_own_one_counts_without_its_room(
    own: NodeBuilder, made: Object, takes: bool
) -> None:
    world = cluster(own.holding(pod("it", **made)), node("n2", cordoned=True))

    assert takers(world, own=True) == ({"n1"} if takes else set())
    assert takers(world) == set()


def test_of_four_nodes_each_may_fail_for_a_reason_of_its_own() -> None:
    made = pod("it", cpu="2", node_selector={"pool": "a"}, labels={"app": "db"}, affinity=away(DB))
    pool = {"pool": "a"}
    world = cluster(
        node("n0", labels=pool).holding(made),
        node("n1", labels={"pool": "b"}),
        node("n2", labels=pool, taints=["x:NoSchedule"]),
        node("n3", labels=pool).holding(pod("full", cpu="3")),
        node("n4", labels=pool).holding(pod("db", labels={"app": "db"})),
        node("n5", labels=pool, cordoned=True),
        node("n6", labels=pool),
    )

    assert takers(world) == {"n6"}
    assert takers(world, own=True) == {"n0", "n6"}


def test_only_the_nodes_asked_about_are_looked_at() -> None:
    snapshot = cluster(node("n1").holding(pod("it")), node("n2"), node("n3")).snapshot()
    (subject,) = snapshot.pods
    fit, third = NodeFit(snapshot), snapshot.node_index.only("n3")

    assert fit.feasible_elsewhere(subject, third) == third
    assert fit.feasible_elsewhere(subject, snapshot.node_index.only("n1")) == 0
