"""The scheduler of a test cluster: which node each pod gets, and why some wait."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import node, pod, spread
from resettle.testing.builders import Object
from resettle.testing.controllers import deployment, replica_set
from tests.testing.controllers.harness import Living, condition

ZONES = [node("a", zone="a"), node("b", zone="b"), node("c", zone="c")]


def waiting(name: str, **wanted: Any) -> Object:
    """A bare pod that waits for a node."""
    return pod(name, owner=None, phase="Pending", status={"conditions": []}, **wanted)


@pytest.mark.parametrize(
    ("workload", "nodes"),
    [
        pytest.param(deployment("web", replicas=3, cpu="1"), ["a", "b", "c"], id="evenly"),
        pytest.param(
            deployment("web", replicas=2, node_selector={"kubernetes.io/hostname": "b"}),
            ["b", "b"],
            id="where the selector leads",
        ),
        pytest.param(
            deployment("web", replicas=4, away_from={"app": "web"}),
            ["-", "a", "b", "c"],
            id="never two that keep apart",
        ),
        pytest.param(
            deployment("web", replicas=6, spread=[spread(labels={"app": "web"})]),
            ["a", "a", "b", "b", "c", "c"],
            id="as their spread says",
        ),
        pytest.param(deployment("web", replicas=4, cpu="3"), ["-", "a", "b", "c"], id="with room"),
    ],
)
def test_pods_go_where_the_planner_says_they_fit(workload: Object, nodes: list[str]) -> None:
    assert Living(*ZONES, workload).after(5).nodes == nodes


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        pytest.param(
            [node("n1", cpu="1"), node("n2", cpu="1"), node("n3", cordoned=True)],
            "0/3 nodes are available: 1 cordoned, 2 cpu.",
            id="each ground with its nodes",
        ),
        pytest.param(
            [node("n1", taints=["dedicated=gpu:NoSchedule"])],
            "0/1 nodes are available: 1 taint dedicated=gpu:NoSchedule.",
            id="a taint by its name",
        ),
        pytest.param([], "0/0 nodes are available: there is none.", id="no node at all"),
    ],
)
def test_a_pod_that_no_node_takes_says_why(parts: list[Any], says: str) -> None:
    living = Living(*parts, waiting("p", cpu="2")).after(5)

    scheduled = condition(living.pods["p"], "PodScheduled")

    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
    assert scheduled["message"] == says
    assert scheduled["lastTransitionTime"] == "2026-01-31T12:00:00Z"


def test_a_pod_that_has_waited_is_placed_when_there_is_room() -> None:
    living = Living(node("n1", cpu="1"), waiting("p", cpu="2")).after(60)

    living.store.put(node("n2", cpu="4").node)
    living.after(5)

    assert living.pods["p"]["spec"]["nodeName"] == "n2"
    assert condition(living.pods["p"], "PodScheduled")["status"] == "True"
    assert living.phases == ["Running"]


def test_the_more_important_goes_first_then_who_has_waited_longest() -> None:
    living = Living(
        node("n1", cpu="2"),
        waiting("young", cpu="1", age="1m"),
        waiting("old", cpu="1", age="1h"),
        waiting("important", cpu="1", age="1s", priority=10),
    ).after(5)

    assert living.pods["young"]["spec"].get("nodeName") is None
    assert living.nodes == ["-", "n1", "n1"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"schedulerName": "another"}, id="of another scheduler"),
        pytest.param({"schedulingGates": [{"name": "later"}]}, id="behind a gate"),
    ],
)
def test_pods_that_are_not_its_business_are_left_alone(spec: Object) -> None:
    living = Living(node("n1"), waiting("p", spec=spec)).after(5)

    assert living.nodes == ["-"]


def test_a_leaving_pod_holds_its_room_until_it_is_gone() -> None:
    living = Living(node("n1", cpu="1"), replica_set("web", cpu="1")).after(5)
    [name] = living.pods
    leaving = {"deletionTimestamp": "2026-01-31T12:00:35Z", "deletionGracePeriodSeconds": 30}

    living.store.merge("Pod", name, {"metadata": leaving})
    living.life.settle()
    meanwhile = living.nodes
    living.after(5)

    assert meanwhile == ["-", "n1"]
    assert living.nodes == ["n1"]
