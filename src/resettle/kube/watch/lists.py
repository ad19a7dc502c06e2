"""Lists from an API server, page by page.

While one page is decoded the next is on its way: its request is sent as soon as the bytes of this
one are in. Plain `http.client` on purpose: for a list it costs a fifth of an asynchronous client's
time.

A page of a list, cut into several small ones.

Decoding makes some forty objects of each pod, which live until it is turned into the model. Those
of a whole page outgrow the cache of a processor, those of a portion do not: that saves a fifth.

A list of one kind, compared with what is held by version alone, in a thread of its own.

An object whose version has not changed is not even turned into the model: a second list of 150,000
pods costs little more than reading its bytes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Thread
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from resettle.errors import ClusterError
from resettle.kube.auth.access import Access
from resettle.kube.failures import refusal_error
from resettle.kube.transport.blocking import BlockingConnection
from resettle.kube.watch.events import UNREADABLE, ObjectReader, Version, unreadable_object, compact_version
from resettle.kube.watch.store import ListResult, ByNamespace
from resettle.model.kinds import KINDS, group_of

PORTION_BYTES = 100_000
"""Bytes, and what is left of an item."""
_HEAD = 4096
_FIRST = b'"items":[{"metadata":{'
# Within a text the quotes would be escaped, and no list within a built-in kind has such items. Were
# it otherwise, a portion would not be closed properly, and decoding it an error.
_NEXT = b'},{"metadata":{'


def split_page(page: bytes) -> Iterator[bytes]:
    """The same items in pages that say nothing else but for the first; one that is short as it is.

    Only for built-in kinds; what is written in another manner is left in one piece.
    """
    start = page.find(_FIRST, 0, _HEAD)
    whole = memoryview(page)
    begin, at = b"", 0
    cut = page.find(_NEXT, start + PORTION_BYTES) if start >= 0 else -1
    while cut >= 0:
        yield b"".join((begin, whole[at : cut + 1], b"]}"))
        begin, at = b'{"metadata":{},"items":[', cut + len(b"},")
        cut = page.find(_NEXT, at + PORTION_BYTES)
    yield begin + page[at:]


PAGE_SIZE = 500
_BUILT_IN = frozenset(kind.path for kind in KINDS.values())
_TOKEN = re.compile(rb'"continue":\s*"([^"\\]*)"')
_LIST_HEAD = 2048


class ListExpired(ClusterError):
    """A list took so long that the rest of it is no longer to be had."""


class ListMeta(Struct):
    """What a page says of the pages after it."""

    token: str = msgspec.field(name="continue", default="")


class PageEnd(Struct):
    """A page without its items."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


_page_end = msgspec.json.Decoder(PageEnd)


class ListClient:
    """Lists from one API server, over one connection."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._connection = BlockingConnection(access)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def send(self, path: str) -> None:
        """Sends a request without waiting for its answer."""
        self._connection.send(path)

    def receive(self, what: str, group: str = "") -> bytes:
        """The body of the answer to the last request; `what` and `group` are told in errors."""
        answer = self._connection.receive()
        if answer.status == 200:
            return answer.body
        if answer.status == 410:
            raise ListExpired(f"the list of {what} expired before its end was read; try again")
        raise refusal_error(answer, "list", what, group=group, access=self._access)

    def pages(self, path: str, what: str, limit: int = PAGE_SIZE) -> Iterator[bytes]:
        """The pages of a list; the next one is asked for before this one is handed out."""
        token = ""
        self.send(f"{path}?limit={limit}")
        while True:
            body = self.receive(what, group_of(path))
            token = _next_token(body, what)
            if token:
                self.send(f"{path}?limit={limit}&continue={quote(token)}")
            yield body
            if not token:
                return

    def portions(self, path: str, what: str) -> Iterator[bytes]:
        """The same in smaller pages, which are decoded with less effort."""
        for page in self.pages(path, what):
            if path in _BUILT_IN:
                yield from split_page(page)
            else:
                yield page


def _next_token(body: bytes, what: str) -> str:
    """The token of the next page; built-in kinds have it in front of their items."""
    head = body[:_LIST_HEAD].partition(b'"items"')[0]
    if b'"metadata"' in head and len(head) < _LIST_HEAD:
        found = _TOKEN.search(head)
        if found is not None:
            return found[1].decode(errors="replace")
        if b'"continue"' not in head:
            return ""
    try:
        return _page_end.decode(body).metadata.token
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise malformed_list(what, error) from None


def malformed_list(what: str, error: Exception) -> ClusterError:
    """The error for a page that is no list of these objects."""
    return ClusterError(f"the list of {what} cannot be understood: {error}; is this an API server?")


T = TypeVar("T")


def list_kind(
    access: Access, path: str, reader: ObjectReader, held: ByNamespace[Version], unwanted: Event
) -> ListResult:
    """The list as it is now; given up between two pages once it is `unwanted`."""
    what = path.rpartition("/")[2]
    listing = ListResult("", {}, {})
    # Objects of one namespace come in a row.
    namespace: str | None = None
    before: dict[str, Version] = {}
    versions: dict[str, Version] = {}
    put: dict[str, Any] = {}
    modelled = reader.convert
    api = ListClient(access)
    try:
        for body in api.portions(path, what):
            version, items = reader.read_page(body, what)
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
                    name, ours = meta.name, compact_version(meta.resource_version)
                    if before.get(name) != ours or not ours:
                        put[name] = modelled(item)
                    versions[name] = ours
            except UNREADABLE as error:
                raise unreadable_object(item, what, error) from None
            if unwanted.is_set():
                break
    finally:
        api.close()
    return listing


async def run_in_thread(work: Callable[[Event], T]) -> T:
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
