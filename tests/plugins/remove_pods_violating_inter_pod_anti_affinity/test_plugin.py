"""RemovePodsViolatingInterPodAntiAffinity: the pod that states the rule goes."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.plugins.remove_pods_violating_inter_pod_anti_affinity.plugin import PLUGIN
from resettle.testing import NodeBuilder, cluster, node, plan, pod
from tests.plugins.harness import EVICT, faults

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DB = {"app": "db"}
WEB = {"app": "web"}


def keeping_away(
    selector: Object | None, key: str = "kubernetes.io/hostname", **more: Any
) -> Object:
    """An affinity with one rule against pods of this selector."""
    rule = {"labelSelector": selector, "topologyKey": key, **more}
    return {"podAntiAffinity": {REQUIRED: [rule]}}


def shy(name: str, **made: Any) -> Object:
    """A pod that wants no database near."""
    return pod(name, **({"affinity": keeping_away({"matchLabels": DB})} | made))


def evicts(*nodes: NodeBuilder, **more: Any) -> set[str]:
    return set(plan(PLUGIN, cluster(*nodes), **more).evicts)


def test_three_pods_that_keep_away_from_a_fourth_all_leave() -> None:
    world = node("n1").holding(shy("a"), shy("b"), shy("c"), pod("db", labels=DB))

    assert evicts(world, node("n2")) == {"a", "b", "c"}


def test_of_pods_that_keep_away_from_each_other_one_stays() -> None:
    rule = keeping_away({"matchLabels": WEB})
    pods = [pod(name, labels=WEB, affinity=rule) for name in "abcd"]

    assert len(evicts(node("n1").holding(*pods), node("n2"))) == 3


def test_the_least_important_leave_first() -> None:
    rule = keeping_away({"matchLabels": WEB})
    pods = [
        pod(f"p{priority}", labels=WEB, affinity=rule, priority=priority)
        for priority in (100, 0, 50)
    ]
    world = cluster(node("n1").holding(*pods), node("n2"))

    assert plan(PLUGIN, world).evicts == ["p0", "p50"]


def test_the_rule_binds_only_the_pod_that_states_it() -> None:
    assert evicts(node("n1").holding(pod("a"), pod("db", labels=DB)), node("n2")) == set()


@pytest.mark.parametrize(
    ("neighbour", "goes"),
    [
        pytest.param(pod("db", labels=DB), True, id="plain"),
        pytest.param(pod("web", labels=WEB), False, id="other labels"),
        pytest.param(pod("db", labels=DB, namespace="other"), False, id="other namespace"),
        pytest.param(pod("db", labels=DB, priority=2_000_000_000), True, id="critical"),
        pytest.param(pod("db", labels=DB, owner="DaemonSet/db"), True, id="unevictable"),
        pytest.param(pod("db", labels=DB, terminating=True), True, id="terminating"),
        pytest.param(pod("db", labels=DB, phase="Pending"), True, id="pending"),
        pytest.param(pod("db", labels=DB, phase="Succeeded"), False, id="finished"),
        pytest.param(pod("it", labels=DB, namespace="other"), False, id="namesake"),
    ],
)
def test_which_neighbours_break_the_rule(neighbour: Object, goes: bool) -> None:
    assert evicts(node("n1").holding(shy("it"), neighbour), node("n2")) == (
        {"it"} if goes else set()
    )


@pytest.mark.parametrize(
    ("selector", "more", "goes"),
    [
        pytest.param({"matchLabels": DB}, {}, True, id="selected"),
        pytest.param({}, {}, True, id="an empty selector means every pod"),
        pytest.param(None, {}, False, id="an absent selector means none"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]},
            {},
            False,
            id="an unreadable selector breaks nothing",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]},
            {},
            True,
            id="NotIn",
        ),
        pytest.param({"matchLabels": DB}, {"namespaces": ["other"]}, False, id="other namespaces"),
        pytest.param({"matchLabels": DB}, {"namespaces": ["default"]}, True, id="named namespace"),
        pytest.param(
            {"matchLabels": DB},
            {"namespaceSelector": {}},
            True,
            id="a namespace selector is ignored",
        ),
    ],
)
def test_what_the_rule_means(selector: Object | None, more: Object, goes: bool) -> None:
    made = pod("it", affinity=keeping_away(selector, **more))
    world = node("n1").holding(made, pod("db", labels=DB))

    assert evicts(world, node("n2")) == ({"it"} if goes else set())


def test_a_rule_may_reach_into_other_namespaces_where_a_namesake_is_no_neighbour() -> None:
    rule = keeping_away({"matchLabels": DB}, namespaces=["x", "y"])

    def world(*names: str) -> NodeBuilder:
        dbs = [pod(name, labels=DB, namespace=ns) for ns, name in zip("xy", names, strict=False)]
        return node("n1").holding(pod("it", affinity=rule), *dbs)

    assert evicts(world("db"), node("n2")) == {"it"}
    assert evicts(world("it", "it"), node("n2")) == set()
    assert evicts(world("it", "db"), node("n2")) == {"it"}


def test_an_unreadable_rule_hides_those_after_it_but_not_those_before() -> None:
    sound = keeping_away({"matchLabels": DB})["podAntiAffinity"][REQUIRED][0]
    broken = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"-": "x"}}}

    def leaves(*rules: Object) -> set[str]:
        made = pod("it", affinity={"podAntiAffinity": {REQUIRED: list(rules)}})
        return evicts(node("n1").holding(made, pod("db", labels=DB)), node("n2"))

    assert leaves(sound, broken) == {"it"}
    assert leaves(broken, sound) == set()


@pytest.mark.parametrize(
    ("here", "there", "goes"),
    [
        pytest.param({"region": "a"}, {"region": "a"}, True, id="same region"),
        pytest.param({"region": "a"}, {"region": "b"}, False, id="other region"),
        pytest.param({"region": "a"}, {}, False, id="label missing there"),
        pytest.param({}, {"region": "a"}, False, id="label missing here"),
        pytest.param({}, {}, False, id="label missing on both"),
    ],
)
def test_nodes_are_near_when_their_labels_agree(here: Object, there: Object, goes: bool) -> None:
    made = pod("it", affinity=keeping_away({"matchLabels": DB}, "region"))

    evicted = evicts(
        node("n1", labels=here).holding(made),
        node("n2", labels=there).holding(pod("db", labels=DB)),
    )

    assert evicted == ({"it"} if goes else set())


def test_a_node_is_near_to_itself_even_without_the_label() -> None:
    made = pod("it", affinity=keeping_away({"matchLabels": DB}, "region"))

    assert evicts(node("n1").holding(made, pod("db", labels=DB)), node("n2")) == {"it"}


def test_across_the_nodes_of_a_region_one_of_each_other_stays() -> None:
    rule = keeping_away({"matchLabels": WEB}, "region")
    nodes = [
        node(f"n{i}", labels={"region": "a"}).holding(pod(f"p{i}", labels=WEB, affinity=rule))
        for i in range(3)
    ]

    assert len(evicts(*nodes)) == 2


def test_pods_on_nodes_that_the_policy_leaves_out_are_not_seen() -> None:
    made = pod("it", affinity=keeping_away({"matchLabels": DB}, "region"))
    blue = {"region": "a", "pool": "blue"}
    nodes = (
        node("n1", labels=blue).holding(made),
        node("n2", labels=blue),
        node("n3", labels={"region": "a"}).holding(pod("db", labels=DB)),
    )

    assert evicts(*nodes) == {"it"}
    assert evicts(*nodes, policy={"nodeSelector": "pool=blue"}) == set()


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"namespaces": {"exclude": ["default"]}}, id="namespace"),
        pytest.param(
            {"labelSelector": {"matchLabels": {"side": "rule"}}}, id="neighbour not selected"
        ),
        pytest.param({"labelSelector": {"matchLabels": DB}}, id="owner of the rule not selected"),
    ],
)
def test_pods_that_are_not_selected_are_invisible_on_both_sides(args: Object) -> None:
    world = node("n1").holding(shy("it", labels={"side": "rule"}), pod("db", labels=DB))

    assert evicts(world, node("n2")) == {"it"}
    assert evicts(world, node("n2"), **args) == set()


@pytest.mark.parametrize(
    ("made", "goes"),
    [
        pytest.param({"terminating": True}, False, id="terminating"),
        pytest.param({"priority": 2_000_000_000}, False, id="critical"),
        pytest.param({"priority": 2_000_000_000, "annotations": {EVICT: ""}}, True, id="annotated"),
        pytest.param({"owner": None}, False, id="no owner"),
    ],
)
def test_protected_pods_stay_however_broken_their_rule(made: Object, goes: bool) -> None:
    world = node("n1").holding(shy("it", **made), pod("db", labels=DB))

    assert evicts(world, node("n2")) == ({"it"} if goes else set())


@pytest.mark.parametrize(
    ("made", "other", "goes"),
    [
        pytest.param({}, node("n2"), True, id="free"),
        pytest.param(
            {}, node("n2").holding(pod("db2", labels=DB)), False, id="a database there too"
        ),
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
    world = node("n1").holding(shy("it", **made), pod("db", labels=DB))

    assert evicts(world, other) == {"it"}
    assert evicts(world, other, evictor={"nodeFit": True}) == ({"it"} if goes else set())


def test_a_pod_that_may_not_leave_goes_on_breaking_the_rules_of_others() -> None:
    rule = keeping_away({"matchLabels": WEB})
    held = pod("held", labels=WEB, affinity=rule, priority=-1, owner="DaemonSet/a")
    free = pod("free", labels=WEB, affinity=rule)

    assert evicts(node("n1").holding(held, free), node("n2")) == {"free"}


def test_arguments_are_checked() -> None:
    both = {"include": ["a"], "exclude": ["b"]}

    assert faults(PLUGIN) == []
    assert faults(PLUGIN, namespaces=both, labelSelector={"matchLabels": {"a": "-"}}) == [
        "namespaces",
        "labelSelector.matchLabels.a",
    ]
