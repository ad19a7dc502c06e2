"""What is answered about a pod, as values."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.explain.pod import no_such_node, no_such_pod
from resettle.testing import budget, cluster, node, pod

from .builders import OURS, about_pod, only_decision, policy

OLD = {"maxPodLifeTimeSeconds": 60}
LOW = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
LOCAL = [{"name": "v", "emptyDir": {}}]
WEB = {"app": "web"}


def test_all_refusals_are_listed_in_the_order_they_are_asked() -> None:
    held = pod("it", owner="DaemonSet/agent", volumes=LOCAL, labels=WEB, age="5m", priority=7)
    world = cluster(
        node("n1").holding(held),
        node("n2", cordoned=True),
        budget("web", allowed=0, labels=WEB),
    )
    evictor = {"nodeFit": True, "minReplicas": 2, "minPodAge": "1h"}
    refusing = policy("PodLifeTime", OLD, evictor=evictor, maxNoOfPodsToEvictTotal=0)

    (proposal,) = only_decision(about_pod(refusing, world)).proposals

    assert proposal.because == "is 5m old, longer than 1m"
    assert [(refusal.code, refusal.by, refusal.sentence) for refusal in proposal.refusals] == [
        ("local-storage", "DefaultEvictor", "keeps data in local storage"),
        ("daemon-set", "DefaultEvictor", "belongs to a DaemonSet"),
        ("min-replicas", "DefaultEvictor", "its DaemonSet has 1 pod, `minReplicas` is 2"),
        ("min-age", "DefaultEvictor", "has been running for 5m, `minPodAge` is 1h"),
        ("no-node-fits", "DefaultEvictor", "no node of 1 takes it: 1 cordoned"),
        ("limit-total", "limits", "the limit of 0 for this cycle is reached"),
        ("budget", "budget", "budget default/web allows no more disruptions now"),
    ]


@pytest.mark.parametrize(
    ("version", "grounds"),
    [
        pytest.param(
            "descheduler/v1alpha2",
            [
                ("cordoned", "cordoned", ["n2"]),
                ("node-affinity", "node affinity", ["n3"]),
                ("taint", "taint gpu=yes:NoSchedule", ["n4", "n5"]),
                ("anti-affinity", "anti-affinity with default/rival", ["n6"]),
                ("room", "cpu", ["n7", "n8"]),
                ("room", "memory", ["n9"]),
            ],
            id="weak fit",
        ),
        pytest.param(
            OURS,
            [
                ("cordoned", "cordoned", ["n2"]),
                ("node-affinity", "node selector or affinity", ["n3"]),
                ("taint", "taint gpu=yes:NoSchedule", ["n4", "n5"]),
                ("room", "cpu", ["n7", "n8"]),
                ("room", "memory", ["n9"]),
                ("anti-affinity", "anti-affinity of its own", ["n6"]),
            ],
            id="the scheduler's own fit",
        ),
    ],
)
def test_each_node_that_does_not_take_a_pod_stands_under_one_ground(
    version: str, grounds: list[tuple[str, str, list[str]]]
) -> None:
    blue: dict[str, Any] = {"labels": {"pool": "blue"}}
    it = pod("it", cpu="2", memory="2Gi", node_selector={"pool": "blue"}, away_from=WEB)
    world = cluster(
        node("n1", cordoned=True, **blue).holding(it),
        node("n2", cordoned=True, **blue),
        node("n3"),
        *(node(name, taints=["gpu=yes:NoSchedule"], **blue) for name in ("n4", "n5")),
        node("n6", **blue).holding(pod("rival", labels=WEB, age="1s")),
        *(node(name, cpu="1", **blue) for name in ("n7", "n8")),
        node("n9", memory="1Gi", **blue),
    )
    everything: dict[str, Any] = {}
    if version == OURS:
        everything = {"maxPercentOfPodsToEvict": 100, "maxPercentOfNodesToEvictFrom": 100}
    asking = policy(
        "PodLifeTime",
        OLD,
        evictor={"nodeFit": True, "minReplicas": 0},
        api_version=version,
        **everything,
    )

    (proposal,) = only_decision(about_pod(asking, world)).proposals
    refusal = proposal.refusals[0]
    fleet = world.snapshot().node_index

    assert refusal.facts["count"] == 8
    assert [
        (item.code, item.says, [node.name for node in fleet.members(item.nodes)])
        for item in refusal.facts["ruled_out"]
    ] == grounds


def test_a_pod_that_goes_shows_where_it_will_likely_land() -> None:
    world = cluster(node("n1", cordoned=True).holding(pod("it")), node("n2"))
    evictor = {"minReplicas": 0}
    ours = policy("PodLifeTime", OLD, evictor=evictor, api_version=OURS)

    answer = about_pod(ours, world)

    assert answer.move is not None
    assert (answer.move.plugin, answer.move.lands_on) == ("PodLifeTime", "n2")
    assert not answer.refused


# -- what is not there ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("namespace", "name", "says"),
    [
        pytest.param(
            "shop",
            "web-1",
            "there is no pod `shop/web-1`; did you mean `default/web-1`?",
            id="the name is there in another namespace",
        ),
        pytest.param(
            "default",
            "web-11",
            "there is no pod `default/web-11`; did you mean `default/web-1`?",
            id="a name that is near",
        ),
        pytest.param(
            "defualt",
            "web-2x",
            "there is no pod `defualt/web-2x`; did you mean `default/web-2`?",
            id="namespace and name are both near",
        ),
        pytest.param(
            "default",
            "moon",
            "there is no pod `default/moon`; list them with `kubectl get pods`",
            id="nothing is near",
        ),
    ],
)
def test_a_pod_that_is_not_there_is_an_error_that_names_the_one_meant(
    namespace: str, name: str, says: str
) -> None:
    held = (pod("web-1"), pod("web-2"), pod("cart", namespace="shop"))
    snapshot = cluster(node("n1").holding(*held)).snapshot()

    assert str(no_such_pod(snapshot, namespace, name)) == says


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("node1", "there is no node `node1`; did you mean `node-1`?", id="near"),
        pytest.param("x", "there is no node `x`; list them with `kubectl get nodes`", id="far"),
    ],
)
def test_a_node_that_is_not_there_is_an_error_that_names_the_one_meant(
    name: str, says: str
) -> None:
    snapshot = cluster(node("node-1"), node("node-2")).snapshot()

    assert str(no_such_node(snapshot, name)) == says
