"""Plans carried out against a pocket server: a cache that watches it, hands that reach it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from resettle.errors import NotNow
from resettle.eviction.eviction_api import EvictionAPI
from resettle.eviction.executor import AT_ONCE, GatedClient, PlanExecutor
from resettle.eviction.in_flight import InFlightMoves
from resettle.eviction.pod_events import EventWriter
from resettle.framework import Mover, MoveResponse, MoveResult
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


def story(told: Coroutine[Any, Any, None]) -> None:
    """Runs what a test tells, and ends it if it hangs."""
    asyncio.run(asyncio.wait_for(told, PATIENCE_SECONDS))


class Rig:
    """All that it takes to carry out a plan, and what came of it."""

    def __init__(self, pocket: ApiServer, cache: Cache, client: Client, clock: ManualClock) -> None:
        self.pocket = pocket
        self.cache = cache
        self.clock = clock
        self.told: list[str] = []
        self.log = Log.to(self.told)
        self.stopped = False
        self.hands = GatedClient(client, self.may_act)
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
        at_once: int = AT_ONCE,
        **more: Any,
    ) -> PlanExecutor:
        return PlanExecutor(
            movers or {"daily": mover or EvictionAPI(self.hands)},
            live_pod=look or self.cache.pod,
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
        found = {it.name: it for it in snapshot.pods}
        moves = [to_leave(found[name]) for name in names]
        meanwhile()
        await caught_up(self.pocket, self.cache)
        return await (by or self.executor()).execute(moves, snapshot)

    @property
    def asked(self) -> list[str]:
        """Names of the pods that the server was asked to evict, in order."""
        paths = [it.path.split("/") for it in self.pocket.requests]
        return [path[-2] for path in paths if path[-1] == "eviction"]

    @property
    def leaving(self) -> set[str]:
        """Names of the pods that the server shows as leaving."""
        metas = [it["metadata"] for it in self.pocket.store.list("Pod")]
        return {it["name"] for it in metas if it.get("deletionTimestamp")}


@asynccontextmanager
async def rigged(
    world: World, pace: Callable[[ManualClock], RateLimiter] | None = None
) -> AsyncIterator[Rig]:
    """A rig for a pocket server with this world in it."""
    clock = ManualClock()
    async with ApiServer(world.objects) as pocket, watched(pocket, BUDGETS) as cache:
        held = pace(clock) if pace else None
        async with Client(Access(server=pocket.url), held, Hurried()) as client:
            rig = Rig(pocket, cache, client, clock)
            cache.add_listener(rig.ledger.on_pod_change)
            yield rig


def endings(outcomes: list[MoveResponse]) -> list[MoveResult]:
    return [outcome.result for outcome in outcomes]
