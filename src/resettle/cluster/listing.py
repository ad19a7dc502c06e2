"""A list of one kind, compared with what is held by version alone, in a thread of its own.

An object whose version has not changed is not even turned into the model: a second list of 150,000
pods costs little more than reading its bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Any, TypeVar

from resettle.cluster.access import Access
from resettle.cluster.api import Api
from resettle.cluster.news import UNREADABLE, Reader, Version, unreadable, version_of
from resettle.cluster.shelf import Listing, Places

T = TypeVar("T")


def listed(
    access: Access, path: str, reader: Reader, held: Places[Version], unwanted: Event
) -> Listing:
    """The list as it is now; given up between two pages once it is `unwanted`."""
    what = path.rpartition("/")[2]
    listing = Listing("", {}, {})
    # Objects of one namespace come in a row.
    namespace: str | None = None
    before: dict[str, Version] = {}
    versions: dict[str, Version] = {}
    put: dict[str, Any] = {}
    modelled = reader.modelled
    api = Api(access)
    try:
        for body in api.portions(path, what):
            version, items = reader.page(body, what)
            # All pages of a list show the moment of the first.
            listing.version = listing.version or version
            try:
                for item in items:
                    meta = item.metadata
                    if meta.namespace != namespace:
                        namespace = meta.namespace
                        before = held.get(namespace, {})
                        versions = listing.versions.setdefault(namespace, {})
                        put = listing.put.setdefault(namespace, {})
                    name, ours = meta.name, version_of(meta.resource_version)
                    if before.get(name) != ours or not ours:
                        put[name] = modelled(item)
                    versions[name] = ours
            except UNREADABLE as error:
                raise unreadable(item, what, error) from None
            if unwanted.is_set():
                break
    finally:
        api.close()
    return listing


async def in_thread(work: Callable[[Event], T]) -> T:
    """What the work returns. Whoever no longer waits for it leaves its thread behind to end."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    unwanted = Event()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if not answer.done():
            answer.set_exception(error) if error else answer.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = work(unwanted)
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody is waiting
            loop.call_soon_threadsafe(deliver, result, failure)

    Thread(target=run, name="list", daemon=True).start()
    try:
        return await answer
    finally:
        unwanted.set()
