"""A plan carried out move by move: every replacement finds its place, and nothing comes to harm."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from resettle.testing import Planned, World, plan_policy
from tests.oracle.clusters import cluster
from tests.oracle.objects import PREFERRED, REQUIRED, Object
from tests.oracle.scheduler import Oracle

CLUSTERS = 60
STRATEGIES: dict[str, tuple[str, dict[str, Any]]] = {
    "PodLifeTime": ("deschedule", {"maxPodLifeTimeSeconds": 2 * 86400}),
    "RemoveFailedPods": ("deschedule", {}),
    "RemovePodsHavingTooManyRestarts": (
        "deschedule",
        {"podRestartThreshold": 100, "includingInitContainers": True},
    ),
    "RemovePodsViolatingNodeTaints": ("deschedule", {"includePreferNoSchedule": True}),
    "RemovePodsViolatingNodeAffinity": (
        "deschedule",
        {"nodeAffinityType": [REQUIRED, PREFERRED]},
    ),
    "RemovePodsViolatingInterPodAntiAffinity": ("deschedule", {}),
    "RemoveDuplicates": ("balance", {}),
    "RemovePodsViolatingTopologySpreadConstraint": (
        "balance",
        {"constraints": ["DoNotSchedule", "ScheduleAnyway"]},
    ),
    "LowNodeUtilization": (
        "balance",
        {"thresholds": {"cpu": 20, "pods": 30}, "targetThresholds": {"cpu": 30, "pods": 50}},
    ),
    "HighNodeUtilization": ("balance", {"thresholds": {"cpu": 20, "memory": 20}}),
}
EVICTOR: dict[str, Any] = {
    "minReplicas": 1,
    "podProtections": {"defaultDisabled": ["PodsWithLocalStorage", "FailedBarePods"]},
}


def policy(*strategies: str) -> Object:
    """A policy with these strategies on and no limits."""
    enabled: dict[str, list[str]] = {"deschedule": [], "balance": []}
    config = [{"name": "DefaultEvictor", "args": EVICTOR}]
    for name in strategies:
        point, args = STRATEGIES[name]
        enabled[point].append(name)
        config.append({"name": name, "args": args})
    plugins = {point: {"enabled": names} for point, names in enabled.items()}
    return {
        "maxPercentOfPodsToEvict": 100,
        "maxPercentOfNodesToEvictFrom": 100,
        "profiles": [{"name": "test", "pluginConfig": config, "plugins": plugins}],
    }


def drawn(objects: list[Object], *strategies: str) -> Planned:
    """The plan that `resettle/v1` draws."""
    planned = plan_policy(policy(*strategies), World(objects), api_version="resettle/v1")
    assert planned.errors == []
    return planned


def complaints(objects: list[Object], planned: Planned) -> Iterator[str]:
    """What goes wrong when the moves of the plan are made one after another."""
    oracle = Oracle(objects)
    before = oracle.broken()
    for move in planned.plan.moves:
        # A finished pod is not replaced.
        if not move.pod.finished:
            if why := oracle.refuses(move.pod.key, move.lands_on):
                yield f"{move.pod.key} cannot land on {move.lands_on} ({move.plugin}): {why}"
            oracle.move(move.pod.key, move.lands_on)
    yield from sorted(oracle.broken() - before)


ALONE = [pytest.param((name,), id=name) for name in STRATEGIES]
TOGETHER = [
    pytest.param(
        tuple(strategy for strategy in STRATEGIES if strategy != left_out), id=f"all but {left_out}"
    )
    for left_out in ("HighNodeUtilization", "LowNodeUtilization", "PodLifeTime")
]


@pytest.mark.parametrize("strategies", [*ALONE, *TOGETHER])
def test_every_replacement_finds_its_place_and_nothing_breaks_that_held(
    strategies: tuple[str, ...],
) -> None:
    moves = 0
    problems: list[str] = []
    for seed in range(CLUSTERS):
        objects = cluster(Random(seed))
        planned = drawn(objects, *strategies)
        moves += len(planned.plan.moves)
        problems += (f"seed {seed}: {complaint}" for complaint in complaints(objects, planned))

    assert not problems, "\n".join(problems)
    assert moves > CLUSTERS // 10
