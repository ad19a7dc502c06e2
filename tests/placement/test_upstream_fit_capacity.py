"""How much room a node has left, and whether it is enough."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.placement.upstream_fit import NodeFit
from resettle.testing import NodeBuilder, cluster, node, pod

Object = dict[str, Any]


def fits(other: NodeBuilder, **made: Any) -> bool:
    """Whether the other of two nodes has room for the pod."""
    snapshot = cluster(node("n1").holding(pod("it", **made)), other).snapshot()
    subject = snapshot.pod("default", "it")
    assert subject is not None
    there = snapshot.node_index.only("n2")
    return NodeFit(snapshot).feasible_elsewhere(subject, snapshot.node_index.all_nodes) == there


GPU = "example.com/gpu"


@pytest.mark.parametrize(
    ("other", "made", "takes"),
    [
        pytest.param(node("n2", cpu="1"), {"cpu": "1"}, True, id="cpu exactly enough"),
        pytest.param(node("n2", cpu="1"), {"cpu": "1001m"}, False, id="cpu a thousandth short"),
        pytest.param(
            node("n2", cpu="1").holding(pod("o", cpu="400m")),
            {"cpu": "600m"},
            True,
            id="cpu shared",
        ),
        pytest.param(
            node("n2", cpu="1").holding(pod("o", cpu="400m")),
            {"cpu": "601m"},
            False,
            id="cpu in use",
        ),
        pytest.param(
            node("n2", cpu="1").holding(pod("o", cpu="1n")), {"cpu": "1"}, False, id="use rounds up"
        ),
        pytest.param(node("n2", memory="1Gi"), {"memory": "1Gi"}, True, id="memory exactly enough"),
        pytest.param(node("n2", memory="1Gi"), {"memory": "1073741825"}, False, id="a byte short"),
        pytest.param(
            node("n2", resources={"ephemeral-storage": "1Gi"}),
            {"requests": {"ephemeral-storage": "2Gi"}},
            False,
            id="ephemeral storage short",
        ),
        pytest.param(
            node("n2", resources={GPU: "2"}).holding(pod("o", requests={GPU: "1"})),
            {"requests": {GPU: "1"}},
            True,
            id="extended resource exactly enough",
        ),
        pytest.param(
            node("n2", resources={GPU: "2"}).holding(pod("o", requests={GPU: "2"})),
            {"requests": {GPU: "1"}},
            False,
            id="extended resource in use",
        ),
        pytest.param(node("n2"), {"requests": {GPU: "1"}}, False, id="a resource the node has not"),
        pytest.param(node("n2"), {"requests": {GPU: "0"}}, True, id="none of it"),
        pytest.param(node("n2", pods=1), {}, True, id="one place left"),
        pytest.param(node("n2", pods=1).holding(pod("o")), {}, False, id="no place left"),
        pytest.param(node("n2", pods=0), {}, False, id="a node for no pods"),
        pytest.param(
            node("n2", pods=1).holding(pod("o", phase="Succeeded")),
            {},
            True,
            id="finished pods are gone",
        ),
        pytest.param(
            node("n2", pods=1).holding(pod("o", terminating=True)),
            {},
            False,
            id="terminating pods are still there",
        ),
        pytest.param(
            node("n2", cpu="1").holding(pod("o", cpu="2")),
            {},
            True,
            id="overfull, but nothing asked",
        ),
        pytest.param(
            node("n2", cpu="1").holding(pod("o", cpu="2")),
            {"cpu": "0"},
            False,
            id="overfull, zero asked",
        ),
        pytest.param(
            node("n2", cpu="1"),
            {"cpu": "1", "spec": {"overhead": {"cpu": "1m"}}},
            False,
            id="overhead",
        ),
        pytest.param(
            node("n2", cpu="1"),
            {
                "cpu": "600m",
                "spec": {
                    "initContainers": [
                        {
                            "name": "side",
                            "restartPolicy": "Always",
                            "resources": {"requests": {"cpu": "401m"}},
                        }
                    ]
                },
            },
            False,
            id="sidecar",
        ),
    ],
)
def test_the_room_left_decides(other: NodeBuilder, made: Object, takes: bool) -> None:
    assert fits(other, **made) is takes


def test_only_what_is_allocatable_counts() -> None:
    other = node("n2", cpu="2")
    other.node["status"]["allocatable"] = {"cpu": "1", "pods": "110"}

    assert fits(other, cpu="1")
    assert not fits(other, cpu="2")
    assert not fits(other, memory="1")
