"""A cache that watches a test API server, from `async with` to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct, structs

from resettle.clock import Clock, SystemClock
from resettle.dumps.collection import list_cluster
from resettle.framework import Kind
from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.kube.watch.cache import Cache
from resettle.log import QUIET, Log
from resettle.model import Snapshot
from resettle.model.kinds import KINDS
from resettle.model.pod import CONDITIONS
from resettle.testing import NOW, ApiServer
from tests.model.test_changes import shape

PATIENCE_SECONDS = 20
EVERYTHING = frozenset({*KINDS, CONDITIONS})


class Hurried(SystemClock):
    """Time passes as it does, but no sleep is long."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.002))


class Meta(Struct, frozen=True):
    name: str


class Widget(Struct, frozen=True):
    metadata: Meta
    size: int = 0


WIDGET = Kind("Widget", Widget, "/apis/example.com/v1/widgets")


def widget(name: str, size: int, namespace: str = "default") -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace},
        "size": size,
    }


@asynccontextmanager
async def watched(
    server: ApiServer,
    kinds: Iterable[str] = (),
    own_kinds: Iterable[Kind] = (),
    *,
    clock: Clock | None = None,
    log: Log = QUIET,
    listener: Callable[[Any, Any], None] | None = None,
    watch_seconds: int = 60,
) -> AsyncIterator[Cache]:
    """A cache of the server's objects, once it is synced."""
    access = Access(server=server.url)
    async with Client(access) as client:
        clock = clock or Hurried()
        cache = Cache(access, client, kinds, own_kinds, clock, log, watch_seconds=watch_seconds)
        if listener is not None:
            cache.add_listener(listener)
        running = asyncio.create_task(cache.run())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await cache.wait_for_sync()
            yield cache
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def until(so: Callable[[], bool]) -> None:
    """Returns once it is so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not so():
            await asyncio.sleep(0.001)


async def watching(server: ApiServer, cache: Cache) -> None:
    """Returns once a watch of every kind is open."""
    await until(lambda: server.watches == len(cache.versions))


async def caught_up(server: ApiServer, cache: Cache) -> None:
    """Returns once the cache has received all that has happened so far."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while set(cache.versions.values()) != {str(server.store.version)}:
            server.store.bookmark()
            await asyncio.sleep(0.002)


async def fresh(
    server: ApiServer, kinds: frozenset[str], own_kinds: Iterable[Kind] = ()
) -> Snapshot:
    """The server's objects, listed again and decoded without a cache."""
    access = Access(server=server.url)
    collection = await asyncio.to_thread(list_cluster, access, kinds, own_kinds)
    return collection.snapshot(NOW)


def everything(snapshot: Snapshot) -> dict[str, Any]:
    """All that a snapshot holds, down to the last field, and what its indexes answer."""
    return {
        **shape(snapshot),
        "every pod": {pod.key: spelled(pod) for pod in snapshot.pods},
        "every node": [spelled(node) for node in snapshot.node_index],
        "every other thing": spelled(
            (
                snapshot.namespaces,
                snapshot.priority_classes,
                snapshot.budgets,
                snapshot.claims,
                snapshot.volumes,
                snapshot.attach_limits,
                snapshot.others,
            )
        ),
    }


def spelled(thing: Any) -> Any:
    """The thing in plain values, so that equal means equal."""
    if isinstance(thing, Struct):
        return type(thing).__name__, spelled(structs.asdict(thing))
    if isinstance(thing, dict):
        return [(spelled(key), spelled(thing[key])) for key in sorted(thing, key=repr)]
    if isinstance(thing, tuple | list):
        return [spelled(item) for item in thing]
    return thing
