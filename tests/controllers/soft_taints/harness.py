"""A soft tainter in this process against a test API server, its clock wound by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from resettle.controllers.soft_taints.runner import (
    IGNORE_ROUNDS,
    RoundObserver,
    TaintSettings,
    soft_taint_runner,
)
from resettle.framework import default_registry
from resettle.kube.auth.access import Access
from resettle.log import Log
from resettle.runtime import ComponentRunner
from resettle.testing import ApiServer, node, pod
from tests.runtime.harness import PATIENCE_SECONDS, ComponentStage, run_component

Object = dict[str, Any]
INTERVAL = 20.0
KEY = "nodeutilization.descheduler.kubernetes.io/overutilized"
MARK = f"{KEY}=level1:PreferNoSchedule"
SOFT = {"key": KEY, "value": "level1", "effect": "PreferNoSchedule"}


def policy(
    *, version: str = "resettle/v1", profiles: Iterable[str] = ("relieve",), **more: Any
) -> Object:
    """A policy by which nodes are too full above 50% of their cpu, and too empty below 20%."""
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    return {
        "apiVersion": version,
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "name": name,
                "pluginConfig": [{"name": "LowNodeUtilization", "args": args}],
                "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
            }
            for name in profiles
        ],
        **more,
    }


def full(name: str, percent: int, *taints: Object, **more: Any) -> list[Object]:
    """A node that is so full, with the pod that fills it."""
    filled = node(name, cpu="10", **more).holding(pod(f"on-{name}", cpu=f"{percent * 100}m"))
    filled.node["spec"]["taints"] = list(taints)
    return [filled.node, *filled.pods]


class Stage(ComponentStage):
    """A tainter at work, and everything a test looks at."""

    def fill(self, name: str, percent: int) -> None:
        """Has the node's pod ask for another share of it."""
        self.server.store.put(full(name, percent)[1])

    def taints(self, name: str) -> list[str]:
        """The taints of a node, in its order, as kubectl writes them."""
        tainted = self.server.store.get("Node", name)
        assert tainted is not None
        return [
            f"{taint['key']}={taint['value']}:{taint['effect']}"
            if taint.get("value")
            else f"{taint['key']}:{taint['effect']}"
            for taint in tainted["spec"].get("taints") or ()
        ]

    @property
    def marked(self) -> list[str]:
        """The nodes with a taint of ours."""
        names = [item["metadata"]["name"] for item in self.server.store.list("Node")]
        return [name for name in names if MARK in self.taints(name)]

    @property
    def patched(self) -> list[str]:
        """The nodes that were written, in order."""
        patches = [request for request in self.server.requests if request.verb == "patch"]
        return [request.path.rpartition("/")[2] for request in patches]

    async def rounds(self, count: int) -> None:
        """Returns once so many rounds are over and the tainter rests."""
        await self.until(lambda: len(self.ends) >= count)
        await self.resting()

    async def next_round(self, after: float = INTERVAL) -> None:
        """Winds the clock to the next round, and returns when that is over."""
        before = len(self.ends)
        self.clock.advance(timedelta(seconds=after))
        await self.rounds(before + 1)

    async def comes_to(self, is_so: Callable[[], bool]) -> None:
        """Winds the clock until the condition holds: a change takes time to reach the cache."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not is_so():
                await self.next_round()

    @property
    def ends(self) -> list[str]:
        """The lines that end a round."""
        return [line for line in self.log if line.partition(" ")[2].startswith("round ")]


@asynccontextmanager
async def tainting(
    objects: Iterable[Object],
    document: Object | None = None,
    *,
    interval: float = INTERVAL,
    with_policy: bool = True,
    server: ApiServer | None = None,
    observer: RoundObserver = IGNORE_ROUNDS,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """A tainter over a cluster of these objects, until the block ends."""

    def build_runner(stage: Stage, access: Access) -> ComponentRunner:
        taint_settings = TaintSettings(
            policy_file=str(stage.file) if with_policy else None,
            interval=interval,
            identity="me",
            **settings,
        )
        log = Log.to(stage.log)
        return soft_taint_runner(
            taint_settings, access, default_registry(), stage.clock, log, observer
        )

    async with run_component(Stage, build_runner, objects, document or policy(), server) as stage:
        yield stage
