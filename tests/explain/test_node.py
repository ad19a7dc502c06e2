"""What is answered about a node, as values."""

from __future__ import annotations

import pytest

from resettle.testing import budget, cluster, node, pod

from .builders import about_node, policy

OLD = {"maxPodLifeTimeSeconds": 60}
LOW = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
LOCAL = [{"name": "v", "emptyDir": {}}]
WEB = {"app": "web"}


def test_a_node_lists_what_goes_what_is_refused_and_what_no_plugin_wants() -> None:
    crowd = [pod(f"web-{i}", cpu="700m", labels=WEB) for i in range(4)]
    agent = pod("agent", owner="DaemonSet/agent", cpu="600m", priority=-1)
    done = pod("done", phase="Succeeded")
    world = cluster(
        node("n1", taints=["soft:PreferNoSchedule"]).holding(*crowd, agent, done),
        node("n2"),
        budget("web", allowed=1, labels=WEB),
    )

    answer = about_node(policy("LowNodeUtilization", LOW), world, "n1")

    assert answer.left_out is None
    assert [
        (item.resource, item.requested, item.offered, round(item.percent)) for item in answer.uses
    ] == [
        ("cpu", 3400, 4000, 85),
        ("memory", 0, 16 * 2**30, 0),
        ("pods", 5, 110, 5),
    ]
    assert [(item.plugin, item.band.name, item.band.says) for item in answer.bands] == [
        ("LowNodeUtilization", "over", "n1 is at 85% cpu (target 50%)")
    ]
    assert [move.pod.namespace for move in answer.leaving] == ["default"]
    assert [(item.code, item.count) for item in answer.refused] == [
        ("budget", 3),
        ("daemon-set", 1),
    ]
    assert [(item.plugin, item.code, item.count, item.pod) for item in answer.not_proposed] == [
        ("LowNodeUtilization", "finished", 1, "default/done")
    ]


@pytest.mark.parametrize(
    ("name", "band"),
    [
        pytest.param("full", "over", id="too full"),
        pytest.param("half", "within", id="in between"),
        pytest.param("empty", "under", id="too empty"),
    ],
)
def test_a_node_stands_in_the_band_that_the_plugin_puts_it_in(name: str, band: str) -> None:
    world = cluster(
        node("full").holding(pod("a", cpu="3")),
        node("half").holding(pod("b", cpu="1500m")),
        node("empty"),
    )

    (banded,) = about_node(policy("LowNodeUtilization", LOW), world, name).bands

    assert banded.band.name == band


def test_a_node_out_of_scope_says_why() -> None:
    world = cluster(node("n0", ready=False).holding(pod("it")), node("n1"), node("n2"))

    answer = about_node(policy("PodLifeTime", OLD), world, "n0")

    assert answer.left_out is not None
    assert (answer.left_out.code, answer.left_out.says) == ("node-unready", "n0 is not ready")
    assert answer.bands == ()
