"""A cluster under watch, with the usage measured in it: the base of component sessions."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from resettle.kube.watch.cache import Cache
from resettle.runtime.leadership import Stop
from resettle.runtime.runner import Runtime
from resettle.times import format_seconds
from resettle.utilization.sources.poller import UsagePoller, run_usage_poller

STALE_SECONDS = 180.0
"""A cache older than this is not acted upon; a healthy watch gets an event about once a minute."""
SPARE_OBJECTS = 50_000
"""New objects after which the garbage collector runs; evictions make many, and none are garbage."""


@asynccontextmanager
async def watch_cluster(
    cache: Cache, runtime: Runtime, *, repeated: bool
) -> AsyncIterator[UsagePoller | None]:
    """Watch while the block lasts, which begins when everything is listed.

    Gives what measures usage, or None if a stop was requested before. `repeated` is whether usage
    will be asked for more than once.
    """
    async with (
        run_usage_poller(runtime.clients.unlimited, runtime.clock, repeatedly=repeated) as poller,
        _watch(cache, runtime.stop, runtime.report_crash) as listed,
    ):
        yield poller if listed else None


def why_stale(cache: Cache) -> str:
    """Why the cache must not be acted upon; empty if it may."""
    if not cache.is_older_than(STALE_SECONDS):
        return ""
    return f"the cache is {format_seconds(cache.age())} old; the watch is broken"


@asynccontextmanager
async def _watch(
    cache: Cache, stop: Stop, report_crash: Callable[[BaseException], None]
) -> AsyncIterator[bool]:
    """Keep the watches open; gives whether everything was listed before a stop was requested."""

    def on_end(watching: asyncio.Task[None]) -> None:
        # A watch retries for ever; if it ends by itself, the cache is no longer true.
        if not watching.cancelled() and (error := watching.exception()) is not None:
            report_crash(error)

    gc.disable()  # a first list makes no garbage, and looking for it takes as long as decoding
    watching = asyncio.create_task(cache.run())
    watching.add_done_callback(on_end)
    try:
        if not await stop.finished_before_stop(cache.wait_for_sync()):
            yield False
            return
        # What has come to stay need not be looked through again and again for garbage.
        gc.freeze()
        gc.set_threshold(SPARE_OBJECTS)
        gc.enable()
        yield True
    finally:
        gc.enable()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
