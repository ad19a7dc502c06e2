"""The smallest change that would move a refused pod, in the words an operator reads."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.cli.text.explain_pod import pod_text
from resettle.cli.text.plan import Paint
from resettle.testing import World, claim, cluster, namespace, node, pod

from .builders import about_pod, hints, policy

OLD = {"maxPodLifeTimeSeconds": 60}
EVERYTHING = {"maxPercentOfPodsToEvict": 100, "maxPercentOfNodesToEvictFrom": 100}
MIRROR = {"kubernetes.io/config.mirror": "abc"}
STAY = {"descheduler.alpha.kubernetes.io/prefer-no-eviction": "true"}
LOCAL = [{"name": "v", "emptyDir": {}}]
CLAIMS = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
WEB = {"app": "web"}


def pair(*pods: dict[str, Any], other: Any = None) -> World:
    """Node n1 with these pods, and another."""
    return cluster(node("n1").holding(*pods), other or node("n2"))


@pytest.mark.parametrize(
    ("world", "evictor", "expected"),
    [
        pytest.param(
            pair(pod("it"), pod("its-like", owner="ReplicaSet/web")),
            {"minReplicas": 5},
            ["would move if `minReplicas` were 2"],
            id="as few replicas as it has",
        ),
        pytest.param(
            pair(pod("it", age="30m")),
            {"minPodAge": "1h"},
            ["would move if `minPodAge` were 30m"],
            id="the longest age that lets it go",
        ),
        pytest.param(
            pair(pod("it", status={"startTime": None})),
            {"minPodAge": "1h"},
            ["would move if `minPodAge` were not set"],
            id="no age helps a pod that has not started",
        ),
        pytest.param(
            pair(pod("it", priority=70)),
            {"priorityThreshold": {"value": 50}},
            [
                "would move if `priorityThreshold` were 71",
                "would move if `podProtections.defaultDisabled` listed `SystemCriticalPods`",
            ],
            id="a threshold above its priority",
        ),
        pytest.param(
            pair(pod("it", owner="DaemonSet/agent")),
            {},
            ["would move if `podProtections.defaultDisabled` listed `DaemonSetPods`"],
            id="a default protection disabled",
        ),
        pytest.param(
            pair(pod("it", volumes=LOCAL)),
            {"evictFailedBarePods": True},
            ["would move if `evictLocalStoragePods` were true"],
            id="the older switch where the policy uses those",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("it", volumes=CLAIMS)), node("n2"), claim("data")),
            {"podProtections": {"extraEnabled": ["PodsWithPVC"]}},
            ["would move if `podProtections.extraEnabled` did not list `PodsWithPVC`"],
            id="an extra protection taken back",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("it", volumes=CLAIMS)), node("n2"), claim("data")),
            {"ignorePvcPods": True},
            ["would move if `ignorePvcPods` were false"],
            id="an extra protection taken back by its older switch",
        ),
        pytest.param(
            pair(pod("it", annotations=STAY)),
            {"noEvictionPolicy": "Mandatory"},
            ["would move if `noEvictionPolicy` were `Preferred`"],
            id="a preference that is no order",
        ),
        pytest.param(
            pair(pod("it")),
            {"labelSelector": {"matchLabels": WEB}},
            ["would move if `labelSelector` of DefaultEvictor were removed"],
            id="a label selector less",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("it")), node("n2"), namespace("default", team="red")),
            {"namespaceLabelSelector": {"matchLabels": {"team": "blue"}}},
            ["would move if `namespaceLabelSelector` of DefaultEvictor were removed"],
            id="a namespace selector less",
        ),
        pytest.param(
            pair(pod("it"), other=node("n2", taints=["a=b:NoSchedule"])),
            {"nodeFit": True},
            ["would move if `nodeFit` were false"],
            id="no fit check",
        ),
        pytest.param(
            pair(pod("it"), other=node("n2", cordoned=True)),
            {"nodeFit": True},
            [
                "would move if n2 were not cordoned",
                "would move if `nodeFit` were false",
            ],
            id="a node uncordoned, before the fit check goes",
        ),
        pytest.param(
            pair(
                pod("it", cpu="1", memory="3Gi"),
                other=node("n2", cpu="4", memory="4Gi").holding(pod("big", cpu="3250m", age="1s")),
            ),
            {"nodeFit": True},
            [
                "would move if n2 had 250m more cpu",
                "would move if `nodeFit` were false",
            ],
            id="a node larger by what is missing",
        ),
        pytest.param(
            pair(
                pod("it", memory="3Gi"),
                other=node("n2", memory="4Gi").holding(pod("big", memory="2Gi", age="1s")),
            ),
            {"nodeFit": True},
            [
                "would move if n2 had 1Gi more memory",
                "would move if `nodeFit` were false",
            ],
            id="memory is printed in the largest unit that is exact",
        ),
        pytest.param(
            pair(pod("it"), other=node("n2", pods=1).holding(pod("one", age="1s"))),
            {"nodeFit": True},
            [
                "would move if n2 took one more pod",
                "would move if `nodeFit` were false",
            ],
            id="a place for one more pod",
        ),
        pytest.param(
            pair(pod("it", annotations=MIRROR)),
            {},
            [
                "we found no change to the policy or cluster that would move it, "
                "because it is a mirror pod of the kubelet"
            ],
            id="nothing helps a mirror pod",
        ),
        pytest.param(
            pair(pod("it", terminating=True)),
            {},
            [
                "we found no change to the policy or cluster that would move it, "
                "because it is already terminating"
            ],
            id="nothing helps a pod that is going anyway",
        ),
        pytest.param(
            pair(pod("it", volumes=LOCAL, age="30m")),
            {"minPodAge": "1h", "minReplicas": 2},
            [
                "would move if `podProtections.defaultDisabled` listed `PodsWithLocalStorage`, "
                "`minReplicas` were 1 and `minPodAge` were 30m"
            ],
            id="all of several, where one would not do",
        ),
    ],
)
def test_a_guard_that_refuses_shows_what_would_make_it_yield(
    world: World, evictor: dict[str, Any], expected: list[str]
) -> None:
    assert hints(world, evictor=evictor) == expected


def test_a_pod_that_others_would_go_before_says_so() -> None:
    """Without the protection the first of the two goes, and the node is within its target."""
    held = [pod(name, cpu="1500m", volumes=LOCAL, priority=i) for i, name in enumerate(("a", "it"))]
    low = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    world = cluster(node("n1").holding(*held), node("n2"))
    answer = about_pod(policy("LowNodeUtilization", low), world)

    assert answer.refused
    assert pod_text(answer, Paint(False), 1000).splitlines()[-1] == (
        "hint: we found no change to the policy or cluster that would move it, because it keeps "
        "data in local storage; without that, other pods would be evicted instead"
    )


def test_a_pod_that_moves_needs_no_hint() -> None:
    assert hints(pair(pod("it"))) == []
