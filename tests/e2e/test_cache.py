"""The watch cache on a real API server: pods are created and deleted, and in the end both agree."""

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
from tests.e2e.cluster.workspace import TIMEOUT_SECONDS, Workspace
from tests.kube.watch.harness import EVERYTHING, everything
from tools.control_plane.papers import ADMIN
from tools.control_plane.plane import Access

WAVES = (30, 5, 40, 0, 20)


@asynccontextmanager
async def synced_cache(plane: Access, watch_seconds: int) -> AsyncIterator[Cache]:
    """Runs a cache of all kinds while the block lasts; yields it once it is synced."""
    access = read_kubeconfig(str(plane.papers.kubeconfig(ADMIN)))
    async with Client(access) as client:
        cache = Cache(access, client, EVERYTHING, watch_seconds=watch_seconds)
        running = asyncio.create_task(cache.run())
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await cache.wait_for_sync()
            yield cache
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def list_snapshot(plane: Access) -> Snapshot:
    access = read_kubeconfig(str(plane.papers.kubeconfig(ADMIN)))
    collection = await asyncio.to_thread(list_cluster, access, EVERYTHING)
    return collection.snapshot(NOW)


def test_after_waves_of_pods_the_cache_equals_a_fresh_list(
    plane: Access, workspace: Workspace
) -> None:
    deployment = f"/apis/apps/v1/namespaces/{workspace.name}/deployments/web"

    async def is_up_to_date(cache: Cache) -> bool:
        cached: dict[str, Any] = everything(cache.snapshot(NOW))
        return cached == everything(await list_snapshot(plane))

    async def scenario() -> None:
        async with synced_cache(plane, watch_seconds=3) as cache:
            await asyncio.to_thread(workspace.deploy, "web", 10)
            for count in WAVES:
                patch = {"spec": {"replicas": count}}
                (await asyncio.to_thread(workspace.api.patch, deployment, patch)).granted()
                # A cycle may take a snapshot at any time.
                for _ in range(5):
                    cache.snapshot(NOW)
                    await asyncio.sleep(0.2)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while len(await asyncio.to_thread(workspace.list_ready_pods)) != WAVES[-1]:
                    await asyncio.sleep(0.1)
                while not await is_up_to_date(cache):
                    await asyncio.sleep(0.1)
            cached = [pod for pod in cache.snapshot(NOW).pods if pod.namespace == workspace.name]
            assert len(cached) == WAVES[-1]

    asyncio.run(scenario())


def test_a_kind_that_never_changes_is_known_to_be_current(
    plane: Access, workspace: Workspace
) -> None:
    async def scenario() -> None:
        async with synced_cache(plane, watch_seconds=4) as cache:
            before = cache.versions["PriorityClass"]
            await asyncio.to_thread(workspace.deploy, "web", 3)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while cache.versions["PriorityClass"] == before:
                    await asyncio.sleep(0.1)
            assert int(cache.versions["PriorityClass"]) > int(before)
            assert cache.age() < TIMEOUT_SECONDS

    asyncio.run(scenario())
