"""Lists from an API server, page by page, read in a thread.

While one page is decoded the next is on its way: its request is sent as soon as the bytes of this
one are in. Pages are decoded in portions: decoding makes some forty objects of each pod, which live
until the pod is converted, and those of a whole page do not fit into a processor's cache; portions
save a fifth of the time. An object whose version is in the store already is not converted, so a
second list of 150,000 pods costs little more than reading its bytes.
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
from resettle.kube.watch.events import (
    UNREADABLE,
    ObjectReader,
    Version,
    compact_version,
    unreadable_object,
)
from resettle.kube.watch.store import ByNamespace, ListResult
from resettle.model.kinds import KINDS, group_of

PORTION_BYTES = 100_000
"""A portion ends with the item in which this many bytes are reached."""
_HEAD = 4096
_FIRST = b'"items":[{"metadata":{'
# Inside a string the quotes would be escaped, and no list inside a built-in kind has such items. If
# one had, the portion would not be valid JSON, and decoding would fail.
_NEXT = b'},{"metadata":{'


def split_page(page: bytes) -> Iterator[bytes]:
    """The page split into smaller ones; only the first keeps the metadata of the list.

    Only for built-in kinds; a page that is written in another manner is not split.
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
    """The continue token of a list expired before all pages were read."""


class ListMeta(Struct):
    """The metadata of a page, with the token for the next one."""

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
        """Close the connection."""
        self._connection.close()

    def send(self, path: str) -> None:
        """Send a request without waiting for its answer."""
        self._connection.send(path)

    def receive(self, what: str, group: str = "") -> bytes:
        """The body of the answer to the last request; errors name `what` and `group`."""
        answer = self._connection.receive()
        if answer.status == 200:
            return answer.body
        if answer.status == 410:
            raise ListExpired(f"the list of {what} expired before its end was read; try again")
        raise refusal_error(answer, "list", what, group=group, access=self._access)

    def pages(self, path: str, what: str, limit: int = PAGE_SIZE) -> Iterator[bytes]:
        """The pages of a list; the next one is requested before this one is returned."""
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
        """The pages of a list in smaller portions, which are decoded faster."""
        for page in self.pages(path, what):
            if path in _BUILT_IN:
                yield from split_page(page)
            else:
                yield page


def _next_token(body: bytes, what: str) -> str:
    """The token of the next page; built-in kinds have it in front of their items."""
    head = body[:_LIST_HEAD].partition(b'"items"')[0]
    if b'"metadata"' in head and len(head) < _LIST_HEAD:
        match = _TOKEN.search(head)
        if match is not None:
            return match[1].decode(errors="replace")
        if b'"continue"' not in head:
            return ""
    try:
        return _page_end.decode(body).metadata.token
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise malformed_list(what, error) from None


def malformed_list(what: str, error: Exception) -> ClusterError:
    """The error for a page that is not a list of these objects."""
    return ClusterError(f"the list of {what} cannot be understood: {error}; is this an API server?")


T = TypeVar("T")


def list_kind(
    access: Access, path: str, reader: ObjectReader, held: ByNamespace[Version], cancelled: Event
) -> ListResult:
    """List a kind, compared by version with what is `held`; stops between pages if `cancelled`."""
    what = path.rpartition("/")[2]
    listing = ListResult("", {}, {})
    # Objects of one namespace follow each other.
    namespace: str | None = None
    before: dict[str, Version] = {}
    versions: dict[str, Version] = {}
    put: dict[str, Any] = {}
    convert = reader.convert
    api = ListClient(access)
    try:
        for body in api.portions(path, what):
            version, items = reader.read_page(body, what)
            # All pages of a list show the state at the time of the first.
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
                        put[name] = convert(item)
                    versions[name] = ours
            except UNREADABLE as error:
                raise unreadable_object(item, what, error) from None
            if cancelled.is_set():
                break
    finally:
        api.close()
    return listing


async def run_in_thread(work: Callable[[Event], T]) -> T:
    """What `work` returns, run in a thread; if the caller is cancelled, the thread ends later."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    cancelled = Event()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if not answer.done():
            answer.set_exception(error) if error else answer.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = work(cancelled)
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed: no caller is waiting
            loop.call_soon_threadsafe(deliver, result, failure)

    Thread(target=run, name="list", daemon=True).start()
    try:
        return await answer
    finally:
        cancelled.set()
