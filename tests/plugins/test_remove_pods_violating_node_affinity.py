"""RemovePodsViolatingNodeAffinity: pods whose node is not, or not best, what they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.plugins.remove_pods_violating_node_affinity import PLUGIN
from resettle.testing import NodeBuilder, cluster, node, plan, pod
from tests.plugins.harness import faults

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(key: str, *values: str) -> Object:
    operator = {"operator": "In", "values": list(values)} if values else {"operator": "Exists"}
    return {"matchExpressions": [{"key": key, **operator}]}


def requiring(*terms: Object) -> Object:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def preferring(**weights: int) -> Object:
    """Preferences for nodes that carry these labels, each with its weight."""
    rows = [{"weight": weight, "preference": term(key)} for key, weight in weights.items()]
    return {"nodeAffinity": {PREFERRED: rows}}


def leaves(made: Object, kind: str, *nodes: NodeBuilder, **args: Any) -> bool:
    first, *others = nodes
    world = cluster(first.holding(made), *others)
    return plan(PLUGIN, world, nodeAffinityType=[kind], **args).evicts != []


SSD = requiring(term("disk", "ssd"))
PLAIN = node("n1")
WITH_SSD = node("n2", labels={"disk": "ssd"})


@pytest.mark.parametrize(
    ("made", "nodes", "goes"),
    [
        pytest.param(
            {"affinity": SSD}, [PLAIN, WITH_SSD], True, id="violated, another node has it"
        ),
        pytest.param({"affinity": SSD}, [WITH_SSD, PLAIN], False, id="satisfied"),
        pytest.param({"affinity": SSD}, [PLAIN, node("n2")], False, id="violated, no node has it"),
        pytest.param({}, [PLAIN, WITH_SSD], False, id="no affinity"),
        pytest.param(
            {"node_selector": {"disk": "ssd"}}, [PLAIN, WITH_SSD], False, id="a node selector alone"
        ),
        pytest.param(
            {"affinity": SSD, "node_selector": {"zone": "a"}},
            [WITH_SSD, node("n3", labels={"disk": "ssd", "zone": "a"})],
            True,
            id="affinity satisfied, node selector beside it not",
        ),
        pytest.param(
            {"affinity": requiring(term("gpu"), term("disk", "ssd"))},
            [WITH_SSD, node("n3", labels={"gpu": "1"})],
            False,
            id="one of two terms suffices",
        ),
        pytest.param(
            {"affinity": requiring({})}, [PLAIN, WITH_SSD], False, id="an empty term fits nowhere"
        ),
        pytest.param(
            {"affinity": SSD},
            [PLAIN, node("n2", labels={"disk": "ssd"}, cordoned=True)],
            False,
            id="the right node is unschedulable",
        ),
        pytest.param(
            {"affinity": SSD},
            [PLAIN, node("n2", labels={"disk": "ssd"}, taints=["a:NoSchedule"])],
            False,
            id="the right node is tainted",
        ),
        pytest.param(
            {"affinity": SSD, "cpu": "2"},
            [PLAIN, node("n2", labels={"disk": "ssd"}, cpu="1")],
            False,
            id="the right node is full",
        ),
        pytest.param(
            {"affinity": SSD, "terminating": True}, [PLAIN, WITH_SSD], False, id="terminating"
        ),
        pytest.param({"affinity": SSD, "phase": "Failed"}, [PLAIN, WITH_SSD], False, id="finished"),
        pytest.param(
            {"affinity": preferring(disk=1)}, [PLAIN, WITH_SSD], False, id="only a preference"
        ),
    ],
)
def test_pods_leave_nodes_that_break_what_they_require(
    made: Object, nodes: list[NodeBuilder], goes: bool
) -> None:
    assert leaves(pod("it", **made), REQUIRED, *nodes) is goes
    assert leaves(pod("it", **made), REQUIRED, *nodes, evictor={"nodeFit": True}) is goes


@pytest.mark.parametrize(
    ("made", "nodes", "goes"),
    [
        pytest.param(
            {"affinity": preferring(ssd=1)},
            [PLAIN, node("n2", labels={"ssd": ""})],
            True,
            id="better",
        ),
        pytest.param(
            {"affinity": preferring(ssd=1)},
            [node("n1", labels={"ssd": ""}), node("n2")],
            False,
            id="best",
        ),
        pytest.param(
            {"affinity": preferring(ssd=1)},
            [node("n1", labels={"ssd": ""}), node("n2", labels={"ssd": ""})],
            False,
            id="equally good",
        ),
        pytest.param(
            {"affinity": preferring(ssd=1)}, [PLAIN, node("n2")], False, id="nowhere better"
        ),
        pytest.param(
            {"affinity": preferring(a=3, b=2, c=2)},
            [node("n1", labels={"a": ""}), node("n2", labels={"b": "", "c": ""})],
            True,
            id="weights add up",
        ),
        pytest.param(
            {"affinity": preferring(a=4, b=2, c=2)},
            [node("n1", labels={"a": ""}), node("n2", labels={"b": "", "c": ""})],
            False,
            id="equal sums",
        ),
        pytest.param(
            {"affinity": preferring(a=3, b=2, c=2)},
            [
                node("n1", labels={"a": ""}),
                node("n2", labels={"b": ""}),
                node("n3", labels={"c": ""}),
            ],
            False,
            id="weights of different nodes do not add up",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 9, "preference": {}}]}}},
            [PLAIN, node("n2")],
            False,
            id="an empty preference is had by no node",
        ),
        pytest.param(
            {"affinity": preferring(ssd=1), "cpu": "2"},
            [PLAIN, node("n2", labels={"ssd": ""}, cpu="1")],
            True,
            id="the better node need not take the pod",
        ),
        pytest.param(
            {"affinity": preferring(ssd=1)},
            [node("n1", cordoned=True), node("n2", labels={"ssd": ""}, cordoned=True)],
            False,
            id="no node takes the pod",
        ),
        pytest.param(
            {"affinity": preferring(ssd=1)},
            [node("n1", taints=["a:NoSchedule"]), node("n2", labels={"ssd": ""}, cordoned=True)],
            False,
            id="own node tainted, better one unschedulable",
        ),
        pytest.param(
            {"affinity": preferring(ssd=1), "cpu": "8"},
            [node("n1", cpu="4"), node("n2", labels={"ssd": ""}, cpu="4")],
            True,
            id="the room of the own node is not asked about",
        ),
        pytest.param(
            {"affinity": preferring(ssd=1), "terminating": True},
            [PLAIN, node("n2", labels={"ssd": ""})],
            False,
            id="terminating",
        ),
        pytest.param({"affinity": SSD}, [PLAIN, WITH_SSD], False, id="only a requirement"),
    ],
)
def test_pods_leave_for_nodes_they_prefer(
    made: Object, nodes: list[NodeBuilder], goes: bool
) -> None:
    assert leaves(pod("it", **made), PREFERRED, *nodes) is goes


def test_with_node_fit_a_better_node_is_not_enough() -> None:
    made = pod("it", affinity=preferring(ssd=1), cpu="2")
    nodes = node("n1"), node("n2", labels={"ssd": ""}, cpu="1")

    assert not leaves(made, PREFERRED, *nodes, evictor={"nodeFit": True})


@pytest.mark.parametrize("scoped", [False, True])
def test_nodes_that_the_policy_leaves_out_are_no_place_to_go(scoped: bool) -> None:
    blue = {"pool": "blue"}
    world = cluster(
        node("n1", labels=blue).holding(pod("it", affinity=SSD)),
        node("n3", labels=blue),
        WITH_SSD,
    )
    policy = {"nodeSelector": "pool=blue"} if scoped else {}

    planned = plan(PLUGIN, world, policy=policy, nodeAffinityType=[REQUIRED])

    assert planned.evicts == ([] if scoped else ["it"])


def test_the_total_limit_ends_one_type_and_the_next_is_still_tried() -> None:
    world = cluster(
        node("n1").holding(
            pod("a", affinity=SSD), pod("b", affinity=SSD), pod("c", affinity=preferring(disk=1))
        ),
        WITH_SSD,
    )
    policy = {"maxNoOfPodsToEvictTotal": 1}

    planned = plan(PLUGIN, world, policy=policy, nodeAffinityType=[REQUIRED, PREFERRED])

    assert len(planned.evicts) == 1
    assert planned.refused == {"limit-total": 2}


def test_types_are_worked_through_in_the_order_listed() -> None:
    world = cluster(
        node("n1").holding(pod("hard", affinity=SSD), pod("soft", affinity=preferring(disk=1))),
        WITH_SSD,
    )

    assert plan(PLUGIN, world, nodeAffinityType=[REQUIRED, PREFERRED]).evicts == ["hard", "soft"]
    assert plan(PLUGIN, world, nodeAffinityType=[PREFERRED, REQUIRED]).evicts == ["soft", "hard"]


def test_an_unknown_type_is_taken_and_does_nothing() -> None:
    assert not leaves(pod("it", affinity=SSD), "someday", PLAIN, WITH_SSD)


@pytest.mark.parametrize(
    ("args", "places"),
    [
        pytest.param({"nodeAffinityType": [REQUIRED]}, [], id="one type"),
        pytest.param({}, ["nodeAffinityType"], id="no type"),
        pytest.param({"nodeAffinityType": []}, ["nodeAffinityType"], id="empty list"),
        pytest.param(
            {"nodeAffinityType": [REQUIRED], "namespaces": {"include": ["a"], "exclude": ["b"]}},
            ["namespaces"],
            id="both ways",
        ),
    ],
)
def test_arguments_are_checked(args: Object, places: list[str]) -> None:
    assert faults(PLUGIN, **args) == places
