"""Topology spread: what counts as a domain, several constraints at once, and arguments."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.plugins.remove_pods_violating_topology_spread_constraint.plugin import PLUGIN
from resettle.testing import (
    NodeBuilder,
    Planned,
    cluster,
    node,
    plan,
    plan_policy,
    pod,
    spread,
)
from resettle.testing.builders import HOSTNAME, ZONE, Object

APP = {"app": "web"}
LINUX, WINDOWS = {"os": "linux"}, {"os": "windows"}
GPU = [{"key": "gpu", "operator": "Exists"}]


def webs(prefix: str, count: int, rule: Object | None = None, **options: Any) -> list[Object]:
    rules = [rule or spread(labels=APP)]
    return [pod(f"{prefix}-{i}", labels=APP, spread=rules, **options) for i in range(count)]


def zone(name: str, *pods: Object, **marks: Any) -> NodeBuilder:
    """A zone of one node, `n` and its name, that holds these pods."""
    return node(f"n{name}", **{"zone": name, **marks}).holding(*pods)


def leaving(planned: Planned) -> dict[str, int]:
    """How many pods leave each node."""
    return dict(Counter(move.pod.node for move in planned.plan.moves))


@pytest.mark.parametrize(
    ("third", "evicted"),
    [
        pytest.param(zone("c"), 1, id="an empty zone counts"),
        pytest.param(node("nc"), 0, id="a node without the label is no domain"),
        pytest.param(zone("c", ready=False), 0, id="nor is one that is not ready"),
        pytest.param(zone("c", cordoned=True), 1, id="a cordoned node is one"),
    ],
)
def test_domains_are_the_values_of_the_label_on_nodes_of_the_cycle(
    third: NodeBuilder, evicted: int
) -> None:
    world = cluster(zone("a", *webs("a", 2)), zone("b", *webs("b", 2)), third)

    assert len(plan(PLUGIN, world, topologyBalanceNodeFit=False).evicts) == evicted


def test_pods_on_nodes_without_the_label_are_not_counted() -> None:
    world = cluster(
        zone("a", *webs("a", 1)), zone("b", *webs("b", 1)), node("nc").holding(*webs("c", 9))
    )

    assert plan(PLUGIN, world).stopped == ["balanced"]


def test_a_zone_of_several_nodes_is_one_domain() -> None:
    world = cluster(
        node("a1", zone="a").holding(*webs("a1", 3)),
        node("a2", zone="a").holding(*webs("a2", 2)),
        node("b1", zone="b").holding(*webs("b1", 1)),
        node("b2", zone="b"),
    )
    gone = leaving(plan(PLUGIN, world))

    assert gone.keys() <= {"a1", "a2"}
    assert sum(gone.values()) == 2


# Two pods in each of the zones a and b; the node of the empty zone c is tainted.
@pytest.mark.parametrize(
    ("taint", "policy", "tolerations", "must_fit", "evicted"),
    [
        pytest.param("gpu:NoSchedule", None, [], False, 1, id="taints are ignored by default"),
        pytest.param("gpu:NoSchedule", "Ignore", [], False, 1, id="Ignore says the same"),
        pytest.param("gpu:NoSchedule", None, [], True, 0, id="yet no pod fits there"),
        pytest.param("gpu:NoSchedule", "Honor", [], False, 0, id="Honor: it is no domain"),
        pytest.param("gpu:NoExecute", "Honor", [], False, 0, id="Honor with NoExecute"),
        pytest.param("gpu:NoSchedule", "Honor", GPU, True, 1, id="Honor, but tolerated"),
        pytest.param("gpu:PreferNoSchedule", "Honor", [], True, 1, id="a soft taint is no bar"),
    ],
)
def test_a_tainted_domain_counts_as_the_taints_policy_says(
    taint: str, policy: str | None, tolerations: list[Any], must_fit: bool, evicted: int
) -> None:
    rule = spread(labels=APP, nodeTaintsPolicy=policy)
    world = cluster(
        zone("a", *webs("a", 2, rule, tolerations=tolerations)),
        zone("b", *webs("b", 2, rule, tolerations=tolerations)),
        zone("c", taints=[taint]),
    )

    assert len(plan(PLUGIN, world, topologyBalanceNodeFit=must_fit).evicts) == evicted


@pytest.mark.parametrize(
    ("policy", "must_fit", "evicted"),
    [
        pytest.param(None, False, 0, id="affinity is honoured by default"),
        pytest.param("Honor", False, 0, id="Honor says the same"),
        pytest.param("Ignore", False, 1, id="Ignore: the other nodes are domains too"),
        pytest.param("Ignore", True, 0, id="yet no pod fits there"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"node_selector": LINUX}, id="node selector"),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "os", "operator": "In", "values": ["linux"]}
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            id="required affinity",
        ),
    ],
)
def test_a_domain_that_the_pods_do_not_accept_counts_as_the_affinity_policy_says(
    options: dict[str, Any], policy: str | None, must_fit: bool, evicted: int
) -> None:
    rule = spread(labels=APP, nodeAffinityPolicy=policy)
    world = cluster(
        zone("a", *webs("a", 2, rule, **options), labels=LINUX),
        zone("b", *webs("b", 2, rule, **options), labels=LINUX),
        zone("c", labels=WINDOWS),
    )

    assert len(plan(PLUGIN, world, topologyBalanceNodeFit=must_fit).evicts) == evicted


def test_pods_on_an_excluded_node_make_it_a_domain() -> None:
    rule = spread(labels=APP, nodeTaintsPolicy="Honor")
    world = cluster(zone("a"), zone("b"), zone("c", *webs("c", 4, rule), taints=["gpu:NoSchedule"]))

    assert leaving(plan(PLUGIN, world)) == {"nc": 3}


def test_two_workloads_of_one_label_are_each_solved_over_their_own_nodes() -> None:
    """Of each make three pods are on one of three nodes that the other make does not accept."""
    sets = []
    for name, mark in (("l", LINUX), ("w", WINDOWS)):
        pods = [
            pod(f"{name}-{i}", labels=mark, node_selector=mark, spread=[spread(labels=mark)])
            for i in range(3)
        ]
        sets += [zone(f"{name}1", *pods, labels=mark)]
        sets += [zone(f"{name}{i}", labels=mark) for i in (2, 3)]

    assert leaving(plan(PLUGIN, cluster(*sets))) == {"nl1": 2, "nw1": 2}


def test_namespaces_are_balanced_one_by_one() -> None:
    world = cluster(
        zone("a", *webs("a", 2), *webs("a", 1, namespace="other")),
        zone("b", *webs("b", 1), *webs("b", 2, namespace="other")),
    )

    assert plan(PLUGIN, world).stopped == ["balanced"]


# Six nodes in two zones.
@pytest.mark.parametrize(
    ("sizes", "evicted", "givers"),
    [
        pytest.param([1, 1, 1, 1, 1, 1], 0, set(), id="both rules hold"),
        pytest.param([3, 0, 0, 1, 1, 1], 2, {"n0"}, id="zones are even, nodes are not"),
        pytest.param([2, 2, 2, 1, 1, 1], 1, {"n0", "n1", "n2"}, id="nodes are even, zones are not"),
        pytest.param([1, 1, 0, 0, 0, 1], 0, set(), id="both within their skew"),
    ],
)
def test_every_constraint_is_solved_for_itself(
    sizes: list[int], evicted: int, givers: set[str]
) -> None:
    rules = [spread(labels=APP), spread(labels=APP, key=HOSTNAME)]
    world = cluster(
        *(
            node(f"n{i}", zone="a" if i < 3 else "b").holding(
                *(pod(f"w{i}-{k}", labels=APP, spread=rules) for k in range(size))
            )
            for i, size in enumerate(sizes)
        )
    )
    gone = leaving(plan(PLUGIN, world))

    assert sum(gone.values()) == evicted
    assert gone.keys() <= givers


def test_the_pre_eviction_filter_is_asked_before_a_pod_leaves() -> None:
    world = cluster(zone("a", *webs("a", 3)), zone("b", *webs("b", 1)))
    planned = plan(PLUGIN, world, evictor={"nodeFit": True, "nodeSelector": "pool=blue"})

    assert planned.evicts == []
    assert planned.refused == {"no-node-fits": 1}


def test_pods_that_an_earlier_plugin_moves_no_longer_count() -> None:
    first: dict[str, Any] = {"labels": {**APP, "old": "yes"}, "spread": [spread(labels=APP)]}
    world = cluster(zone("a", pod("old", **first), *webs("a", 2)), zone("b", *webs("b", 1)))
    planned = plan_policy(
        {
            "profiles": [
                {
                    "name": "it",
                    "pluginConfig": [
                        {
                            "name": "PodLifeTime",
                            "args": {
                                "maxPodLifeTimeSeconds": 1,
                                "labelSelector": {"matchLabels": {"old": "yes"}},
                            },
                        },
                        {"name": PLUGIN.name},
                    ],
                    "plugins": {
                        "deschedule": {"enabled": ["PodLifeTime"]},
                        "balance": {"enabled": [PLUGIN.name]},
                    },
                }
            ]
        },
        world,
    )

    assert planned.evicts == ["old"]
    assert planned.stopped == ["balanced"]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param(
            {"constraints": ["DoNotSchedul"]}, "did you mean `DoNotSchedule`", id="unknown"
        ),
        pytest.param(
            {"namespaces": {"include": ["a"], "exclude": ["b"]}}, "both `include`", id="both lists"
        ),
        pytest.param(
            {"labelSelector": {"matchLabels": {"-": "x"}}}, "is not a label key", id="bad selector"
        ),
    ],
)
def test_mistaken_arguments_are_reported(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        plan(PLUGIN, cluster(zone("a"), zone("b")), **args)


def test_the_reason_names_topology_and_skew() -> None:
    (move,) = plan(PLUGIN, cluster(zone("a", *webs("a", 3)), zone("b", *webs("b", 1)))).plan.moves

    assert move.reason == f"{ZONE} a has 3 matching pods, the emptiest 1 (maxSkew 1)"
