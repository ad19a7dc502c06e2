"""Plans carried out against the test API server: a cache watches it, a client reaches it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from resettle.errors import NotNow
from resettle.eviction.eviction_api import EvictionAPI
from resettle.eviction.evictor import FreshView, LiveEvictor
from resettle.eviction.executor import AT_ONCE, GatedClient, PlanExecutor
from resettle.eviction.in_flight import InFlightMoves
from resettle.eviction.pod_events import EventWriter
from resettle.framework import Instance, Mover, MoveResponse, MoveResult, Profile, View
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.kube.transport.pacing import RateLimiter
from resettle.kube.watch.cache import Cache
from resettle.log import Log
from resettle.model.pod import Pod
from resettle.testing import NOW, ApiServer, ManualClock, World
from tests.eviction.builders import to_leave
from tests.kube.watch.harness import Hurried, caught_up, watched

PATIENCE_SECONDS = 30
BUDGETS = frozenset({"PodDisruptionBudget"})


def run_with_timeout(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine, and fails if it hangs."""
    asyncio.run(asyncio.wait_for(scenario, PATIENCE_SECONDS))


class Rig:
    """All that it takes to carry out a plan, and what came of it."""

    def __init__(self, server: ApiServer, cache: Cache, client: Client, clock: ManualClock) -> None:
        self.server = server
        self.cache = cache
        self.clock = clock
        self.log_lines: list[str] = []
        self.log = Log.to(self.log_lines)
        self.stopped = False
        self.gated_client = GatedClient(client, self.may_act)
        self.fresh_view = FreshView(lambda: View(cache.snapshot(NOW)), cache, self.clock)
        self.ledger = InFlightMoves(cache.pod, self.clock, self.log)
        self.recorder = EventWriter(client, "tester", self.clock, self.log)

    def may_act(self) -> None:
        if self.stopped:
            raise NotNow("asked to stop")

    def executor(
        self,
        mover: Mover | None = None,
        *,
        movers: Mapping[str, Mover] | None = None,
        look: Callable[[str, str], Pod | None] | None = None,
        filters: tuple[Instance, ...] = (),
        at_once: int = AT_ONCE,
        **more: Any,
    ) -> PlanExecutor:
        chosen = movers or {"daily": mover or EvictionAPI()}
        evictor = LiveEvictor(
            Profile(name="daily", filters=filters), self.fresh_view, look or self.cache.pod
        )
        return PlanExecutor(
            chosen,
            evictors=dict.fromkeys(chosen, evictor),
            client=self.gated_client,
            may_act=self.may_act,
            in_flight=self.ledger,
            event_writer=self.recorder,
            log=self.log,
            at_once=at_once,
            **more,
        )

    async def carried_out(
        self,
        *names: str,
        by: PlanExecutor | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[MoveResponse]:
        """What becomes of moving these pods; `meanwhile` happens after the plan was drawn."""
        snapshot = self.cache.snapshot(NOW)
        pods_by_name = {pod.name: pod for pod in snapshot.pods}
        moves = [to_leave(pods_by_name[name]) for name in names]
        meanwhile()
        await caught_up(self.server, self.cache)
        return await (by or self.executor()).execute(moves, snapshot)

    @property
    def asked(self) -> list[str]:
        """Names of the pods that the server was asked to evict, in order."""
        paths = [request.path.split("/") for request in self.server.requests]
        return [path[-2] for path in paths if path[-1] == "eviction"]

    @property
    def leaving(self) -> set[str]:
        """Names of the pods that the server shows as leaving."""
        metas = [item["metadata"] for item in self.server.store.list("Pod")]
        return {meta["name"] for meta in metas if meta.get("deletionTimestamp")}


@asynccontextmanager
async def rigged(
    world: World, pace: Callable[[ManualClock], RateLimiter] | None = None
) -> AsyncIterator[Rig]:
    """A rig for a test API server with this world in it."""
    clock = ManualClock()
    async with ApiServer(world.objects) as server, watched(server, BUDGETS) as cache:
        held = pace(clock) if pace else None
        async with Client(Access(server=server.url), held, Hurried()) as client:
            rig = Rig(server, cache, client, clock)
            cache.add_listener(rig.ledger.on_pod_change)
            yield rig


def endings(outcomes: list[MoveResponse]) -> list[MoveResult]:
    return [outcome.result for outcome in outcomes]
