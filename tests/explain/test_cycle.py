"""What is answered about a cycle, as values."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import cluster, node, pod

from .builders import about_cycle, policy

OLD = {"maxPodLifeTimeSeconds": 60}
LOW = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
LOCAL = [{"name": "v", "emptyDir": {}}]
WEB = {"app": "web"}


def test_a_cycle_shows_how_far_its_limits_are_used() -> None:
    world = cluster(
        node("n1").holding(pod("a"), pod("b", namespace="shop")), node("n2").holding(pod("c"))
    )
    limits: dict[str, Any] = {
        "maxNoOfPodsToEvictTotal": 5,
        "maxNoOfPodsToEvictPerNode": 2,
        "maxNoOfPodsToEvictPerNamespace": 4,
    }

    answer = about_cycle(policy("PodLifeTime", OLD, **limits), world)

    assert [(usage.limit, usage.where, usage.used, usage.most) for usage in answer.plan.spent] == [
        ("total", "this cycle", 3, 5),
        ("node", "node n1", 2, 2),
        ("namespace", "namespace default", 2, 4),
    ]


@pytest.mark.parametrize(
    ("plugin", "args", "world", "close"),
    [
        pytest.param(
            "RemovePodsHavingTooManyRestarts",
            {"podRestartThreshold": 5},
            cluster(
                node("n1").holding(
                    *(pod(f"p{i}", restarts=i) for i in range(7)), pod("q", restarts=4)
                ),
                node("n2"),
            ),
            [
                "default/p4 has restarted 4 times, the threshold is 5",
                "default/q has restarted 4 times, the threshold is 5",
                "default/p3 has restarted 3 times, the threshold is 5",
            ],
            id="the most restarts below the threshold",
        ),
        pytest.param(
            "PodLifeTime",
            {"maxPodLifeTimeSeconds": 3600},
            cluster(
                node("n1").holding(pod("a", age="10m"), pod("b", age="55m"), pod("c", age="2h")),
                node("n2"),
            ),
            [
                "default/b is 55m old, the limit is 1h",
                "default/a is 10m old, the limit is 1h",
            ],
            id="the oldest that may stay",
        ),
        pytest.param(
            "RemoveFailedPods",
            {},
            cluster(node("n1").holding(pod("a", phase="Failed", age="30m")), node("n2")),
            ["default/a is 30m old, `minPodLifetimeSeconds` is 1h"],
            id="failed, but not for long",
        ),
        pytest.param(
            "RemovePodsViolatingNodeTaints",
            {"excludedTaints": ["old"]},
            cluster(node("n1", taints=["old:NoSchedule", "a:NoExecute"]), node("n2")),
            ["n1 has the taint old:NoSchedule, which is not checked by this policy"],
            id="a taint that is excluded",
        ),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            {},
            cluster(node("n1"), node("n2")),
            [],
            id="nothing comes close where there is nothing",
        ),
        pytest.param(
            "LowNodeUtilization",
            LOW,
            cluster(
                node("n1").holding(pod("a", cpu="1940m")),
                node("n2"),
                node("n3").holding(pod("b", cpu="1200m")),
            ),
            [
                "n1 is at 48% cpu, 2 points below the target of 50%",
                "n3 is at 30% cpu, 20 points below the target of 50%",
            ],
            id="nodes that are nearly too full",
        ),
        pytest.param(
            "LowNodeUtilization",
            LOW,
            cluster(
                node("n1").holding(pod("a", cpu="900m")), node("n2").holding(pod("b", cpu="3"))
            ),
            [
                "n1 is at 22% cpu, 2 points above the threshold of 20%",
                "n2 is at 75% cpu, 55 points above the threshold of 20%",
            ],
            id="nodes that are nearly empty enough, where none is",
        ),
        pytest.param(
            "HighNodeUtilization",
            {"thresholds": {"cpu": 20}},
            cluster(node("n1").holding(pod("a", cpu="840m")), node("n2")),
            ["n1 is at 21% cpu, 1 point above the threshold of 20%"],
            id="a node that is nearly empty enough to go",
        ),
    ],
)
def test_a_cycle_shows_what_came_close(
    plugin: str, args: dict[str, Any], world: Any, close: list[str]
) -> None:
    (answer,) = about_cycle(policy(plugin, args), world).plugins

    assert list(answer.near_misses) == close
