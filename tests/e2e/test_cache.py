"""The watch cache beside a real API server: pods come and go, and in the end both agree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from resettle.dumps.collection import list_cluster
from resettle.kube.auth.kubeconfig import read_kubeconfig
from resettle.kube.transport.client import Client
from resettle.kube.watch.cache import Cache
from resettle.model import Snapshot
from resettle.testing import NOW
from tests.e2e.cluster.workspace import PATIENCE_SECONDS, Room
from tests.kube.watch.harness import EVERYTHING, everything
from tools.control_plane.papers import ADMIN
from tools.control_plane.plane import Access

WAVES = (30, 5, 40, 0, 20)


@asynccontextmanager
async def watched(plane: Access, watch_seconds: int) -> AsyncIterator[Cache]:
    """A cache of all kinds, once it is synced."""
    access = read_kubeconfig(str(plane.papers.kubeconfig(ADMIN)))
    async with Client(access) as client:
        cache = Cache(access, client, EVERYTHING, watch_seconds=watch_seconds)
        running = asyncio.create_task(cache.run())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await cache.wait_for_sync()
            yield cache
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def fresh(plane: Access) -> Snapshot:
    access = read_kubeconfig(str(plane.papers.kubeconfig(ADMIN)))
    collection = await asyncio.to_thread(list_cluster, access, EVERYTHING)
    return collection.snapshot(NOW)


def test_after_waves_of_pods_the_cache_equals_a_fresh_list(plane: Access, room: Room) -> None:
    deployment = f"/apis/apps/v1/namespaces/{room.name}/deployments/web"

    async def agreed(cache: Cache) -> bool:
        mine: dict[str, Any] = everything(cache.snapshot(NOW))
        return mine == everything(await fresh(plane))

    async def story() -> None:
        async with watched(plane, watch_seconds=3) as cache:
            await asyncio.to_thread(room.deploy, "web", 10)
            for count in WAVES:
                patch = {"spec": {"replicas": count}}
                (await asyncio.to_thread(room.api.patch, deployment, patch)).granted()
                # A cycle may come at any time, in the middle of whatever happens.
                for _ in range(5):
                    cache.snapshot(NOW)
                    await asyncio.sleep(0.2)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(await asyncio.to_thread(room.ready)) != WAVES[-1]:
                    await asyncio.sleep(0.1)
                while not await agreed(cache):
                    await asyncio.sleep(0.1)
            mine = [it for it in cache.snapshot(NOW).pods if it.namespace == room.name]
            assert len(mine) == WAVES[-1]

    asyncio.run(story())


def test_a_kind_that_never_changes_is_known_to_be_current(plane: Access, room: Room) -> None:
    async def story() -> None:
        async with watched(plane, watch_seconds=4) as cache:
            before = cache.versions["PriorityClass"]
            await asyncio.to_thread(room.deploy, "web", 3)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while cache.versions["PriorityClass"] == before:
                    await asyncio.sleep(0.1)
            assert int(cache.versions["PriorityClass"]) > int(before)
            assert cache.age() < PATIENCE_SECONDS

    asyncio.run(story())
