"""DefaultEvictor's filter: which pods may not leave at all, and what overrides that."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.testing import cluster, node, plan, pod, priority_class
from tests.plugins.harness import EVERY_POD, EVICT, PREFER_NO_EVICTION, answer

Object = dict[str, Any]

PVC = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}

PROTECTED = [
    pytest.param({"owner": "DaemonSet/logs"}, {}, "daemon-set", id="of a DaemonSet"),
    pytest.param(
        {"owner": ["ReplicaSet/web", "DaemonSet/logs"]},
        {},
        "daemon-set",
        id="of a DaemonSet among other owners",
    ),
    pytest.param(
        {"volumes": [{"name": "tmp", "emptyDir": {}}]}, {}, "local-storage", id="with an emptyDir"
    ),
    pytest.param(
        {"volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}]},
        {},
        "local-storage",
        id="with an emptyDir in memory",
    ),
    pytest.param(
        {"volumes": [PVC, {"name": "host", "hostPath": {"path": "/var"}}]},
        {},
        "local-storage",
        id="with a hostPath",
    ),
    pytest.param({"priority": 2_000_000_000}, {}, "system-critical", id="cluster critical"),
    pytest.param({"priority": 2_000_001_000}, {}, "system-critical", id="node critical"),
    pytest.param(
        {"priority": 1000},
        {"priorityThreshold": {"value": 1000}},
        "priority",
        id="of high priority",
    ),
    pytest.param({"owner": None}, {}, "no-owner", id="without an owner"),
    pytest.param({"owner": None, "phase": "Failed"}, {}, "no-owner", id="failed without an owner"),
    pytest.param({"volumes": [PVC]}, {"ignorePvcPods": True}, "volume-claim", id="with a claim"),
    pytest.param(
        {},
        {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}},
        "no-budget",
        id="under no budget",
    ),
    pytest.param(
        {"spec": {"resourceClaims": [{"name": "gpu"}]}},
        {"podProtections": {"extraEnabled": ["PodsWithResourceClaims"]}},
        "resource-claim",
        id="with a resource claim",
    ),
    pytest.param(
        {"annotations": {"kubernetes.io/config.mirror": "hash"}}, {}, "mirror-pod", id="mirror pod"
    ),
    pytest.param(
        {"annotations": {"kubernetes.io/config.source": "file"}}, {}, "static-pod", id="static pod"
    ),
    pytest.param({"terminating": True}, {}, "terminating", id="terminating"),
    pytest.param(
        {"annotations": {PREFER_NO_EVICTION: "true"}},
        {"noEvictionPolicy": "Mandatory"},
        "prefers-no-eviction",
        id="mandatory prefer-no-eviction",
    ),
    pytest.param(
        {"labels": {"app": "db"}},
        {"labelSelector": {"matchLabels": {"app": "web"}}},
        "not-selected",
        id="not selected by label",
    ),
    pytest.param({}, {"minReplicas": 2}, "min-replicas", id="one of too few replicas"),
    pytest.param({"age": "5m"}, {"minPodAge": "10m"}, "min-age", id="too young"),
]


@pytest.mark.parametrize(("made", "evictor", "code"), PROTECTED)
def test_a_protected_pod_stays_and_the_reason_is_reported(
    made: Object, evictor: Object, code: str
) -> None:
    world = cluster(node("n1").holding(pod("it", **made)), node("n2"))

    planned = plan(EVERY_POD, world, evictor=evictor)

    assert planned.evicts == []
    assert planned.refused == {code: 1}


@pytest.mark.parametrize("value", ["true", "false", ""])
@pytest.mark.parametrize(("made", "evictor", "code"), PROTECTED)
def test_the_evict_annotation_of_any_value_overrides_every_protection(
    made: Object, evictor: Object, code: str, value: str
) -> None:
    annotated = made | {"annotations": made.get("annotations", {}) | {EVICT: value}}
    world = cluster(node("n1").holding(pod("it", **annotated)), node("n2"))

    assert plan(EVERY_POD, world, evictor=evictor).evicts == ["it"]


ALL_LIFTED = {
    "evictLocalStoragePods": True,
    "evictDaemonSetPods": True,
    "evictSystemCriticalPods": True,
    "evictFailedBarePods": True,
}
LIFTED = [
    pytest.param("DaemonSetPods", "evictDaemonSetPods", {"owner": "DaemonSet/a"}, id="daemon set"),
    pytest.param(
        "PodsWithLocalStorage",
        "evictLocalStoragePods",
        {"volumes": [{"name": "tmp", "emptyDir": {}}]},
        id="local storage",
    ),
    pytest.param(
        "SystemCriticalPods", "evictSystemCriticalPods", {"priority": 2_000_000_000}, id="critical"
    ),
    pytest.param(
        "FailedBarePods",
        "evictFailedBarePods",
        {"owner": None, "phase": "Failed"},
        id="failed bare",
    ),
]


@pytest.mark.parametrize(("protection", "flag", "made"), LIFTED)
def test_a_default_protection_can_be_lifted_by_flag_or_by_name(
    protection: str, flag: str, made: Object
) -> None:
    world = cluster(node("n1").holding(pod("it", **made)), node("n2"))
    others = [row.values[0] for row in LIFTED if row.values[0] != protection]

    assert answer(world, evictor={flag: True}) == "admitted"
    assert (
        answer(world, evictor={"podProtections": {"defaultDisabled": [protection]}}) == "admitted"
    )
    assert answer(world, evictor={"podProtections": {"defaultDisabled": others}}) != "admitted"


def test_a_pod_protected_twice_stays_when_one_protection_is_lifted() -> None:
    daemon = pod("it", owner="DaemonSet/a", volumes=[{"name": "tmp", "emptyDir": {}}])
    world = cluster(node("n1").holding(daemon), node("n2"))

    assert answer(world, evictor={"evictLocalStoragePods": True}) == "daemon-set"
    assert answer(world, evictor={"evictDaemonSetPods": True}) == "local-storage"
    assert answer(world, evictor=ALL_LIFTED) == "admitted"


@pytest.mark.parametrize("named", [["PodsWithPVC"], ["PodsWithoutPDB"], ["PodsWithResourceClaims"]])
def test_naming_an_extra_protection_keeps_the_default_ones(named: list[str]) -> None:
    world = cluster(node("n1").holding(pod("it", owner="DaemonSet/a")), node("n2"))

    assert answer(world, evictor={"podProtections": {"extraEnabled": named}}) == "daemon-set"


@pytest.mark.parametrize(
    "kind", ["ReplicaSet", "ReplicationController", "StatefulSet", "Job", "VirtualMachineInstance"]
)
def test_an_owner_of_any_other_kind_lets_its_pod_leave(kind: str) -> None:
    world = cluster(node("n1").holding(pod("it", owner=f"{kind}/web")), node("n2"))

    assert answer(world) == "admitted"


@pytest.mark.parametrize(
    ("phase", "code"),
    [
        ("Failed", "admitted"),
        ("Running", "no-owner"),
        ("Succeeded", "no-owner"),
        ("Pending", "no-owner"),
    ],
)
def test_without_the_bare_protection_only_failed_ownerless_pods_leave(
    phase: str, code: str
) -> None:
    world = cluster(node("n1").holding(pod("it", owner=None, phase=phase)), node("n2"))

    assert answer(world, evictor={"evictFailedBarePods": True}) == code


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        pytest.param({}, "admitted", id="unset"),
        pytest.param({"noEvictionPolicy": ""}, "admitted", id="empty"),
        pytest.param({"noEvictionPolicy": "Preferred"}, "admitted", id="preferred"),
        pytest.param({"noEvictionPolicy": "Mandatory"}, "prefers-no-eviction", id="mandatory"),
    ],
)
def test_prefer_no_eviction_binds_only_when_mandatory(policy: Object, code: str) -> None:
    shy = pod("it", annotations={PREFER_NO_EVICTION: ""})
    world = cluster(node("n1").holding(shy), node("n2"))

    assert answer(world, evictor=policy) == code


def test_a_pod_whose_source_is_the_api_is_not_static() -> None:
    made = pod("it", annotations={"kubernetes.io/config.source": "api"})

    assert answer(cluster(node("n1").holding(made), node("n2"))) == "admitted"


@pytest.mark.parametrize(
    ("priority", "threshold", "code"),
    [
        pytest.param(999, {"value": 1000}, "admitted", id="below the threshold"),
        pytest.param(1000, {"value": 1000}, "priority", id="exactly at the threshold stays"),
        pytest.param(1001, {"value": 1000}, "priority", id="above the threshold"),
        pytest.param(None, {"value": -10}, "admitted", id="no priority is below every threshold"),
        pytest.param(-10, {"value": -10}, "priority", id="negative threshold reached"),
        pytest.param(-11, {"value": -10}, "admitted", id="below a negative threshold"),
        pytest.param(0, {"value": 0}, "priority", id="threshold zero"),
        pytest.param(-1, {"value": 0}, "admitted", id="below zero"),
        pytest.param(500, {"name": "high"}, "priority", id="threshold by class"),
        pytest.param(499, {"name": "high"}, "admitted", id="below the class"),
        pytest.param(1_999_999_999, {}, "admitted", id="empty threshold is the system's"),
        pytest.param(
            1_999_999_999, {"name": "system-cluster-critical"}, "admitted", id="class of the system"
        ),
        pytest.param(
            2_000_000_000,
            {"value": 2_000_000_000},
            "system-critical",
            id="highest threshold allowed",
        ),
    ],
)
def test_pods_at_or_above_the_priority_threshold_stay(
    priority: int | None, threshold: Object, code: str
) -> None:
    made = pod("it", priority=priority)
    world = cluster(node("n1").holding(made), node("n2"), priority_class("high", 500))

    assert answer(world, evictor={"priorityThreshold": threshold}) == code


@pytest.mark.parametrize("priority", [1000, 2_000_000_000])
def test_lifting_the_critical_protection_lifts_the_threshold_too(priority: int) -> None:
    world = cluster(node("n1").holding(pod("it", priority=priority)), node("n2"))
    evictor = {"priorityThreshold": {"value": 1000}, "evictSystemCriticalPods": True}

    assert answer(world, evictor=evictor) == "admitted"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("missing", id="class that does not exist"),
        pytest.param("sky", id="class above the system's own priority"),
        pytest.param("system-node-critical", id="built-in class above the limit"),
    ],
)
def test_a_threshold_by_class_that_cannot_be_used_ends_the_cycle_before_it_starts(
    name: str,
) -> None:
    world = cluster(node("n1").holding(pod("it")), node("n2"), priority_class("sky", 2_000_000_001))

    with pytest.raises(PolicyError, match="DefaultEvictor"):
        plan(EVERY_POD, world, evictor={"priorityThreshold": {"name": name}})


@pytest.mark.parametrize(
    ("selector", "code"),
    [
        pytest.param(None, "admitted", id="absent"),
        pytest.param({}, "admitted", id="empty"),
        pytest.param({"matchLabels": {"app": "web"}}, "admitted", id="label equal"),
        pytest.param({"matchLabels": {"app": "db"}}, "not-selected", id="label differs"),
        pytest.param(
            {"matchLabels": {"app": "web", "tier": "front"}}, "not-selected", id="one label missing"
        ),
        pytest.param(
            {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]},
            "admitted",
            id="NotIn holds where the label is absent",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
            "not-selected",
            id="DoesNotExist",
        ),
    ],
)
def test_only_pods_that_the_label_selector_selects_leave(
    selector: Object | None, code: str
) -> None:
    world = cluster(node("n1").holding(pod("it", labels={"app": "web"})), node("n2"))

    assert answer(world, evictor={"labelSelector": selector}) == code
