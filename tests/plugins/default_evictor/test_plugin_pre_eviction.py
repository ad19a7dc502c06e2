"""DefaultEvictor's pre-eviction filter: a node to go to, a namespace that is meant."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import NodeBuilder, cluster, namespace, node, plan, plan_policy, pod
from tests.plugins.harness import EVERY_POD, EVICT, answer

Object = dict[str, Any]

GPU = {"key": "gpu", "operator": "Exists"}


@pytest.mark.parametrize(
    ("made", "others", "code"),
    [
        pytest.param({}, [node("n2")], "admitted", id="an empty node"),
        pytest.param({}, [node("n2", taints=["gpu:NoSchedule"])], "no-node-fits", id="untolerated"),
        pytest.param(
            {}, [node("n2", taints=["gpu:NoExecute"])], "no-node-fits", id="untolerated NoExecute"
        ),
        pytest.param(
            {}, [node("n2", taints=["gpu:PreferNoSchedule"])], "admitted", id="a soft taint"
        ),
        pytest.param(
            {"tolerations": [GPU]},
            [node("n2", taints=["gpu:NoSchedule"])],
            "admitted",
            id="tolerated taint",
        ),
        pytest.param(
            {},
            [node("n2", taints=["gpu:NoSchedule"]), node("n3")],
            "admitted",
            id="one of two nodes will do",
        ),
        pytest.param(
            {"node_selector": {"disk": "ssd"}},
            [node("n2", labels={"disk": "hdd"})],
            "no-node-fits",
            id="node selector differs",
        ),
        pytest.param(
            {"node_selector": {"disk": "ssd"}},
            [node("n2", labels={"disk": "ssd"})],
            "admitted",
            id="node selector met",
        ),
        pytest.param({"cpu": "2"}, [node("n2", cpu="1")], "no-node-fits", id="too little cpu"),
        pytest.param(
            {"memory": "2Gi"}, [node("n2", memory="1Gi")], "no-node-fits", id="too little memory"
        ),
        pytest.param(
            {"memory": "2Gi"},
            [node("n2", memory="1Gi"), node("n3", memory="2Gi")],
            "admitted",
            id="memory enough on the second node",
        ),
        pytest.param(
            {"memory": "2Gi"},
            [node("n2", memory="1Gi"), node("n3").holding(pod("big", memory="15Gi"))],
            "no-node-fits",
            id="memory short on both",
        ),
        pytest.param({}, [node("n2", cordoned=True)], "no-node-fits", id="cordoned"),
        pytest.param(
            {},
            [node("n2", cordoned=True), node("n3", ready=False)],
            "no-node-fits",
            id="an unready node is none",
        ),
        pytest.param(
            {},
            [node("n2", cordoned=True), node("n3", ready=None)],
            "admitted",
            id="a node without a Ready condition is ready",
        ),
        pytest.param(
            {"annotations": {EVICT: "true"}},
            [node("n2", cordoned=True)],
            "no-node-fits",
            id="the evict annotation does not help",
        ),
    ],
)
def test_with_node_fit_a_pod_leaves_only_for_a_node_that_takes_it(
    made: Object, others: list[NodeBuilder], code: str
) -> None:
    world = cluster(node("n1").holding(pod("it", **made)), *others)

    assert answer(world, evictor={"nodeFit": True}) == code
    assert answer(world, evictor={"nodeFit": False}) == "admitted"


def test_the_own_node_is_no_place_to_go() -> None:
    pinned = pod("it", node_selector={"disk": "ssd"})
    world = cluster(node("n1", labels={"disk": "ssd"}).holding(pinned), node("n2"))

    assert answer(world, evictor={"nodeFit": True}) == "no-node-fits"


@pytest.mark.parametrize(
    ("selector", "code"),
    [
        ("", "admitted"),
        ("pool=blue", "admitted"),
        ("pool=red", "no-node-fits"),
        ("!pool", "no-node-fits"),
    ],
)
def test_the_node_selector_of_the_guard_narrows_the_nodes_to_fit_on(
    selector: str, code: str
) -> None:
    world = cluster(
        node("n1", labels={"pool": "red"}).holding(pod("it")), node("n2", labels={"pool": "blue"})
    )

    assert answer(world, evictor={"nodeFit": True, "nodeSelector": selector}) == code


def test_the_node_selector_of_the_policy_does_not_narrow_the_nodes_to_fit_on() -> None:
    red = {"pool": "red"}
    world = cluster(
        node("n1", labels=red).holding(pod("it")), node("n2", labels=red, cordoned=True), node("n3")
    )

    code = answer(world, evictor={"nodeFit": True}, policy={"nodeSelector": "pool=red"})

    assert code == "admitted"


def test_room_is_not_kept_for_pods_that_leave_in_the_same_cycle() -> None:
    world = cluster(node("n1").holding(pod("a", cpu="1"), pod("b", cpu="1")), node("n2", cpu="1"))

    assert sorted(plan(EVERY_POD, world, evictor={"nodeFit": True}).evicts) == ["a", "b"]


def selecting(operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": "env", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "leave"),
    [
        pytest.param(None, {"prod", "test", "bare", "gone"}, id="absent means all"),
        pytest.param({}, {"prod", "test", "bare", "gone"}, id="empty means all"),
        pytest.param({"matchLabels": {"env": "prod"}}, {"prod"}, id="label equal"),
        pytest.param({"matchLabels": {"env": "none"}}, set(), id="label of no namespace"),
        pytest.param(selecting("In", "prod", "test"), {"prod", "test"}, id="In"),
        pytest.param(
            selecting("NotIn", "prod"), {"test", "bare"}, id="NotIn holds without the label"
        ),
        pytest.param(selecting("Exists"), {"prod", "test"}, id="Exists"),
        pytest.param(selecting("DoesNotExist"), {"bare"}, id="DoesNotExist"),
    ],
)
def test_pods_leave_only_namespaces_that_exist_and_are_selected(
    selector: Object | None, leave: set[str]
) -> None:
    pods = [pod(name, namespace=name) for name in ("prod", "test", "bare", "gone")]
    world = cluster(
        node("n1").holding(*pods),
        node("n2"),
        namespace("prod", env="prod"),
        namespace("test", env="test"),
        namespace("bare"),
    )

    planned = plan(EVERY_POD, world, evictor={"namespaceLabelSelector": selector})

    assert set(planned.evicts) == leave
    assert planned.refused.get("namespace-not-selected", 0) == 4 - len(leave)


def test_the_evict_annotation_does_not_override_the_namespace_selector() -> None:
    world = cluster(
        node("n1").holding(pod("it", annotations={EVICT: "true"})), node("n2"), namespace("default")
    )
    evictor = {"namespaceLabelSelector": {"matchLabels": {"env": "prod"}}}

    assert answer(world, evictor=evictor) == "namespace-not-selected"


def test_each_profile_uses_its_own_namespace_selector() -> None:
    def profile(env: str, seconds: int) -> Object:
        selector = {"matchLabels": {"env": env}}
        return {
            "name": env,
            "pluginConfig": [
                {"name": "DefaultEvictor", "args": {"namespaceLabelSelector": selector}},
                {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": seconds}},
            ],
            "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
        }

    world = cluster(
        node("n1").holding(
            pod("prod-old", namespace="prod", age="3h"),
            pod("prod-new", namespace="prod", age="90m"),
            pod("test-old", namespace="test", age="3h"),
            pod("test-new", namespace="test", age="90m"),
        ),
        node("n2"),
        namespace("prod", env="prod"),
        namespace("test", env="test"),
    )

    planned = plan_policy({"profiles": [profile("prod", 7200), profile("test", 3600)]}, world)

    assert planned.evicts == ["prod-old", "test-old", "test-new"]
    assert [move.profile for move in planned.plan.moves] == ["prod", "test", "test"]
