"""Small policies and worlds to ask about, in the words an operator would write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from resettle.cli.text.explain_pod import pod_text
from resettle.cli.text.plan import Paint
from resettle.explain.cycle import CycleAnswer, explain_cycle
from resettle.explain.node import NodeAnswer, explain_node
from resettle.explain.pod import PluginDecision, PodAnswer, explain_pod
from resettle.explain.what_if import PlanInputs
from resettle.framework import (
    Descheduler,
    Registry,
    build_descheduler,
    default_registry,
    load_policy,
)
from resettle.testing import World

BALANCING = (
    "HighNodeUtilization",
    "LowNodeUtilization",
    "RemoveDuplicates",
    "RemovePodsViolatingTopologySpreadConstraint",
)
OURS = "resettle/v1"
THEIRS = "descheduler/v1alpha2"


def policy(
    plugin: str,
    args: Mapping[str, Any] | None = None,
    *,
    evictor: Mapping[str, Any] | None = None,
    api_version: str = THEIRS,
    registry: Registry | None = None,
    point: str = "",
    **top: Any,
) -> Descheduler:
    """A policy of one strategy; `top` holds top-level keys such as the limits."""
    plugins = registry or default_registry()
    where = point or ("balance" if plugin in BALANCING else "deschedule")
    profile = {
        "name": "test",
        "pluginConfig": [
            {"name": "DefaultEvictor", "args": dict(evictor or {})},
            {"name": plugin, "args": dict(args or {})},
        ],
        "plugins": {where: {"enabled": [plugin]}},
    }
    document = {"apiVersion": api_version, "kind": "DeschedulerPolicy", "profiles": [profile]}
    read = load_policy(json.dumps({**document, **top}), name="policy", plugins=plugins)
    return build_descheduler(read, plugins)


def about_pod(descheduler: Descheduler, world: World, key: str = "default/it") -> PodAnswer:
    """The answer about a pod of the world."""
    snapshot = world.snapshot()
    pod = snapshot.pod(*key.split("/"))
    assert pod is not None
    return explain_pod(PlanInputs(descheduler, snapshot), pod)


def only_decision(answer: PodAnswer) -> PluginDecision:
    """What the only plugin decided."""
    (decision,) = answer.decisions
    return decision


def hints(world: World, **more: Any) -> list[str]:
    """The hints at the end of the answer about `default/it`, which is too old, each on one line."""
    answer = about_pod(policy("PodLifeTime", {"maxPodLifeTimeSeconds": 60}, **more), world)
    text = pod_text(answer, Paint(False), 1000)
    return [line.removeprefix("hint: ") for line in text.splitlines() if line.startswith("hint")]


def about_node(descheduler: Descheduler, world: World, name: str) -> NodeAnswer:
    """The answer about a node of the world."""
    snapshot = world.snapshot()
    node = snapshot.node_index.get(name)
    assert node is not None
    return explain_node(PlanInputs(descheduler, snapshot), node)


def about_cycle(descheduler: Descheduler, world: World) -> CycleAnswer:
    """The answer about the whole cycle."""
    return explain_cycle(PlanInputs(descheduler, world.snapshot()))
