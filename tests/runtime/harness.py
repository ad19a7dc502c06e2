"""A runner in this process against a test API server, with a clock that is wound by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from resettle.cycle import CycleObserver
from resettle.framework import Plugin, Registry, default_registry
from resettle.framework.tracing import NO_SPANS, Spans
from resettle.kube.auth.access import Access
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.log import Log
from resettle.runtime import ComponentRunner, RunSettings, descheduling_runner
from resettle.runtime.status import IGNORE_RUN, RunObserver
from resettle.testing import ApiServer, ManualClock

Object = dict[str, Any]
INTERVAL = 20.0
"""Short enough for many cycles before watches that are silent by this clock are distrusted."""
PATIENCE_SECONDS = 20


def policy(
    *enabled: str,
    version: str = "descheduler/v1alpha2",
    configs: Iterable[Object] = (),
    evict: Object | None = None,
    **more: Any,
) -> Object:
    """A policy of one profile that deschedules with these plugins, old pods by default."""
    lifetime = {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 3600}}
    plugins: Object = {"deschedule": {"enabled": list(enabled or ["PodLifeTime"])}}
    if evict:
        plugins["evict"] = evict
    profile = {"name": "main", "pluginConfig": [*(configs or [lifetime])], "plugins": plugins}
    return {"apiVersion": version, "kind": "DeschedulerPolicy", "profiles": [profile], **more}


class ComponentStage:
    """A component at work, and what the tests of every component look at."""

    def __init__(self, server: ApiServer, clock: ManualClock, file: Path) -> None:
        self.server, self.clock, self.file = server, clock, file
        self.log: list[str] = []
        self.runner: ComponentRunner
        self.working: asyncio.Task[int]

    def write(self, document: Object | str) -> None:
        """Puts a policy into the file that the component reads."""
        self.file.write_text(document if isinstance(document, str) else json.dumps(document))

    def log_lines(self, event: str) -> list[str]:
        """The lines of the log about an event."""
        return [line for line in self.log if line.partition(" ")[2].startswith(event)]

    async def resting(self) -> None:
        """Returns once the component waits for its next turn."""
        await self.until(lambda: self.working.done() or self.clock.sleepers > 0)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Returns once the condition holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not is_so():
                await asyncio.sleep(0.002)


class Stage(ComponentStage):
    """A descheduling runner at work, and everything a test looks at."""

    @property
    def evictions(self) -> list[str]:
        """The pods that were asked to leave, in order."""
        paths = [request.path for request in self.server.requests]
        return [path.split("/")[-2] for path in paths if path.endswith("/eviction")]

    async def cycles(self, count: int) -> None:
        """Returns once so many cycles are over and the runner rests."""
        await self.until(lambda: len(self._ends) >= count)
        await self.resting()

    async def next_cycle(self) -> None:
        """Winds the clock to the next cycle, and returns when that is over."""
        before = len(self._ends)
        self.clock.advance(timedelta(seconds=INTERVAL))
        await self.cycles(before + 1)

    @property
    def _ends(self) -> list[str]:
        ends = ("cycle done", "cycle skipped", "cycle failed")
        return [line for line in self.log if any(f" {end}" in line for end in ends)]


AnyStage = TypeVar("AnyStage", bound=ComponentStage)


@asynccontextmanager
async def run_component(
    make_stage: Callable[[ApiServer, ManualClock, Path], AnyStage],
    build_runner: Callable[[AnyStage, Access], ComponentRunner],
    objects: Iterable[Object],
    document: Object,
    server: ApiServer | None = None,
) -> AsyncIterator[AnyStage]:
    """A component over a cluster of these objects, with this policy, until the block ends."""
    clock = ManualClock()
    with (
        server or ApiServer(objects, clock=clock) as api_server,
        TemporaryDirectory() as name,
    ):
        folder = Path(name)
        stage = make_stage(api_server, clock, folder / "policy.json")
        stage.write(document)
        access = read_kubeconfig(str(api_server.kubeconfig(folder / "kubeconfig")))
        stage.runner = build_runner(stage, access)
        stage.working = asyncio.create_task(stage.runner.run())
        try:
            yield stage
        finally:
            stage.runner.stop()
            await asyncio.gather(stage.working, return_exceptions=True)


@asynccontextmanager
async def running(
    objects: Iterable[Object],
    document: Object | None = None,
    *,
    plugins: Iterable[Plugin] = (),
    interval: float = INTERVAL,
    server: ApiServer | None = None,
    observers: Sequence[CycleObserver] = (),
    run_observer: RunObserver = IGNORE_RUN,
    spans: Spans = NO_SPANS,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """A runner over a cluster of these objects, until the block ends."""

    def build_runner(stage: Stage, access: Access) -> ComponentRunner:
        registry = Registry([*default_registry().values(), *plugins])
        run_settings = RunSettings(
            policy_file=str(stage.file), interval=interval, qps=-1, identity="me", **settings
        )
        log = Log.to(stage.log)
        return descheduling_runner(
            run_settings, access, registry, stage.clock, log, observers, run_observer, spans
        )

    async with run_component(Stage, build_runner, objects, document or policy(), server) as stage:
        yield stage
