"""RemoveDuplicates: how many copies of one owner may share a node, and which copies count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.plugins.remove_duplicates import PLUGIN
from resettle.testing import NodeBuilder, Planned, World, cluster, node, plan, pod
from resettle.testing.builders import Object

POOL = {"pool": "blue"}


def copies(count: int, prefix: str = "web", **options: Any) -> list[Object]:
    return [pod(f"{prefix}-{i}", **options) for i in range(count)]


def spread_as(*sizes: int, **options: Any) -> World:
    """Nodes n1, n2 … with so many copies of one owner each."""
    return cluster(
        *(
            node(f"n{i}").holding(*copies(size, f"web-n{i}", **options))
            for i, size in enumerate(sizes, 1)
        )
    )


def leaving(planned: Planned) -> dict[str, int]:
    """How many pods leave each node."""
    return dict(Counter(move.pod.node for move in planned.plan.moves))


def running(*images: str) -> dict[str, Any]:
    """A pod spec with one container for each image."""
    return {"containers": [{"name": f"c{i}", "image": image} for i, image in enumerate(images)]}


def required(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
        }
    }


def pool_is(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "pool", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("sizes", "leave"),
    [
        pytest.param([5, 3, 1], {"n1": 2}, id="a node keeps its share of three"),
        pytest.param([5, 3], {"n1": 1}, id="a node keeps its share of four"),
        pytest.param([2, 0, 0], {"n1": 1}, id="two copies on one of three nodes part"),
        pytest.param([1, 0, 0], {}, id="a single copy stays"),
        pytest.param([3, 3, 3], {}, id="evenly spread copies stay"),
        pytest.param([1, 1, 1, 0], {}, id="fewer copies than nodes, one on each"),
        pytest.param([4, 4, 0, 0], {"n1": 2, "n2": 2}, id="every crowded node gives"),
        pytest.param([4, 1], {"n1": 1}, id="the share of five on two nodes rounds up to three"),
    ],
)
def test_a_node_keeps_its_share_of_copies(sizes: list[int], leave: dict[str, int]) -> None:
    assert leaving(plan(PLUGIN, spread_as(*sizes))) == leave


def test_an_unready_node_takes_no_share() -> None:
    world = cluster(
        node("n1").holding(*copies(5, "a")),
        node("n2").holding(*copies(3, "b")),
        node("n3", ready=False).holding(pod("c")),
    )

    assert leaving(plan(PLUGIN, world)) == {"n1": 1}


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        pytest.param({}, {}, True, id="owner and image are the same"),
        pytest.param({}, {"owner": "ReplicaSet/db"}, False, id="two owners"),
        pytest.param({}, {"owner": "StatefulSet/web"}, False, id="owners of two kinds, one name"),
        pytest.param({}, {"namespace": "other"}, False, id="two namespaces"),
        pytest.param({}, {"spec": running("app:2")}, False, id="different images"),
        pytest.param(
            {"spec": running("a", "b")}, {"spec": running("b", "a")}, True, id="images in any order"
        ),
        pytest.param(
            {"spec": running("a", "b")}, {"spec": running("a")}, False, id="one container more"
        ),
        pytest.param(
            {"spec": running("a", "a")},
            {"spec": running("a")},
            False,
            id="an image twice is not that image once",
        ),
        pytest.param({}, {"labels": {"v": "2"}}, True, id="labels do not matter"),
        pytest.param({}, {"priority": 9, "cpu": "1"}, True, id="priority and requests do not"),
        pytest.param(
            {},
            {"spec": {"initContainers": [{"name": "i", "image": "setup"}]}},
            True,
            id="init containers do not matter",
        ),
        pytest.param(
            {"owner": ["Job/a", "Job/b"]},
            {"owner": ["Job/b", "Job/a"]},
            True,
            id="owners in any order",
        ),
        pytest.param({"owner": ["Job/a", "Job/b"]}, {"owner": "Job/a"}, False, id="one owner more"),
    ],
)
def test_copies_are_pods_of_one_owner_with_the_same_images(
    first: dict[str, Any], second: dict[str, Any], alike: bool
) -> None:
    world = cluster(node("n1").holding(pod("one", **first), pod("other", **second)), node("n2"))

    assert len(plan(PLUGIN, world).evicts) == (1 if alike else 0)


def test_each_owner_has_its_own_share() -> None:
    world = cluster(
        node("n1").holding(*copies(5, "a1", owner="ReplicaSet/a"), *copies(2, "b1", owner="Job/b")),
        node("n2").holding(*copies(1, "a2", owner="ReplicaSet/a"), *copies(6, "b2", owner="Job/b")),
    )
    planned = plan(PLUGIN, world)

    assert leaving(planned) == {"n1": 2, "n2": 2}
    assert {name[:2] for name in planned.evicts} == {"a1", "b2"}


@pytest.mark.parametrize(
    ("sizes", "evicted"),
    [
        pytest.param([2, 0], 1, id="two copies"),
        pytest.param([3, 0, 0], 2, id="three copies over three nodes"),
    ],
)
def test_a_pod_of_two_owners_leaves_only_once(sizes: list[int], evicted: int) -> None:
    planned = plan(PLUGIN, spread_as(*sizes, owner=["Job/a", "Job/b"]))
    (run,) = planned.plan.runs

    assert len(planned.evicts) == len(set(planned.evicts)) == evicted
    assert (run.admitted, run.already_moving, run.refused) == (evicted, evicted, {})


@pytest.mark.parametrize(
    "unlike",
    [
        pytest.param({"owner": None}, id="a bare pod has no copies"),
        pytest.param({"owner": "DaemonSet/agent"}, id="of a DaemonSet"),
        pytest.param({"terminating": True}, id="terminating"),
        pytest.param({"phase": "Succeeded"}, id="succeeded"),
        pytest.param({"phase": "Failed"}, id="failed"),
        pytest.param({"priority": 2_000_000_000}, id="critical"),
        pytest.param({"annotations": {"kubernetes.io/config.mirror": "x"}}, id="mirror pod"),
        pytest.param({"annotations": {"kubernetes.io/config.source": "file"}}, id="static pod"),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, id="local storage"),
    ],
)
def test_pods_that_could_not_go_are_no_copies(unlike: dict[str, Any]) -> None:
    planned = plan(PLUGIN, spread_as(3, 0, 0, **unlike))

    assert planned.evicts == []
    assert planned.plan.proposed == 0
    assert planned.stopped == ["no-candidate"]


def test_pods_that_could_not_go_do_not_raise_the_share() -> None:
    kept = copies(6, "kept", volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    world = cluster(node("n1").holding(*copies(4)), node("n2").holding(*kept))

    assert leaving(plan(PLUGIN, world)) == {"n1": 2}


@pytest.mark.parametrize(
    ("args", "evicted_from"),
    [
        pytest.param({}, {"web", "shop"}, id="all by default"),
        pytest.param({"namespaces": {"include": ["web"]}}, {"web"}, id="include"),
        pytest.param({"namespaces": {"exclude": ["web"]}}, {"shop"}, id="exclude"),
        pytest.param({"excludeOwnerKinds": ["Job"]}, {"web"}, id="owner kind excluded"),
        pytest.param({"excludeOwnerKinds": ["Job", "ReplicaSet"]}, set(), id="both excluded"),
    ],
)
def test_arguments_narrow_what_is_looked_at(args: dict[str, Any], evicted_from: set[str]) -> None:
    world = cluster(
        node("n1").holding(
            *copies(2, "a", namespace="web", owner="ReplicaSet/web"),
            *copies(2, "b", namespace="shop", owner="Job/shop"),
        ),
        node("n2"),
    )
    planned = plan(PLUGIN, world, **args)

    assert {move.pod.namespace for move in planned.plan.moves} == evicted_from
    assert len(planned.evicts) == len(evicted_from)


def test_one_excluded_kind_among_the_owners_is_enough() -> None:
    planned = plan(
        PLUGIN, spread_as(2, 0, owner=["Job/a", "ReplicaSet/b"]), excludeOwnerKinds=["Job"]
    )

    assert planned.evicts == []


def test_both_lists_of_namespaces_are_a_problem() -> None:
    with pytest.raises(PolicyError, match="both `include` and `exclude`"):
        plan(PLUGIN, spread_as(1, 1), namespaces={"include": ["a"], "exclude": ["b"]})


# Six copies on n1; n1 and n2 are blue. Three targets make a share of two, two a share of three.
@pytest.mark.parametrize(
    ("third", "options", "evicted"),
    [
        pytest.param(node("n3"), {}, 4, id="three targets"),
        pytest.param(node("n3", taints=["gpu:NoSchedule"]), {}, 3, id="NoSchedule bars"),
        pytest.param(node("n3", taints=["gpu:NoExecute"]), {}, 3, id="NoExecute bars"),
        pytest.param(
            node("n3", taints=["gpu:PreferNoSchedule"]), {}, 4, id="a soft taint does not"
        ),
        pytest.param(
            node("n3", taints=["gpu:NoSchedule"]),
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            4,
            id="a tolerated taint does not",
        ),
        pytest.param(node("n3", cordoned=True), {}, 4, id="a cordoned node is a target"),
        pytest.param(node("n3", cpu="0", pods=0), {}, 4, id="a full node is a target"),
        pytest.param(node("n3"), {"node_selector": POOL}, 3, id="node selector"),
        pytest.param(
            node("n3"), {"affinity": required(pool_is("In", "blue"))}, 3, id="required affinity"
        ),
        pytest.param(
            node("n3"), {"affinity": required(pool_is("Near", "blue"))}, 4, id="unreadable affinity"
        ),
        pytest.param(
            node("n3"), {"node_selector": {"kubernetes.io/hostname": "n1"}}, 0, id="one target"
        ),
        pytest.param(node("n3"), {"node_selector": {"pool": "red"}}, 0, id="no target"),
    ],
)
def test_the_share_follows_from_the_nodes_that_could_take_a_copy(
    third: NodeBuilder, options: dict[str, Any], evicted: int
) -> None:
    world = cluster(
        node("n1", labels=POOL).holding(*copies(6, **options)), node("n2", labels=POOL), third
    )

    assert len(plan(PLUGIN, world).evicts) == evicted


@pytest.mark.parametrize(
    ("first", "second", "evicted"),
    [
        pytest.param(
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            {},
            4,
            id="the widest constraint counts",
        ),
        pytest.param(
            {"node_selector": {"kubernetes.io/hostname": "n1"}},
            {"node_selector": POOL},
            3,
            id="a constraint to one node adds nothing",
        ),
    ],
)
def test_targets_are_those_of_all_copies_together(
    first: dict[str, Any], second: dict[str, Any], evicted: int
) -> None:
    world = cluster(
        node("n1", labels=POOL).holding(*copies(3, "a", **first), *copies(3, "b", **second)),
        node("n2", labels=POOL),
        node("n3", taints=["gpu:NoSchedule"]),
    )

    assert len(plan(PLUGIN, world).evicts) == evicted


def test_copies_leave_a_node_that_is_no_target_itself() -> None:
    crowded = node("n1", taints=["gpu:NoSchedule"]).holding(*copies(4))

    assert leaving(plan(PLUGIN, cluster(crowded, node("n2"), node("n3")))) == {"n1": 2}


@pytest.mark.parametrize(
    ("second", "options", "evicted"),
    [
        pytest.param(node("n2"), {}, 1, id="a node that takes it"),
        pytest.param(node("n2", cordoned=True), {}, 0, id="cordoned"),
        pytest.param(node("n2", taints=["gpu:NoSchedule"]), {}, 0, id="tainted"),
        pytest.param(node("n2"), {"node_selector": POOL}, 0, id="not selected"),
        pytest.param(node("n2", cpu="1"), {"cpu": "1500m"}, 0, id="too little cpu"),
        pytest.param(node("n2", memory="1Gi"), {"memory": "2Gi"}, 0, id="too little memory"),
        pytest.param(node("n2", cpu="2"), {"cpu": "1500m"}, 1, id="just enough cpu"),
    ],
)
def test_with_node_fit_only_copies_that_fit_elsewhere_count(
    second: NodeBuilder, options: dict[str, Any], evicted: int
) -> None:
    world = cluster(node("n1").holding(*copies(2, **options)), second)

    assert len(plan(PLUGIN, world, evictor={"nodeFit": True}).evicts) == evicted


def test_the_reason_names_owner_node_and_share() -> None:
    (move,) = plan(PLUGIN, spread_as(2, 0)).plan.moves

    assert move.reason == "2 copies of ReplicaSet web are on n1, at most 1 expected"
