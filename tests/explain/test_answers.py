"""What is answered about a pod, a node and a cycle, as values."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.explain.missing import no_such_node, no_such_pod
from resettle.testing import budget, cluster, node, pod

from .asking import OURS, about_cycle, about_node, about_pod, only_word, policy

OLD = {"maxPodLifeTimeSeconds": 60}
LOW = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
LOCAL = [{"name": "v", "emptyDir": {}}]
WEB = {"app": "web"}


# -- a pod ----------------------------------------------------------------------------------------


def test_all_refusals_are_told_in_the_order_they_are_asked() -> None:
    held = pod("it", owner="DaemonSet/agent", volumes=LOCAL, labels=WEB, age="5m", priority=7)
    world = cluster(
        node("n1").holding(held),
        node("n2", cordoned=True),
        budget("web", allowed=0, labels=WEB),
    )
    evictor = {"nodeFit": True, "minReplicas": 2, "minPodAge": "1h"}
    refusing = policy("PodLifeTime", OLD, evictor=evictor, maxNoOfPodsToEvictTotal=0)

    (proposal,) = only_word(about_pod(refusing, world)).proposals

    assert proposal.because == "has lived 300 s, longer than 60 s"
    assert [(it.code, it.by, it.sentence) for it in proposal.refusals] == [
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

    (proposal,) = only_word(about_pod(asking, world)).proposals
    refusal = proposal.refusals[0]
    fleet = world.snapshot().fleet

    assert refusal.facts["count"] == 8
    assert [
        (it.code, it.says, [node.name for node in fleet.members(it.nodes)])
        for it in refusal.facts["ruled_out"]
    ] == grounds


def test_a_pod_that_goes_is_told_where_it_will_likely_land() -> None:
    world = cluster(node("n1", cordoned=True).holding(pod("it")), node("n2"))
    evictor = {"minReplicas": 0}
    ours = policy("PodLifeTime", OLD, evictor=evictor, api_version=OURS)

    answer = about_pod(ours, world)

    assert answer.move is not None
    assert (answer.move.plugin, answer.move.lands_on) == ("PodLifeTime", "n2")
    assert not answer.refused


# -- a node ---------------------------------------------------------------------------------------


def test_a_node_tells_what_goes_what_is_refused_and_what_nobody_wants() -> None:
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
    assert [(it.resource, it.requested, it.offered, round(it.percent)) for it in answer.uses] == [
        ("cpu", 3400, 4000, 85),
        ("memory", 0, 16 * 2**30, 0),
        ("pods", 5, 110, 5),
    ]
    assert [(it.plugin, it.band.name, it.band.says) for it in answer.bands] == [
        ("LowNodeUtilization", "over", "n1 is at 85% cpu (target 50%)")
    ]
    assert [move.pod.namespace for move in answer.leaving] == ["default"]
    assert [(it.code, it.count) for it in answer.refused] == [("budget", 3), ("daemon-set", 1)]
    assert [(it.plugin, it.code, it.count, it.pod) for it in answer.unwanted] == [
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


# -- a cycle --------------------------------------------------------------------------------------


def test_a_cycle_tells_how_far_its_limits_are_used() -> None:
    world = cluster(
        node("n1").holding(pod("a"), pod("b", namespace="shop")), node("n2").holding(pod("c"))
    )
    limits: dict[str, Any] = {
        "maxNoOfPodsToEvictTotal": 5,
        "maxNoOfPodsToEvictPerNode": 2,
        "maxNoOfPodsToEvictPerNamespace": 4,
    }

    answer = about_cycle(policy("PodLifeTime", OLD, **limits), world)

    assert [(it.limit, it.where, it.used, it.most) for it in answer.plan.spent] == [
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
            ["default/a is 30m old, it takes 1h"],
            id="failed, but not for long",
        ),
        pytest.param(
            "RemovePodsViolatingNodeTaints",
            {"excludedTaints": ["old"]},
            cluster(node("n1", taints=["old:NoSchedule", "a:NoExecute"]), node("n2")),
            ["n1 has the taint old:NoSchedule, which does not count here"],
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
def test_a_cycle_tells_what_came_close(
    plugin: str, args: dict[str, Any], world: Any, close: list[str]
) -> None:
    (answer,) = about_cycle(policy(plugin, args), world).plugins

    assert list(answer.near_misses) == close


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
