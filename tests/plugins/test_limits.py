"""What every strategy does at a limit of the cycle: one contract for all of them.

Each strategy meets a cluster in which it would move three pods off each of two nodes, all pods in
one namespace. The total ends the strategy; a limit of a node ends the work on that node; a limit
of a namespace refuses pod by pod.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from resettle.framework import default_registry
from resettle.testing import (
    Planned,
    World,
    cluster,
    node,
    node_metrics,
    plan,
    pod,
    pod_metrics,
    spread,
)
from resettle.testing.builders import Object
from tests.plugins.builders import NO_LIMITS, NO_MINIMUM

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HAS_DISK = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
REQUIRES_DISK = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [HAS_DISK]}}}
PREFERS_DISK = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": HAS_DISK}]}}
DISK = node("c", labels={"disk": "ssd"})
DB = {"app": "db"}
NO_DB = {"labelSelector": {"matchLabels": DB}, "topologyKey": "kubernetes.io/hostname"}
APP = {"app": "web"}


class Strategy(NamedTuple):
    """A strategy with a cluster in which it moves six pods, and how it differs from most."""

    name: str
    world: World
    args: dict[str, Any] = {}
    api_version: str = "descheduler/v1alpha2"
    asks: int = 6
    """How many pods it proposes where each is refused."""
    skips_pods: bool = False
    """Whether it goes on with the other pods of a node that is at its limit."""


def pods(names: str, **fields: Any) -> list[Object]:
    return [pod(name, **fields) for name in names]


def load(prefix: str, count: int) -> list[Object]:
    """Pods that ask for a tenth of a node's cpu each."""
    return [pod(f"{prefix}-{i}", cpu="400m") for i in range(count)]


def two_nodes(marks: dict[str, Any] | None = None, **fields: Any) -> World:
    """Nodes a and b, which are marked so and hold three pods with these fields each."""
    return cluster(
        node("a", **(marks or {})).holding(*pods("pqr", **fields)),
        node("b", **(marks or {})).holding(*pods("xyz", **fields)),
        DISK,
    )


def near_a_database() -> World:
    affinity = {"podAntiAffinity": {REQUIRED: [NO_DB]}}
    return cluster(
        node("a").holding(*pods("pqr", affinity=affinity), pod("db-a", labels=DB)),
        node("b").holding(*pods("xyz", affinity=affinity), pod("db-b", labels=DB)),
    )


def copies(*counts: int) -> World:
    """Nodes with so many pods of one owner each."""
    return cluster(
        *(
            node(f"n{i}").holding(*(pod(f"web-{i}-{j}") for j in range(count)))
            for i, count in enumerate(counts)
        )
    )


def zones(**counts: int) -> World:
    """Zones of one node with so many pods each, which have to be spread."""
    fields: dict[str, Any] = {"labels": APP, "spread": [spread(labels=APP)]}
    return cluster(
        *(
            node(name, zone=name).holding(*(pod(f"{name}-{i}", **fields) for i in range(count)))
            for name, count in counts.items()
        )
    )


def hot_nodes() -> World:
    """Nodes a and b, where each of three pods uses much, and cold ones."""
    return cluster(
        *(
            node(name, cpu="10").holding(
                pod(f"ballast-{name}", cpu="8", owner="DaemonSet/ballast"),
                *(pod(f"{name}-{i}", cpu="100m", owner=f"ReplicaSet/{name}-{i}") for i in range(3)),
            )
            for name in "ab"
        ),
        *(node_metrics(name, cpu="9") for name in "ab"),
        *(pod_metrics(f"{name}-{i}", cpu="1") for name in "ab" for i in range(3)),
        *(node(name, cpu="10") for name in "cd"),
        *(node_metrics(name, cpu="0") for name in "cd"),
    )


STRATEGIES = [
    Strategy(
        "HighNodeUtilization",
        cluster(
            node("a").holding(*load("a", 3)),
            node("b").holding(*load("b", 3)),
            node("c", cpu="6").holding(*load("c", 5)),
        ),
        {"thresholds": {"cpu": 31}},
    ),
    Strategy(
        "LowNodeLoad",
        hot_nodes(),
        {
            "lowThresholds": {"cpu": 30},
            "highThresholds": {"cpu": 60},
            "anomalyCondition": {"consecutiveAbnormalities": 1},
        },
        api_version="resettle/v1",
    ),
    Strategy(
        "LowNodeUtilization",
        cluster(
            node("a").holding(*load("a", 8)),
            node("b").holding(*load("b", 8)),
            node("c", cpu="40"),
        ),
        {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}},
        asks=16,
    ),
    Strategy("PodLifeTime", two_nodes(), {"maxPodLifeTimeSeconds": 60}, skips_pods=True),
    Strategy("RemoveDuplicates", copies(5, 5, 0, 0, 0)),
    Strategy("RemoveFailedPods", two_nodes(phase="Failed")),
    Strategy("RemovePodsHavingTooManyRestarts", two_nodes(restarts=9), {"podRestartThreshold": 5}),
    Strategy("RemovePodsViolatingInterPodAntiAffinity", near_a_database()),
    Strategy(
        "RemovePodsViolatingNodeAffinity",
        two_nodes(affinity=REQUIRES_DISK),
        {"nodeAffinityType": [REQUIRED]},
    ),
    Strategy(
        "RemovePodsViolatingNodeAffinity",
        two_nodes(affinity=PREFERS_DISK),
        {"nodeAffinityType": [PREFERRED]},
    ),
    Strategy("RemovePodsViolatingNodeTaints", two_nodes({"taints": ["a:NoSchedule"]})),
    Strategy("RemovePodsViolatingTopologySpreadConstraint", zones(a=9, b=9, c=0)),
]


def expected(strategy: Strategy, limit: str, number: int) -> tuple[int, dict[str, int], list[str]]:
    """How many pods leave, what is refused how often, and what ended the strategy."""
    if limit == "Total":
        return number, {"limit-total": 1}, ["limit-total"]
    if limit == "PerNode":
        leave = 2 * number
        return leave, {"limit-node": strategy.asks - leave if strategy.skips_pods else 2}, []
    return number, {"limit-namespace": strategy.asks - number}, []


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("limit", ["Total", "PerNode", "PerNamespace"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_each_limit_ends_a_strategy_in_its_own_manner(
    strategy: Strategy, limit: str, number: int
) -> None:
    planned = _planned(strategy, {f"maxNoOfPodsToEvict{limit}": number})

    seen = len(planned.evicts), planned.refused, planned.stopped
    assert seen == expected(strategy, limit, number)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_without_a_limit_six_pods_leave(strategy: Strategy) -> None:
    planned = _planned(strategy, {})

    assert (len(planned.evicts), planned.refused, planned.stopped) == (6, {}, [])


def test_every_strategy_is_held_to_the_contract() -> None:
    plugins = default_registry()
    strategies = {name for name in plugins if plugins[name].deschedule or plugins[name].balance}

    assert {strategy.name for strategy in STRATEGIES} == strategies


def _planned(strategy: Strategy, limits: dict[str, int]) -> Planned:
    ours = strategy.api_version == "resettle/v1"
    return plan(
        default_registry()[strategy.name],
        strategy.world,
        evictor=NO_MINIMUM if ours else None,
        policy={**(NO_LIMITS if ours else {}), **limits},
        api_version=strategy.api_version,
        **strategy.args,
    )
