"""Random policies of `resettle/v1` with strategies that look for a better node."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from resettle.testing.builders import Object

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
DESCHEDULE: dict[str, Sequence[Object]] = {
    "RemovePodsViolatingNodeTaints": ({}, {"includePreferNoSchedule": True}),
    "RemovePodsViolatingNodeAffinity": (
        {"nodeAffinityType": [REQUIRED]},
        {"nodeAffinityType": [REQUIRED, PREFERRED]},
    ),
    "RemovePodsViolatingInterPodAntiAffinity": ({},),
}
BALANCE: dict[str, Sequence[Object]] = {
    SPREAD: ({}, {"constraints": ["DoNotSchedule", "ScheduleAnyway"]}),
    "RemoveDuplicates": ({},),
    "LowNodeUtilization": (
        {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}},
        {
            "thresholds": {"cpu": 10, "memory": 10},
            "targetThresholds": {"cpu": 10, "memory": 10},
            "useDeviationThresholds": True,
        },
    ),
}
"""The strategies that look for a better node; others only recreate a pod, on any node."""


def random_policy(rng: Random) -> Object:
    """A random policy with most of the strategies."""
    config, enabled = [], {}
    for point, table in (("deschedule", DESCHEDULE), ("balance", BALANCE)):
        names = [name for name in table if rng.random() < 0.8] or list(table)
        enabled[point] = {"enabled": names}
        config += [{"name": name, "args": rng.choice(table[name])} for name in names]
    return {
        "apiVersion": "resettle/v1",
        "kind": "DeschedulerPolicy",
        "maxPercentOfPodsToEvict": rng.choice([20, 50, 100, 100]),
        "maxPercentOfNodesToEvictFrom": 100,
        "profiles": [{"name": "tidy", "pluginConfig": config, "plugins": enabled}],
    }
