"""Worlds of built objects, and plans over them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import structs

from resettle.dumps.reader import Dump
from resettle.framework.descheduler import build_descheduler
from resettle.framework.plan import Plan
from resettle.framework.plugin import Plugin
from resettle.framework.registry import Registry, default_registry
from resettle.framework.view import View
from resettle.model.kinds import Kind
from resettle.model.selectors import EVERYTHING, Selector
from resettle.model.semantics import IMPROVED, Semantics
from resettle.model.snapshot import Snapshot
from resettle.policy.load import load_policy
from resettle.testing.builders import NOW, NodeBuilder, Object


class World:
    """A cluster made of built objects."""

    def __init__(self, objects: Iterable[Object], now: datetime = NOW) -> None:
        self.objects = list(objects)
        self.now = now

    def snapshot(
        self,
        *,
        history: Mapping[tuple[str, str], Any] | None = None,
        kinds: Iterable[Kind] = (),
        reads: frozenset[str] | None = None,
    ) -> Snapshot:
        """The world as a snapshot, read as a dump would be; all of it, or what plugins read."""
        dump = Dump(kinds, reads)
        items = {"apiVersion": "v1", "kind": "List", "items": self.objects}
        dump.add(json.dumps(items).encode(), "world")
        return dump.snapshot(self.now, history)

    def view(self, semantics: Semantics = IMPROVED, node_selector: Selector = EVERYTHING) -> View:
        """The world as a filter or a sorter of a policy with these semantics reads it."""
        return View(self.snapshot(), semantics, node_selector)


def cluster(*parts: NodeBuilder | Object, now: datetime = NOW) -> World:
    """A world of nodes with what they hold, and any other objects beside them."""
    objects: list[Object] = []
    for part in parts:
        objects += [part.node, *part.pods] if isinstance(part, NodeBuilder) else [part]
    return World(objects, now)


class Planned:
    """A plan, and short ways to ask it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @property
    def evicts(self) -> list[str]:
        """Names of the pods to move, in order."""
        return [move.pod.name for move in self.plan.moves]

    @property
    def refused(self) -> dict[str, int]:
        """Refusals by code."""
        return self.plan.refused

    @property
    def stopped(self) -> list[str]:
        """Codes of why plugins stopped or had nothing to do."""
        return [run.stopped.code for run in self.plan.runs if run.stopped]

    @property
    def errors(self) -> list[str]:
        """What plugins failed with."""
        return list(self.plan.errors)


def plan(
    plugin: Plugin,
    world: World,
    /,
    *,
    evictor: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    history: Mapping[tuple[str, str], Any] | None = None,
    watching: Iterable[str] = (),
    api_version: str = "descheduler/v1alpha2",
    semantics: Semantics | None = None,
    **args: Any,
) -> Planned:
    """What one strategy would do with these arguments, as an operator would write them.

    `evictor` holds DefaultEvictor's arguments, `policy` top-level keys such as the limits.
    `semantics` replaces what the apiVersion stands for.
    """
    point = "deschedule" if plugin.deschedule else "balance"
    profile = {
        "name": "test",
        "pluginConfig": [
            {"name": "DefaultEvictor", "args": dict(evictor or {})},
            {"name": plugin.name, "args": args},
        ],
        "plugins": {point: {"enabled": [plugin.name]}},
    }
    document = {"profiles": [profile], **(policy or {})}
    installed = default_registry()
    others = [installed[name] for name in installed if name != plugin.name]
    return plan_policy(
        document,
        world,
        registry=Registry([*others, plugin]),
        history=history,
        watching=watching,
        api_version=api_version,
        semantics=semantics,
    )


def plan_policy(
    document: Mapping[str, Any],
    world: World,
    *,
    registry: Registry | None = None,
    history: Mapping[tuple[str, str], Any] | None = None,
    watching: Iterable[str] = (),
    api_version: str = "descheduler/v1alpha2",
    semantics: Semantics | None = None,
) -> Planned:
    """What a whole policy would do; apiVersion and kind are filled in."""
    plugins = registry or default_registry()
    header = {"apiVersion": api_version, "kind": "DeschedulerPolicy"}
    policy = load_policy(json.dumps({**header, **document}), name="policy", plugins=plugins)
    kinds = [kind for name in plugins for kind in plugins[name].kinds]
    planner = build_descheduler(policy, plugins)
    if semantics is not None:
        planner = structs.replace(planner, semantics=semantics)
    snapshot = world.snapshot(history=history, kinds=kinds, reads=planner.reads)
    return Planned(planner.draw_plan(snapshot, watching=watching))
