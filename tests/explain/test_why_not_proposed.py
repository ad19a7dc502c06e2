"""Why a plugin does not propose a pod: a code for programs, and words with the figures in them."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.framework import Args, Draft, Plugin, Registry, Stopped, default_registry
from resettle.framework.view import View
from resettle.model import Pod
from resettle.testing import World, cluster, node, pod, spread

from .builders import OURS, about_pod, only_decision, policy

LIFETIME = {"maxPodLifeTimeSeconds": 3600}
REQUIRED = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}
LOW = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
HIGH = {"thresholds": {"cpu": 20}}


def wanting(value: str) -> dict[str, Any]:
    """A node affinity for nodes of a pool."""
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": [value]}]}
    rule = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": rule}}


def home(*pods: dict[str, Any], **more: Any) -> World:
    """Node n1 with these pods, and an empty n2."""
    return cluster(node("n1", **more).holding(*pods), node("n2"))


@pytest.mark.parametrize(
    ("plugin", "args", "world", "code", "says"),
    [
        pytest.param(
            "PodLifeTime",
            LIFETIME,
            cluster(node("n1"), node("n2"), pod("it")),
            "unbound",
            "is not bound to a node yet",
            id="a pod without a node",
        ),
        pytest.param(
            "PodLifeTime",
            LIFETIME,
            cluster(node("n1"), node("n2"), pod("it", spec={"nodeName": "gone"})),
            "node-unknown",
            "gone is not among the nodes that are listed",
            id="a node that is not listed",
        ),
        pytest.param(
            "PodLifeTime",
            LIFETIME,
            cluster(node("n0", ready=False).holding(pod("it")), node("n1"), node("n2")),
            "node-unready",
            "n0 is not ready",
            id="a node that is not ready",
        ),
        pytest.param(
            "PodLifeTime",
            LIFETIME | {"namespaces": {"exclude": ["default"]}},
            home(pod("it")),
            "namespace-left-out",
            "its namespace default is excluded by `namespaces`",
            id="a namespace that is left out",
        ),
        pytest.param(
            "PodLifeTime",
            LIFETIME | {"labelSelector": {"matchLabels": {"app": "web"}}},
            home(pod("it")),
            "labels-left-out",
            "its labels are not selected by `labelSelector`",
            id="labels that are not selected",
        ),
        pytest.param(
            "RemovePodsViolatingNodeTaints",
            {},
            home(pod("it", phase="Succeeded")),
            "finished",
            "is finished (Succeeded)",
            id="a finished pod, for plugins that look at others",
        ),
        pytest.param(
            "PodLifeTime",
            LIFETIME,
            home(pod("it", age="40m")),
            "too-young",
            "is 40m old, the limit is 1h",
            id="younger than the limit",
        ),
        pytest.param(
            "PodLifeTime",
            LIFETIME,
            home(pod("it", age="60m")),
            "too-young",
            "is 1h old, the limit is 1h",
            id="exactly at the limit stays",
        ),
        pytest.param(
            "PodLifeTime",
            {"states": ["Pending", "CrashLoopBackOff"]},
            home(pod("it")),
            "other-state",
            "is Running, not Pending or CrashLoopBackOff",
            id="in another state",
        ),
        pytest.param(
            "PodLifeTime",
            LIFETIME | {"conditions": [{"type": "Ready", "status": "False"}]},
            home(pod("it")),
            "other-condition",
            "is in none of the `conditions`, or not for long enough",
            id="in none of the conditions",
        ),
        pytest.param(
            "PodLifeTime",
            LIFETIME | {"exitCodes": [137]},
            home(pod("it")),
            "other-exit-code",
            "none of its containers ended with one of the `exitCodes`",
            id="no such exit code",
        ),
        pytest.param(
            "PodLifeTime",
            LIFETIME | {"ownerKinds": {"exclude": ["ReplicaSet"]}},
            home(pod("it")),
            "other-owner",
            "is owned by ReplicaSet, which `ownerKinds` excludes",
            id="owned by another kind",
        ),
        pytest.param(
            "RemoveFailedPods",
            {},
            home(pod("it")),
            "other-state",
            "is Running, not Failed",
            id="not failed",
        ),
        pytest.param(
            "RemoveFailedPods",
            {},
            home(pod("it", phase="Failed", age="20m")),
            "too-young",
            "is 20m old, `minPodLifetimeSeconds` is 1h",
            id="failed just now",
        ),
        pytest.param(
            "RemoveFailedPods",
            {"reasons": ["NodeLost"]},
            home(pod("it", phase="Failed", status={"reason": "Evicted"})),
            "other-reason",
            "failed with Evicted, which is not among the `reasons`",
            id="failed for another reason",
        ),
        pytest.param(
            "RemoveFailedPods",
            {"excludeOwnerKinds": ["Job"]},
            home(pod("it", phase="Failed", owner="Job/once")),
            "other-owner",
            "is owned by Job, which `excludeOwnerKinds` excludes",
            id="failed, but of a kind that is left out",
        ),
        pytest.param(
            "RemoveFailedPods",
            {"exitCodes": [1]},
            home(pod("it", phase="Failed")),
            "other-exit-code",
            "none of its containers ended with one of the `exitCodes`",
            id="failed with another exit code",
        ),
        pytest.param(
            "RemovePodsHavingTooManyRestarts",
            {"podRestartThreshold": 5},
            home(pod("it", restarts=3)),
            "few-restarts",
            "has restarted 3 times, the threshold is 5",
            id="few restarts",
        ),
        pytest.param(
            "RemovePodsHavingTooManyRestarts",
            {"podRestartThreshold": 5},
            home(pod("it")),
            "few-restarts",
            "has never restarted, the threshold is 5",
            id="no restarts",
        ),
        pytest.param(
            "RemovePodsHavingTooManyRestarts",
            {"podRestartThreshold": 1, "states": ["CrashLoopBackOff"]},
            home(pod("it", restarts=1)),
            "other-state",
            "is Running, not CrashLoopBackOff",
            id="enough restarts in another state",
        ),
        pytest.param(
            "RemovePodsViolatingNodeTaints",
            {},
            home(pod("it")),
            "no-taint",
            "no taint of n1 is checked by this policy",
            id="no taint",
        ),
        pytest.param(
            "RemovePodsViolatingNodeTaints",
            {},
            home(pod("it", tolerations=[{"operator": "Exists"}]), taints=["a=b:NoSchedule"]),
            "tolerates",
            "tolerates every taint of n1 that this policy checks",
            id="a taint that is tolerated",
        ),
        pytest.param(
            "RemovePodsViolatingNodeAffinity",
            REQUIRED,
            home(pod("it")),
            "no-rule",
            "has no node affinity of a type in `nodeAffinityType`",
            id="no node affinity",
        ),
        pytest.param(
            "RemovePodsViolatingNodeAffinity",
            REQUIRED,
            home(pod("it", affinity=wanting("blue")), labels={"pool": "blue"}),
            "satisfied",
            "n1 matches its node affinity",
            id="where its affinity would have it",
        ),
        pytest.param(
            "RemovePodsViolatingNodeAffinity",
            REQUIRED,
            home(pod("it", affinity=wanting("blue"))),
            "no-node-fits",
            "n1 does not satisfy its required node affinity, "
            "but no node of 1 takes it: 1 node affinity",
            id="in the wrong place, but no other is right",
        ),
        pytest.param(
            "RemovePodsViolatingInterPodAntiAffinity",
            {},
            home(pod("it"), pod("other", away_from={"app": "it"})),
            "no-rule",
            "has no podAntiAffinity",
            id="no anti-affinity",
        ),
        pytest.param(
            "RemovePodsViolatingInterPodAntiAffinity",
            {},
            home(pod("it", away_from={"app": "db"}), pod("web", labels={"app": "web"})),
            "satisfied",
            "no pod violates its podAntiAffinity",
            id="no pod near that it avoids",
        ),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            {},
            home(pod("it")),
            "no-rule",
            "no constraint that this policy checks selects it",
            id="no constraint",
        ),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            {},
            cluster(
                node("n1", zone="a").holding(
                    pod("it", labels={"app": "web"}, spread=[spread(labels={"app": "web"})])
                ),
                node("n2", zone="b"),
            ),
            "satisfied",
            "such pods in its topology.kubernetes.io/zone (a): 1, fewest anywhere: 0, "
            "`maxSkew` is 1",
            id="a constraint that holds",
        ),
        pytest.param(
            "RemoveDuplicates",
            {},
            home(pod("it")),
            "only-copy",
            "is the only copy of ReplicaSet web on n1",
            id="the only copy on its node",
        ),
        pytest.param(
            "RemoveDuplicates",
            {},
            cluster(
                node("n1").holding(pod("it"), pod("also")),
                node("n2").holding(pod("third"), pod("fourth")),
            ),
            "fair-share",
            "2 copies of ReplicaSet web are on n1, at most 2 expected",
            id="no more than the share",
        ),
        pytest.param(
            "RemoveDuplicates",
            {},
            cluster(
                node("n1").holding(pod("it"), pod("also")),
                node("n2", taints=["a:NoSchedule"]),
            ),
            "no-place",
            "fewer than two nodes could take copies of ReplicaSet web",
            id="no other node for copies",
        ),
        pytest.param(
            "RemoveDuplicates",
            {"excludeOwnerKinds": ["ReplicaSet"]},
            home(pod("it"), pod("also")),
            "other-owner",
            "is owned by ReplicaSet, which `excludeOwnerKinds` excludes",
            id="copies of a kind that is left out",
        ),
        pytest.param(
            "RemoveDuplicates",
            {},
            home(pod("it", owner=None)),
            "other-owner",
            "has no owner whose copies could be counted",
            id="a bare pod",
        ),
        pytest.param(
            "LowNodeUtilization",
            LOW,
            home(pod("it", cpu="1200m")),
            "node-within",
            "n1 is at 30% cpu (target 50%)",
            id="on a node within its target",
        ),
        pytest.param(
            "LowNodeUtilization",
            LOW,
            home(pod("it", cpu="400m")),
            "node-under",
            "n1 is at 10% cpu (threshold 20%)",
            id="on a node that is nearly empty",
        ),
        pytest.param(
            "LowNodeUtilization",
            LOW,
            cluster(node("n1").holding(pod("it", cpu="3")), node("n2").holding(pod("b", cpu="1"))),
            "none-underutilized",
            "n1 is at 75% cpu (target 50%), but no node is underutilized",
            id="on a full node, but none is empty",
        ),
        pytest.param(
            "LowNodeUtilization",
            LOW | {"evictableNamespaces": {"exclude": ["default"]}},
            home(pod("it", cpu="3")),
            "namespace-left-out",
            "its namespace default is excluded by `evictableNamespaces`",
            id="on a full node, in a namespace that is left out",
        ),
        pytest.param(
            "LowNodeUtilization",
            LOW,
            cluster(node("n1").holding(pod("it", cpu="3")), node("n2", taints=["a:NoSchedule"])),
            "taints",
            "does not tolerate the taints of any node that has room",
            id="it tolerates the taints of no destination",
        ),
        pytest.param(
            "HighNodeUtilization",
            HIGH,
            home(pod("it", cpu="2")),
            "node-used",
            "n1 is at 50% cpu (threshold 20%)",
            id="on a node in good use",
        ),
        pytest.param(
            "HighNodeUtilization",
            HIGH,
            home(pod("it", cpu="100m")),
            "all-underutilized",
            "n1 is at 2% cpu (threshold 20%), but every node is underutilized",
            id="all nodes are nearly empty",
        ),
        pytest.param(
            "HighNodeUtilization",
            HIGH | {"evictionModes": ["OnlyThresholdingResources"]},
            cluster(node("n1").holding(pod("it")), node("n2").holding(pod("b", cpu="2"))),
            "no-relief",
            "requests none of the resources in `thresholds`",
            id="nothing that counts would leave with it",
        ),
    ],
)
def test_a_plugin_says_why_it_does_not_want_a_pod(
    plugin: str, args: dict[str, Any], world: World, code: str, says: str
) -> None:
    word = only_decision(about_pod(policy(plugin, args), world))

    assert word.not_proposed is not None
    assert (word.not_proposed.code, word.not_proposed.says) == (code, says)


def test_a_node_that_the_policy_does_not_select_is_named() -> None:
    world = cluster(node("n0").holding(pod("it")), *(node(f"n{i}", zone="a") for i in (1, 2)))
    selecting = policy("PodLifeTime", LIFETIME, nodeSelector="topology.kubernetes.io/zone=a")

    reason = only_decision(about_pod(selecting, world)).not_proposed

    assert reason is not None
    assert (reason.code, reason.says) == (
        "node-not-selected",
        "n0 is not selected by `nodeSelector`",
    )


def test_with_a_single_node_no_plugin_has_a_turn() -> None:
    reason = only_decision(about_pod(policy("PodLifeTime", LIFETIME), home_alone())).not_proposed

    assert reason is not None
    assert (reason.code, reason.says) == (
        "not-run",
        "no plugin ran: only one node is ready and selected; moving pods takes at least two",
    )


def home_alone() -> World:
    return cluster(node("n1").holding(pod("it")))


@pytest.mark.parametrize(
    ("plugin", "args", "world", "top", "says"),
    [
        pytest.param(
            "PodLifeTime",
            LIFETIME,
            home(pod("older", age="3d"), pod("old", age="2d"), pod("it")),
            {"maxNoOfPodsToEvictTotal": 1},
            "not reached: the limit of moves in one cycle is reached",
            id="the limit ended the turn",
        ),
        pytest.param(
            "LowNodeUtilization",
            LOW,
            home(pod("first", cpu="1500m", priority=-1), pod("it", cpu="1500m", priority=5)),
            {},
            "not reached: 1 other pod leaves n1 instead",
            id="others were enough",
        ),
    ],
)
def test_a_pod_whose_turn_did_not_come_says_so(
    plugin: str, args: dict[str, Any], world: World, top: dict[str, Any], says: str
) -> None:
    reason = only_decision(about_pod(policy(plugin, args, **top), world)).not_proposed

    assert reason is not None
    assert (reason.code, reason.says) == ("no-turn", says)


def test_a_copy_that_may_not_leave_says_what_keeps_it() -> None:
    world = home(pod("it"), pod("also"))
    answer = about_pod(policy("RemoveDuplicates", evictor={"minReplicas": 3}), world)
    reason = only_decision(answer).not_proposed

    assert reason is not None
    assert reason.says == ("is not a candidate: its ReplicaSet has 2 pods, `minReplicas` is 3")
    assert answer.refused


# -- plugins of others ----------------------------------------------------------------------------


def silent(args: Args, view: View, draft: Draft) -> Stopped | None:
    return None


def broken(args: Args, view: View, draft: Draft) -> Stopped | None:
    raise ValueError("the moon is full")


def asked_in_vain(args: Args, view: View, pod: Pod) -> None:
    raise KeyError("moon")


@pytest.mark.parametrize(
    ("plugin", "code", "says"),
    [
        pytest.param(
            Plugin(name="Silent", deschedule=silent),
            "not-wanted",
            "was not proposed, and the plugin does not say why",
            id="a plugin without the hook",
        ),
        pytest.param(
            Plugin(name="Silent", deschedule=silent, why_not_proposed=asked_in_vain),
            "not-wanted",
            "was not proposed; asked why, the plugin failed: KeyError: 'moon'",
            id="a hook that fails",
        ),
        pytest.param(
            Plugin(name="Silent", deschedule=broken),
            "plugin-failed",
            "the plugin failed: ValueError: the moon is full",
            id="a turn that fails",
        ),
    ],
)
def test_a_plugin_that_cannot_say_why_gets_a_plain_sentence(
    plugin: Plugin, code: str, says: str
) -> None:
    registry = Registry([*default_registry().values(), plugin])
    reason = only_decision(
        about_pod(policy("Silent", registry=registry), home(pod("it")))
    ).not_proposed

    assert reason is not None
    assert (reason.code, reason.says) == (code, says)


# -- improved semantics ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "args", "world", "code", "says"),
    [
        pytest.param(
            "RemovePodsViolatingNodeTaints",
            {},
            home(pod("it"), taints=["node.kubernetes.io/unschedulable:NoSchedule"]),
            "taint-ignored",
            "the taint node.kubernetes.io/unschedulable:NoSchedule of n1 is ignored: "
            "it is a node lifecycle taint; name it in `includedTaints` to have it checked",
            id="a taint of the node's life cycle",
        ),
        pytest.param(
            "RemovePodsViolatingInterPodAntiAffinity",
            {},
            home(pod("it"), pod("other")),
            "satisfied",
            "violates no podAntiAffinity, neither its own nor that of another pod",
            id="neither side minds",
        ),
        pytest.param(
            "RemovePodsViolatingTopologySpreadConstraint",
            {},
            home(pod("it")),
            "no-rule",
            "no constraint that this policy checks selects it",
            id="no constraint of its own",
        ),
        pytest.param(
            "LowNodeUtilization",
            LOW,
            home(pod("it"), *(pod(f"big-{i}", cpu="1500m") for i in "12")),
            "no-relief",
            "uses none of the resources that n1 is short of",
            id="a pod whose going would not help",
        ),
    ],
)
def test_improved_plugins_say_why_too(
    plugin: str, args: dict[str, Any], world: World, code: str, says: str
) -> None:
    word = only_decision(about_pod(policy(plugin, args, api_version=OURS), world))

    assert word.not_proposed is not None
    assert (word.not_proposed.code, word.not_proposed.says) == (code, says)
