"""The cluster under watch, for as long as somebody works with what is heard."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from resettle.cluster.cache import Cache
from resettle.loop.stop import Stop

STALE_SECONDS = 180.0
"""Knowledge older than this is not acted upon; a healthy watch speaks once a minute or so."""
SPARE_OBJECTS = 50_000
"""New objects after which garbage is looked for; evictions leave many behind, and none of it."""


@asynccontextmanager
async def watched(
    cache: Cache, stop: Stop, crashed: Callable[[BaseException], None]
) -> AsyncIterator[bool]:
    """Whether everything was listed, with watches open; no if we were asked to stop before."""

    def ended(watching: asyncio.Task[None]) -> None:
        # A watch tries for ever; if it ends unasked, what it tells is no longer true.
        if not watching.cancelled() and (error := watching.exception()) is not None:
            crashed(error)

    gc.disable()  # a first list makes no garbage, and looking for it takes as long as decoding
    watching = asyncio.create_task(cache.run())
    watching.add_done_callback(ended)
    try:
        if not await stop.comes_after(cache.synced()):
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


def outdated(cache: Cache) -> str:
    """Why what is known of the cluster must not be acted upon; empty if it may."""
    if not cache.older_than(STALE_SECONDS):
        return ""
    return f"what is known of the cluster is {cache.age():.0f} s old; the watch is broken"
