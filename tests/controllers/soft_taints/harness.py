"""A soft tainter in this process against a pocket API server, its clock wound by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from resettle.controllers.soft_taints.runner import (
    IGNORE_ROUNDS,
    RoundObserver,
    TaintSettings,
    soft_taint_runner,
)
from resettle.framework import default_registry
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.log import Log
from resettle.runtime import ComponentRunner
from resettle.testing import ApiServer, ManualClock, node, pod

Object = dict[str, Any]
INTERVAL = 20.0
PATIENCE_SECONDS = 20
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


class Stage:
    """A tainter at work, and everything a test looks at."""

    def __init__(self, server: ApiServer, clock: ManualClock, file: Path) -> None:
        self.server, self.clock, self.file = server, clock, file
        self.log: list[str] = []
        self.tainter: ComponentRunner
        self.working: asyncio.Task[int]

    def write(self, document: Object | str) -> None:
        """Puts a policy into the file that the tainter reads."""
        self.file.write_text(document if isinstance(document, str) else json.dumps(document))

    def fill(self, name: str, percent: int) -> None:
        """Has the node's pod ask for another share of it."""
        self.server.store.put(full(name, percent)[1])

    def taints(self, name: str) -> list[str]:
        """The taints of a node, in its order, as kubectl writes them."""
        found = self.server.store.get("Node", name)
        assert found is not None
        return [
            f"{it['key']}={it['value']}:{it['effect']}"
            if it.get("value")
            else f"{it['key']}:{it['effect']}"
            for it in found["spec"].get("taints") or ()
        ]

    @property
    def marked(self) -> list[str]:
        """The nodes with a taint of ours."""
        names = [it["metadata"]["name"] for it in self.server.store.list("Node")]
        return [name for name in names if MARK in self.taints(name)]

    @property
    def patched(self) -> list[str]:
        """The nodes that were written, in order."""
        return [it.path.rpartition("/")[2] for it in self.server.requests if it.verb == "patch"]

    def told(self, event: str) -> list[str]:
        """The lines of the log that speak of an event."""
        return [line for line in self.log if line.partition(" ")[2].startswith(event)]

    async def rounds(self, count: int) -> None:
        """Returns once so many rounds are over and the tainter rests."""
        await self.until(lambda: len(self.ends) >= count)
        await self.until(lambda: self.working.done() or self.clock.sleepers > 0)

    async def next_round(self, after: float = INTERVAL) -> None:
        """Winds the clock to the next round, and returns when that is over."""
        before = len(self.ends)
        self.clock.advance(timedelta(seconds=after))
        await self.rounds(before + 1)

    async def comes_to(self, so: Callable[[], bool]) -> None:
        """Winds the clock round after round until it is so: what changed has to be heard first."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not so():
                await self.next_round()

    async def until(self, so: Callable[[], bool]) -> None:
        """Returns once it is so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not so():
                await asyncio.sleep(0.002)

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
    clock = ManualClock()
    with (
        server or ApiServer(objects, clock=clock) as pocket,
        TemporaryDirectory() as name,
    ):
        folder = Path(name)
        stage = Stage(pocket, clock, folder / "policy.json")
        stage.write(document or policy())
        access = read_kubeconfig(str(pocket.kubeconfig(folder / "kubeconfig")))
        chosen = TaintSettings(
            policy_file=str(stage.file) if with_policy else None,
            interval=interval,
            identity="me",
            **settings,
        )
        log = Log.to(stage.log)
        stage.tainter = soft_taint_runner(chosen, access, default_registry(), clock, log, observer)
        stage.working = asyncio.create_task(stage.tainter.run())
        try:
            yield stage
        finally:
            stage.tainter.stop()
            await asyncio.gather(stage.working, return_exceptions=True)
