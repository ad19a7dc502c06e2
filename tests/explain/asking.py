"""Small policies and worlds to ask about, in the words an operator would write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from resettle.explain.cycle import CycleAnswer, explain_cycle
from resettle.explain.node import NodeAnswer, explain_node
from resettle.explain.pod import PodAnswer, Word, explain_pod
from resettle.explain.stage import Stage
from resettle.framework import (
    Descheduler,
    Registry,
    assembled,
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
    return assembled(read, plugins)


def about_pod(descheduler: Descheduler, world: World, key: str = "default/it") -> PodAnswer:
    """The answer about a pod of the world."""
    snapshot = world.snapshot()
    pod = snapshot.pod(*key.split("/"))
    assert pod is not None
    return explain_pod(Stage(descheduler, snapshot), pod)


def only_word(answer: PodAnswer) -> Word:
    """What the one plugin said."""
    (word,) = answer.words
    return word


def about_node(descheduler: Descheduler, world: World, name: str) -> NodeAnswer:
    """The answer about a node of the world."""
    snapshot = world.snapshot()
    node = snapshot.fleet.get(name)
    assert node is not None
    return explain_node(Stage(descheduler, snapshot), node)


def about_cycle(descheduler: Descheduler, world: World) -> CycleAnswer:
    """The answer about the whole cycle."""
    return explain_cycle(Stage(descheduler, world.snapshot()))
