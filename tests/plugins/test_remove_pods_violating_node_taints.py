"""RemovePodsViolatingNodeTaints: which taints count, and who does not tolerate them."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.plugins.remove_pods_violating_node_taints import PLUGIN
from resettle.testing import NodeBuilder, cluster, node, plan, pod
from tests.plugins.harness import EVICT, faults

Object = dict[str, Any]

SOFT = {"includePreferNoSchedule": True}


def tolerating(key: str, value: str = "", effect: str = "", operator: str = "Equal") -> Object:
    return {"key": key, "value": value, "effect": effect, "operator": operator}


def leaves(taints: list[str], tolerations: list[Object], **args: Any) -> bool:
    tainted = node("n1", taints=taints).holding(pod("it", tolerations=tolerations))
    return plan(PLUGIN, cluster(tainted, node("n2")), **args).evicts != []


@pytest.mark.parametrize(
    ("taints", "tolerations", "goes"),
    [
        pytest.param([], [], False, id="no taint"),
        pytest.param(["a=1:NoSchedule"], [], True, id="untolerated"),
        pytest.param(["a=1:NoSchedule"], [tolerating("a", "1")], False, id="tolerated"),
        pytest.param(["a=1:NoSchedule"], [tolerating("a", "2")], True, id="other value"),
        pytest.param(["a=1:NoSchedule"], [tolerating("b", "1")], True, id="other key"),
        pytest.param(
            ["a=1:NoSchedule"], [tolerating("a", "1", "NoExecute")], True, id="other effect"
        ),
        pytest.param(
            ["a=1:NoSchedule"], [tolerating("a", "1", "NoSchedule")], False, id="same effect"
        ),
        pytest.param(
            ["a=1:NoSchedule"],
            [tolerating("a", operator="Exists")],
            False,
            id="any value of the key",
        ),
        pytest.param(
            ["a=1:NoSchedule"], [tolerating("", operator="Exists")], False, id="any taint"
        ),
        pytest.param(["a=5:NoSchedule"], [tolerating("a", "10", operator="Lt")], False, id="less"),
        pytest.param(
            ["a=10:NoSchedule"], [tolerating("a", "10", operator="Lt")], True, id="not less"
        ),
        pytest.param(
            ["a=11:NoSchedule"], [tolerating("a", "10", operator="Gt")], False, id="greater"
        ),
        pytest.param(
            ["a=x:NoSchedule"], [tolerating("a", "10", operator="Gt")], True, id="no number"
        ),
        pytest.param(
            ["a=1:NoSchedule"], [tolerating("a", "1", operator="Like")], True, id="operator"
        ),
        pytest.param(
            ["a=1:NoSchedule", "b=1:NoSchedule"],
            [tolerating("a", "1")],
            True,
            id="one of two tolerated",
        ),
        pytest.param(
            ["a=1:NoSchedule", "b=1:NoSchedule"],
            [tolerating("b", "1"), tolerating("a", "1")],
            False,
            id="both tolerated",
        ),
        pytest.param(["a=1:NoExecute"], [], False, id="NoExecute never counts"),
        pytest.param(["a=1:PreferNoSchedule"], [], False, id="soft taints do not count by default"),
    ],
)
def test_pods_leave_nodes_whose_taints_they_do_not_tolerate(
    taints: list[str], tolerations: list[Object], goes: bool
) -> None:
    assert leaves(taints, tolerations) is goes


@pytest.mark.parametrize(
    ("taints", "tolerations", "goes"),
    [
        pytest.param(["a=1:PreferNoSchedule"], [], True, id="soft"),
        pytest.param(["a=1:PreferNoSchedule"], [tolerating("a", "1")], False, id="soft, tolerated"),
        pytest.param(["a=1:NoSchedule"], [], True, id="hard still"),
        pytest.param(["a=1:NoExecute"], [], False, id="NoExecute never"),
    ],
)
def test_soft_taints_count_when_asked(
    taints: list[str], tolerations: list[Object], goes: bool
) -> None:
    assert leaves(taints, tolerations, **SOFT) is goes


@pytest.mark.parametrize(
    ("taint", "entry", "listed"),
    [
        pytest.param("a=1:NoSchedule", "a", True, id="by key"),
        pytest.param("a=1:NoSchedule", "a=1", True, id="by key and value"),
        pytest.param("a=1:NoSchedule", "a=2", False, id="other value"),
        pytest.param("a=1:NoSchedule", "b", False, id="other key"),
        pytest.param("a=1:NoSchedule", "b=1", False, id="other key, same value"),
        pytest.param("a:NoSchedule", "a", True, id="no value, by key"),
        pytest.param("a:NoSchedule", "a=", False, id="no value is not an empty value"),
        pytest.param("a=1:NoSchedule", "a=1:NoSchedule", False, id="an effect is not part of it"),
    ],
)
def test_taints_are_listed_by_key_or_by_key_and_value(taint: str, entry: str, listed: bool) -> None:
    assert leaves([taint], [], includedTaints=[entry]) is listed
    assert leaves([taint], [], excludedTaints=[entry]) is not listed


@pytest.mark.parametrize(
    ("args", "goes"),
    [
        pytest.param({}, True, id="absent lists: every taint counts"),
        pytest.param({"includedTaints": None}, True, id="null is absent"),
        pytest.param({"includedTaints": []}, False, id="an empty list includes none"),
        pytest.param({"excludedTaints": []}, True, id="an empty list excludes none"),
        pytest.param({"includedTaints": ["b"]}, False, id="the tolerated one is included"),
        pytest.param({"includedTaints": ["a"]}, True, id="the untolerated one is included"),
        pytest.param({"includedTaints": ["a", "b"]}, True, id="both included"),
        pytest.param({"excludedTaints": ["a"]}, False, id="the untolerated one is excluded"),
        pytest.param({"excludedTaints": ["b"]}, True, id="the tolerated one is excluded"),
    ],
)
def test_lists_choose_the_taints_that_count(args: Object, goes: bool) -> None:
    taints = ["a=1:NoSchedule", "b=1:NoSchedule"]

    assert leaves(taints, [tolerating("b", "1")], **args) is goes


TAINT = ["a=1:NoSchedule"]


@pytest.mark.parametrize(
    ("made", "args", "goes"),
    [
        pytest.param({"phase": "Succeeded"}, {}, False, id="succeeded"),
        pytest.param({"phase": "Failed"}, {}, False, id="failed"),
        pytest.param({"phase": "Pending"}, {}, True, id="pending"),
        pytest.param({"terminating": True}, {}, False, id="terminating"),
        pytest.param({"priority": 2_000_000_000}, {}, False, id="critical"),
        pytest.param(
            {"priority": 2_000_000_000},
            {"evictor": {"evictSystemCriticalPods": True}},
            True,
            id="critical, protection lifted",
        ),
        pytest.param(
            {"priority": 2_000_000_000, "annotations": {EVICT: ""}},
            {},
            True,
            id="critical, annotated",
        ),
        pytest.param({"owner": "DaemonSet/a"}, {}, False, id="of a DaemonSet"),
        pytest.param(
            {"owner": "DaemonSet/a"},
            {"evictor": {"evictDaemonSetPods": True}},
            True,
            id="of a DaemonSet, protection lifted",
        ),
        pytest.param({"namespace": "b"}, {"namespaces": {"exclude": ["b"]}}, False, id="namespace"),
        pytest.param({}, {"labelSelector": {"matchLabels": {"a": "b"}}}, False, id="labels"),
    ],
)
def test_only_pods_in_view_leave(made: Object, args: Object, goes: bool) -> None:
    world = cluster(node("n1", taints=TAINT).holding(pod("it", **made)), node("n2"))

    assert (plan(PLUGIN, world, **args).evicts != []) is goes


@pytest.mark.parametrize(
    ("made", "other", "goes"),
    [
        pytest.param({}, node("n2"), True, id="free"),
        pytest.param({}, node("n2", taints=["b=1:NoSchedule"]), False, id="tainted as well"),
        pytest.param(
            {"node_selector": {"pool": "x"}}, node("n2", labels={"pool": "y"}), False, id="selector"
        ),
        pytest.param({}, node("n2", cordoned=True), False, id="unschedulable"),
        pytest.param({"cpu": "2"}, node("n2", cpu="1"), False, id="no room"),
    ],
)
def test_with_node_fit_a_pod_needs_a_place_to_go(
    made: Object, other: NodeBuilder, goes: bool
) -> None:
    world = cluster(node("n1", taints=TAINT).holding(pod("it", **made)), other)

    assert (plan(PLUGIN, world, evictor={"nodeFit": True}).evicts != []) is goes
    assert plan(PLUGIN, world).evicts == ["it"]


def test_only_tainted_nodes_are_cleared() -> None:
    world = cluster(
        node("n1", taints=TAINT).holding(pod("a"), pod("b", tolerations=[tolerating("a", "1")])),
        node("n2").holding(pod("c")),
    )

    assert plan(PLUGIN, world).evicts == ["a"]


def test_without_a_taint_that_counts_there_is_nothing_to_do() -> None:
    world = cluster(node("n1", taints=["a:NoExecute"]).holding(pod("a")), node("n2"))

    assert plan(PLUGIN, world).stopped == ["no-candidate"]


@pytest.mark.parametrize(
    ("args", "places"),
    [
        pytest.param({}, [], id="defaults"),
        pytest.param({"includedTaints": ["a"], "excludedTaints": []}, [], id="one list empty"),
        pytest.param(
            {"includedTaints": ["a"], "excludedTaints": ["b"]}, ["includedTaints"], id="both lists"
        ),
        pytest.param(
            {"namespaces": {"include": ["a"], "exclude": ["b"]}}, ["namespaces"], id="both ways"
        ),
        pytest.param(
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]
                }
            },
            ["labelSelector.matchExpressions[0].values"],
            id="selector",
        ),
    ],
)
def test_arguments_are_checked(args: Object, places: list[str]) -> None:
    assert faults(PLUGIN, **args) == places
