"""DefaultEvictor's filter where it looks beyond the pod: claims, budgets, replicas, time."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import budget, claim, cluster, node, plan, pod
from tests.plugins.harness import EVERY_POD, answer

Object = dict[str, Any]

BUDGETED = {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}}
EXTRA_PVC = {"podProtections": {"extraEnabled": ["PodsWithPVC"]}}


def by_class(*names: str) -> Object:
    """Arguments that protect claims of these storage classes."""
    classes = [{"name": name} for name in names]
    config = {"PodsWithPVC": {"protectedStorageClasses": classes}}
    return {"podProtections": {"extraEnabled": ["PodsWithPVC"], "config": config}}


def using(*claims: str) -> Object:
    """A pod with these claims mounted."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return pod("it", volumes=volumes)


@pytest.mark.parametrize(
    ("made", "evictor", "code"),
    [
        pytest.param(using("fast"), {}, "admitted", id="unprotected by default"),
        pytest.param(using("fast"), {"ignorePvcPods": True}, "volume-claim", id="older flag"),
        pytest.param(using("fast"), EXTRA_PVC, "volume-claim", id="named protection"),
        pytest.param(using("gone"), EXTRA_PVC, "volume-claim", id="the claim need not exist"),
        pytest.param(pod("it"), EXTRA_PVC, "admitted", id="no volume"),
        pytest.param(
            pod("it", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]),
            EXTRA_PVC,
            "admitted",
            id="a generic ephemeral volume is not seen",
        ),
        pytest.param(using("fast"), by_class("ssd"), "storage-class", id="protected class"),
        pytest.param(using("slow"), by_class("ssd"), "admitted", id="other class"),
        pytest.param(
            using("slow"), by_class("ssd", "hdd"), "storage-class", id="one of two classes"
        ),
        pytest.param(using("gone"), by_class("ssd"), "storage-class", id="missing claim"),
        pytest.param(using("plain"), by_class("ssd"), "storage-class", id="claim without a class"),
        pytest.param(
            using("blank"), by_class("ssd"), "storage-class", id="claim of the empty class"
        ),
        pytest.param(
            using("far"), by_class("ssd"), "storage-class", id="claim of another namespace"
        ),
        pytest.param(
            using("slow", "fast"), by_class("ssd"), "storage-class", id="one of two claims"
        ),
        pytest.param(pod("it"), by_class("ssd"), "admitted", id="no claim at all"),
        pytest.param(
            using("slow"),
            {"ignorePvcPods": True, "podProtections": {"config": {"PodsWithPVC": {}}}},
            "volume-claim",
            id="an empty list of classes protects all claims",
        ),
        pytest.param(
            using("slow"),
            {
                "ignorePvcPods": True,
                "podProtections": {
                    "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "ssd"}]}}
                },
            },
            "admitted",
            id="classes narrow the older flag too",
        ),
    ],
)
def test_pods_with_protected_claims_stay(made: Object, evictor: Object, code: str) -> None:
    world = cluster(
        node("n1").holding(made),
        node("n2"),
        claim("fast", storage_class="ssd"),
        claim("slow", storage_class="hdd"),
        claim("plain"),
        claim("blank", storage_class=""),
        claim("far", storage_class="hdd", namespace="elsewhere"),
    )

    assert answer(world, evictor=evictor) == code


UNREADABLE = {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}


@pytest.mark.parametrize(
    ("budgets", "code"),
    [
        pytest.param([], "no-budget", id="no budget at all"),
        pytest.param([budget("b", allowed=1, labels={"app": "web"})], "admitted", id="covered"),
        pytest.param(
            [budget("b", allowed=1, labels={"app": "db"})], "no-budget", id="other labels"
        ),
        pytest.param(
            [budget("b", allowed=1, labels={"app": "web"}, namespace="other")],
            "no-budget",
            id="other namespace",
        ),
        pytest.param(
            [budget("b", allowed=1, labels={})], "admitted", id="an empty selector covers all"
        ),
        pytest.param(
            [budget("b", allowed=1, labels={}, spec={"selector": None})],
            "no-budget",
            id="an absent selector covers nothing",
        ),
        pytest.param(
            [budget("b", allowed=1, labels={}, spec={"selector": UNREADABLE})],
            "no-budget",
            id="an unreadable selector is passed over",
        ),
        pytest.param(
            [
                budget("a", allowed=1, labels={}, spec={"selector": UNREADABLE}),
                budget("b", allowed=1, labels={"app": "web"}),
            ],
            "admitted",
            id="covered beside an unreadable one",
        ),
    ],
)
def test_pods_under_no_budget_stay_when_a_budget_is_demanded(
    budgets: list[Object], code: str
) -> None:
    made = pod("it", labels={"app": "web"})
    world = cluster(node("n1").holding(made), node("n2"), *budgets)

    assert answer(world, evictor=BUDGETED) == code


@pytest.mark.parametrize(("flag", "code"), [(True, "no-budget"), (False, "admitted")])
def test_the_older_flag_demands_a_budget_as_well(flag: bool, code: str) -> None:
    world = cluster(node("n1").holding(pod("it")), node("n2"))

    assert answer(world, evictor={"ignorePodsWithoutPDB": flag}) == code


@pytest.mark.parametrize("least", [0, 1])
def test_fewer_than_two_replicas_cannot_be_demanded(least: int) -> None:
    world = cluster(node("n1").holding(pod("it")), node("n2"))

    assert answer(world, evictor={"minReplicas": least}) == "admitted"


@pytest.mark.parametrize(
    ("others", "code"),
    [
        pytest.param([], "min-replicas", id="alone"),
        pytest.param([pod("b")], "min-replicas", id="one short"),
        pytest.param([pod("b"), pod("c")], "admitted", id="exactly enough"),
        pytest.param(
            [pod("b", phase="Succeeded"), pod("c", phase="Failed")],
            "admitted",
            id="finished ones count",
        ),
        pytest.param(
            [pod("b", terminating=True), pod("c")], "admitted", id="terminating ones count"
        ),
        pytest.param(
            [pod("b"), pod("c", owner="ReplicaSet/other")],
            "min-replicas",
            id="another owner's do not",
        ),
        pytest.param(
            [pod("b"), pod("c", namespace="other")], "min-replicas", id="a namesake owner's do not"
        ),
        pytest.param(
            [pod("b"), pod("c", owner=["ReplicaSet/web", "ReplicaSet/more"])],
            "admitted",
            id="shared ones count",
        ),
    ],
)
def test_replicas_of_an_owner_are_counted_in_the_whole_cluster(
    others: list[Object], code: str
) -> None:
    world = cluster(node("n1").holding(pod("it")), node("n2").holding(*others))

    assert answer(world, evictor={"minReplicas": 3}) == code


def test_unscheduled_replicas_count_too() -> None:
    world = cluster(node("n1").holding(pod("it")), node("n2"), pod("b", phase="Pending"))

    assert answer(world, evictor={"minReplicas": 2}) == "admitted"


@pytest.mark.parametrize(
    "made",
    [
        pytest.param({"owner": ["ReplicaSet/a", "ReplicaSet/b"]}, id="several owners"),
        pytest.param({"owner": None, "phase": "Failed"}, id="no owner"),
    ],
)
def test_replicas_are_only_demanded_of_pods_with_one_owner(made: Object) -> None:
    world = cluster(node("n1").holding(pod("it", **made)), node("n2"))

    assert answer(world, evictor={"minReplicas": 9, "evictFailedBarePods": True}) == "admitted"


def test_evictions_of_the_cycle_do_not_lower_the_number_of_replicas() -> None:
    world = cluster(node("n1").holding(pod("a"), pod("b")), node("n2").holding(pod("c")))

    assert sorted(plan(EVERY_POD, world, evictor={"minReplicas": 3}).evicts) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("made", "least", "code"),
    [
        pytest.param(pod("it", age="50m"), None, "admitted", id="no minimum"),
        pytest.param(pod("it", age="50m"), "10m", "admitted", id="old enough"),
        pytest.param(pod("it", age="50m"), "1h", "min-age", id="too young"),
        pytest.param(pod("it", age="50m"), "50m", "admitted", id="exactly old enough leaves"),
        pytest.param(pod("it", age="50m"), "50m1s", "min-age", id="a second short"),
        pytest.param(
            pod("it", age="1d", status={"startTime": "2026-01-31T11:55:00Z"}),
            "10m",
            "min-age",
            id="the start counts, not the creation",
        ),
        pytest.param(
            pod("it", age="1d", status={"startTime": None}), "10m", "min-age", id="never started"
        ),
        pytest.param(
            pod("it", age="1d", status={"startTime": None}),
            None,
            "admitted",
            id="start not asked for",
        ),
    ],
)
def test_pods_stay_until_they_have_run_for_the_minimum_age(
    made: Object, least: str | None, code: str
) -> None:
    world = cluster(node("n1").holding(made), node("n2"))

    assert answer(world, evictor={"minPodAge": least}) == code
