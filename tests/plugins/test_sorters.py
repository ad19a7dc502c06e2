"""Sorters: who goes first, in a profile of `resettle/v1` that says so."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.testing import cluster, node, plan_policy, pod
from tests.plugins.harness import PREFER_NO_EVICTION

Object = dict[str, Any]

COST = "controller.kubernetes.io/pod-deletion-cost"
IMPROVED = "resettle/v1"


def order(
    pods: list[Object],
    *,
    sort: list[str] | None = None,
    presort: list[str] | None = None,
    strategy: str = "RemoveFailedPods",
    api_version: str = IMPROVED,
    limit: int | None = None,
    configs: dict[str, Object] | None = None,
) -> list[str]:
    """The pods of one node in the order a strategy evicts them."""
    args: dict[str, Object] = {
        "RemoveFailedPods": {"minPodLifetimeSeconds": 0},
        "PodLifeTime": {"maxPodLifeTimeSeconds": 0},
        "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 1},
    }
    config = {strategy: args[strategy], **(configs or {})}
    profile = {
        "name": "test",
        "pluginConfig": [{"name": name, "args": given} for name, given in config.items()],
        "plugins": {
            "deschedule": {"enabled": [strategy]},
            "sort": {"enabled": sort or []},
            "presort": {"enabled": presort or []},
        },
    }
    document: Object = {"profiles": [profile]}
    if api_version == IMPROVED:
        config["DefaultEvictor"] = {"minPodAge": "0s", "minReplicas": 0}
        profile["pluginConfig"] = [{"name": name, "args": given} for name, given in config.items()]
        document |= {"maxPercentOfPodsToEvict": 100, "maxPercentOfNodesToEvictFrom": 100}
    if limit is not None:
        document["maxNoOfPodsToEvictTotal"] = limit
    world = cluster(node("n1").holding(*pods), node("n2"))
    return plan_policy(document, world, api_version=api_version).evicts


def failed(name: str, **made: Any) -> Object:
    return pod(name, phase="Failed", **made)


def quality(name: str, qos: str, **made: Any) -> Object:
    return failed(name, status={"qosClass": qos}, **made)


SHY = {"annotations": {PREFER_NO_EVICTION: ""}}
LADDER = [
    quality("01 no priority, best effort", "BestEffort", priority=None),
    quality("02 no priority, burstable", "Burstable", priority=None),
    quality("03 no priority, burstable, shy", "Burstable", priority=None, **SHY),
    quality("04 no priority, guaranteed", "Guaranteed", priority=None),
    quality("05 negative", "Guaranteed", priority=-5),
    quality("06 low", "Burstable", priority=0),
    quality("07 low, shy", "Burstable", priority=0, **SHY),
    quality("08 high, best effort", "BestEffort", priority=10_000),
    quality("09 high, best effort, shy", "BestEffort", priority=10_000, **SHY),
    quality("10 high, burstable", "Burstable", priority=10_000),
    quality("11 high, burstable, shy", "Burstable", priority=10_000, **SHY),
    quality("12 high, guaranteed", "Guaranteed", priority=10_000),
    quality("13 high, guaranteed, shy", "Guaranteed", priority=10_000, **SHY),
]


@pytest.mark.parametrize("point", ["sort", "presort"])
def test_priority_sort_climbs_the_whole_ladder(point: str) -> None:
    pods = LADDER[::2] + LADDER[1::2]

    climbed = order(pods, **{point: ["PrioritySort"]})  # type: ignore[arg-type]

    assert climbed == [item["metadata"]["name"] for item in LADDER]


@pytest.mark.parametrize("limit", range(len(LADDER) + 1))
def test_under_a_limit_the_least_important_have_gone(limit: int) -> None:
    names = [item["metadata"]["name"] for item in LADDER]

    assert order(LADDER[::-1], sort=["PrioritySort"], limit=limit) == names[:limit]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({}, "before", id="best effort goes before burstable"),
        pytest.param(
            {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}},
            "after",
            id="guaranteed goes after burstable",
        ),
    ],
)
def test_where_the_status_names_no_quality_the_resources_do(
    resources: Object, expected: str
) -> None:
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
    pods = [failed("it", spec={"containers": [container]}), failed("burstable", cpu="1")]

    evicted = order(pods, sort=["PrioritySort"])

    assert evicted == (["it", "burstable"] if expected == "before" else ["burstable", "it"])


AGES = [failed("middle", age="2h"), failed("old", age="3h"), failed("young", age="1h")]


@pytest.mark.parametrize(
    ("args", "evicted"),
    [
        pytest.param({}, ["old", "middle", "young"], id="oldest first by default"),
        pytest.param({"order": "OldestFirst"}, ["old", "middle", "young"], id="oldest first"),
        pytest.param({"order": "YoungestFirst"}, ["young", "middle", "old"], id="youngest first"),
    ],
)
def test_age_sort_orders_by_creation(args: Object, evicted: list[str]) -> None:
    assert order(AGES, sort=["AgeSort"], configs={"AgeSort": args}) == evicted


def test_age_sort_treats_a_pod_without_a_creation_time_as_new() -> None:
    pods = [failed("unknown", metadata={"creationTimestamp": None}), failed("young", age="1s")]

    assert order(pods, sort=["AgeSort"]) == ["young", "unknown"]


SIZES = [
    failed("medium", cpu="500m", memory="3Gi"),
    failed("large", cpu="1", memory="1Gi"),
    failed("none"),
    failed("small", cpu="1m", memory="2Gi"),
]


@pytest.mark.parametrize(
    ("args", "evicted"),
    [
        pytest.param({}, ["large", "medium", "small", "none"], id="most cpu first by default"),
        pytest.param(
            {"order": "SmallestFirst"}, ["none", "small", "medium", "large"], id="least cpu first"
        ),
        pytest.param({"resource": "memory"}, ["medium", "small", "large", "none"], id="by memory"),
    ],
)
def test_utilization_sort_uses_what_a_pod_requests(args: Object, evicted: list[str]) -> None:
    assert order(SIZES, sort=["UtilizationSort"], configs={"UtilizationSort": args}) == evicted


def test_deletion_cost_sort_sends_the_cheapest_first() -> None:
    pods = [
        failed("dear", annotations={COST: "100"}),
        failed("cheap", annotations={COST: "-100"}),
        failed("one", annotations={COST: "1"}),
        failed("free"),
    ]

    assert order(pods, sort=["DeletionCostSort"]) == ["cheap", "free", "one", "dear"]


@pytest.mark.parametrize("text", ["", "much", "1.5", "9223372036854775808"])
def test_a_cost_that_is_no_whole_number_counts_as_none(text: str) -> None:
    pods = [
        failed("odd", annotations={COST: text}),
        failed("cheap", annotations={COST: "-1"}),
        failed("dear", annotations={COST: "1"}),
    ]

    assert order(pods, sort=["DeletionCostSort"]) == ["cheap", "odd", "dear"]


MIXED = [
    failed("low-old", priority=0, age="3h"),
    failed("low-young", priority=0, age="1h"),
    failed("high-old", priority=9, age="4h"),
    failed("high-young", priority=9, age="2h"),
]


@pytest.mark.parametrize("pods", list(itertools.permutations(MIXED, 4))[::5])
def test_of_several_sorters_the_first_decides_and_the_next_breaks_ties(
    pods: tuple[Object, ...],
) -> None:
    by_priority_then_age = ["low-old", "low-young", "high-old", "high-young"]
    by_age_then_priority = ["high-old", "low-old", "high-young", "low-young"]

    assert order(list(pods), sort=["PrioritySort", "AgeSort"]) == by_priority_then_age
    assert order(list(pods), sort=["AgeSort", "PrioritySort"]) == by_age_then_priority
    assert order(list(pods), presort=["AgeSort"], sort=["PrioritySort"]) == by_priority_then_age


@pytest.mark.parametrize("strategy", ["PodLifeTime", "RemovePodsHavingTooManyRestarts"])
def test_the_sort_of_a_profile_takes_the_place_of_the_strategy_s_own(strategy: str) -> None:
    pods = [
        pod("a", age="3h", restarts=30, priority=2),
        pod("b", age="2h", restarts=20, priority=0),
        pod("c", age="1h", restarts=10, priority=1),
    ]

    assert order(pods, strategy=strategy) == ["a", "b", "c"]
    assert order(pods, strategy=strategy, sort=["PrioritySort"]) == ["b", "c", "a"]


@pytest.mark.parametrize("strategy", ["PodLifeTime", "RemovePodsHavingTooManyRestarts"])
def test_what_a_sort_leaves_undecided_falls_to_the_strategy_s_own_order(strategy: str) -> None:
    names = ["a", "b", "c", "d", "e"]
    pods = [pod(name, age=f"{9 - i}h", restarts=90 - i) for i, name in enumerate(names)]

    assert order(pods, strategy=strategy, sort=["PrioritySort"]) == names


@pytest.mark.parametrize("strategy", ["PodLifeTime", "RemovePodsHavingTooManyRestarts"])
def test_the_pre_sort_of_a_profile_only_breaks_the_ties_of_the_strategy_s_own(
    strategy: str,
) -> None:
    pods = [
        pod("a", age="3h", restarts=30, priority=9),
        pod("b", age="2h", restarts=20, priority=5),
        pod("c", age="2h", restarts=20, priority=7),
        pod("d", age="2h", restarts=20, priority=6),
    ]

    assert order(pods, strategy=strategy, presort=["PrioritySort"]) == ["a", "b", "d", "c"]


def test_sorters_have_no_effect_in_the_older_policy() -> None:
    pods = [pod("a", age="3h", priority=2), pod("b", age="2h", priority=0)]

    evicted = order(
        pods,
        strategy="PodLifeTime",
        sort=["PrioritySort"],
        presort=["PrioritySort"],
        api_version="descheduler/v1alpha2",
    )

    assert evicted == ["a", "b"]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"AgeSort": {"order": "Backwards"}}, id="order of AgeSort"),
        pytest.param({"UtilizationSort": {"order": "OldestFirst"}}, id="order of UtilizationSort"),
        pytest.param({"PrioritySort": {"order": "OldestFirst"}}, id="PrioritySort takes nothing"),
        pytest.param(
            {"DeletionCostSort": {"resource": "cpu"}}, id="DeletionCostSort takes nothing"
        ),
    ],
)
def test_arguments_of_sorters_are_checked(config: dict[str, Object]) -> None:
    with pytest.raises(PolicyError, match="args"):
        order([], sort=list(config), configs=config)
