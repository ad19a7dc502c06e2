"""Lists from an API server, page by page.

While one page is decoded the next is on its way: its request is sent as soon as the bytes of this
one are in. Plain `http.client` on purpose: for a list it costs a fifth of an asynchronous client's
time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import msgspec
from msgspec import Struct

from resettle.cluster.access import Access
from resettle.cluster.portions import portions
from resettle.cluster.refusals import refused
from resettle.errors import ClusterError
from resettle.kube.transport.blocking import BlockingConnection
from resettle.model.kinds import KINDS, group_of

PAGE = 500
_BUILT_IN = frozenset(kind.path for kind in KINDS.values())
_TOKEN = re.compile(rb'"continue":\s*"([^"\\]*)"')
_HEAD = 2048


class Expired(ClusterError):
    """A list took so long that the rest of it is no longer to be had."""


class ListMeta(Struct):
    """What a page says of the pages after it."""

    token: str = msgspec.field(name="continue", default="")


class PageEnd(Struct):
    """A page without its items."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


_page_end = msgspec.json.Decoder(PageEnd)


class Api:
    """Lists from one API server, over one connection."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._connection = BlockingConnection(access)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def ask(self, path: str) -> None:
        """Sends a request without waiting for its answer."""
        self._connection.send(path)

    def answer(self, what: str, group: str = "") -> bytes:
        """The body of the answer to the last request; `what` and `group` are told in errors."""
        answer = self._connection.receive()
        if answer.status == 200:
            return answer.body
        if answer.status == 410:
            raise Expired(f"the list of {what} expired before its end was read; try again")
        raise refused(answer, "list", what, group=group, access=self._access)

    def pages(self, path: str, what: str, limit: int = PAGE) -> Iterator[bytes]:
        """The pages of a list; the next one is asked for before this one is handed out."""
        token = ""
        self.ask(f"{path}?limit={limit}")
        while True:
            body = self.answer(what, group_of(path))
            token = _next_token(body, what)
            if token:
                self.ask(f"{path}?limit={limit}&continue={quote(token)}")
            yield body
            if not token:
                return

    def portions(self, path: str, what: str) -> Iterator[bytes]:
        """The same in smaller pages, which are decoded with less effort."""
        for page in self.pages(path, what):
            if path in _BUILT_IN:
                yield from portions(page)
            else:
                yield page


def _next_token(body: bytes, what: str) -> str:
    """The token of the next page; built-in kinds have it in front of their items."""
    head = body[:_HEAD].partition(b'"items"')[0]
    if b'"metadata"' in head and len(head) < _HEAD:
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
