"""Three ways to one API server, so that no kind of request waits behind another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from resettle.clock import Clock
from resettle.cluster.access import Access
from resettle.kube.transport.client import Client
from resettle.kube.transport.pacing import RateLimiter
from resettle.loop.settings import Settings
from resettle.loop.stop import HastyClock, Stop


class Clients(NamedTuple):
    """For watches and the lease, for evictions, for events."""

    free: Client
    paced: Client
    for_events: Client


@asynccontextmanager
async def clients_of(
    access: Access, settings: Settings, clock: Clock, stop: Stop
) -> AsyncIterator[Clients]:
    """The clients, open while the block lasts."""
    async with AsyncExitStack() as stack:

        async def client(clock: Clock, *, paced: bool) -> Client:
            held_back = paced and settings.qps >= 0
            limiter = RateLimiter(settings.qps, settings.burst, clock) if held_back else None
            return await stack.enter_async_context(Client(access, limiter, clock))

        yield Clients(
            await client(clock, paced=False),
            # Who waits for a turn when we are asked to stop shall find out at once.
            await client(HastyClock(clock, stop), paced=True),
            # Events are many and matter less: they never take a turn from an eviction.
            await client(clock, paced=True),
        )
