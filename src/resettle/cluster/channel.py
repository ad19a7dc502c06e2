"""One connection of the event loop to an API server: a request out, its answer in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Self
from urllib.parse import urlsplit

from resettle.cluster.access import Access
from resettle.cluster.connection import proxy_credentials
from resettle.cluster.http1 import Garbled, Incoming, request, written

_FULL = 1 << 20
"""Bytes of a stream that nobody has read, at which its sender has to wait."""


Heard = tuple[Incoming, bytes]
"""An answer, and its whole body."""


class Channel(asyncio.Protocol):
    """A connection, in use by one request at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._incoming = Incoming()
        self._rest = b""
        """What came last and has no meaning yet."""
        self._pieces: list[bytes] = []
        self._streams = False
        self._heard: list[Heard] = []
        self._awaited = 0
        """Answers that are still to come."""
        self._answers: asyncio.Future[list[Heard]] | None = None
        """Done when all of them have come."""
        self._waiter: asyncio.Future[None] | None = None
        self._trouble: Exception | None = None
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.sent = False
        """Whether the server may have heard of what answers are expected to."""
        self.used_at = 0.0
        """When it was last put aside, by the clock of who keeps it."""

    @classmethod
    async def open(cls, access: Access, trust: ssl.SSLContext | None) -> Self:
        """A connection to the server, through its proxy if there is one."""
        server, proxy = urlsplit(access.server), urlsplit(access.proxy)
        first = proxy if access.proxy else server
        port = first.port or (443 if first.scheme == "https" else 80)
        name = (access.server_name or server.hostname) if trust else None
        loop = asyncio.get_running_loop()
        direct = None if access.proxy else trust
        _, channel = await loop.create_connection(
            cls,
            first.hostname or "",
            port,
            ssl=direct,
            server_hostname=name if direct else None,
        )
        if access.proxy and trust:
            await channel._tunnel(access, trust, name or "")
        return channel

    async def _tunnel(self, access: Access, trust: ssl.SSLContext, name: str) -> None:
        """Has the proxy connect us with the server, and speaks TLS from then on."""
        server = urlsplit(access.server)
        where = f"{server.hostname}:{server.port or 443}"
        headers = written([("Host", where), *proxy_credentials(access.proxy).items()])
        try:
            answered = await self._tunnelled(request("CONNECT", where, headers, None))
        except ConnectionError as error:
            raise OSError(f"the proxy {urlsplit(access.proxy).netloc} hung up") from error
        if answered != 200:
            self.close()
            raise OSError(f"the proxy answered {answered} to a wish to be connected with {where}")
        assert self._transport is not None
        upgraded = await self._loop.start_tls(self._transport, self, trust, server_hostname=name)
        assert upgraded is not None
        self._transport = upgraded
        self._incoming = Incoming()

    async def _tunnelled(self, asked: bytes) -> int:
        self._ask(asked)
        while not self._incoming.begun:
            await self._news()
        return self._incoming.status

    @property
    def usable(self) -> bool:
        """Whether another request can be sent over it."""
        open_still = self._transport is not None and not self._transport.is_closing()
        # More than was asked for: whoever sends that is not to be trusted.
        in_order = self._incoming.done and self._incoming.lasts and not self._rest
        return open_still and in_order

    def close(self) -> None:
        """Ends the connection."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    # -- requests -------------------------------------------------------------------------------

    def expect(self, count: int, within: float) -> asyncio.Future[list[Heard]]:
        """The answers to so many requests, which are still to be sent.

        `TimeoutError` after so many seconds.
        """
        answers = self._answers = self._loop.create_future()
        self.sent = False
        if self._trouble is not None:
            answers.set_exception(self._trouble)
            return answers
        self._due_by(self._loop.time() + within)
        self._heard, self._awaited = [], count
        self._incoming = Incoming()
        return answers

    def send(self, asked: bytes) -> None:
        """Sends what answers are expected to, unless nobody expects them any more."""
        assert self._answers is not None
        assert self._transport is not None
        if not self._answers.done():
            self.sent = True
            self._transport.write(asked)

    def give_up(self, why: Exception) -> None:
        """Has who expects answers know why nothing is sent."""
        assert self._answers is not None
        if not self._answers.done():
            self._answers.set_exception(why)

    async def begin(self, asked: bytes) -> Incoming:
        """The head of the answer to a request whose body is to be read piece by piece."""
        self._streams = True
        self._ask(asked)
        while not self._incoming.begun:
            await self._news()
        return self._incoming

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, as it comes."""
        while True:
            while self._pieces:
                pieces, self._pieces = self._pieces, []
                if self._transport is not None:
                    self._transport.resume_reading()
                for piece in pieces:
                    yield piece
            if self._incoming.done:
                return
            await self._news()

    def _due_by(self, deadline: float) -> None:
        """Has the request fail at the deadline.

        One timer serves all requests: it is not stopped with each, but finds out when it rings
        whether another deadline holds by then.
        """
        self._deadline = deadline
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._ring)
            return
        self._trouble = TimeoutError()
        self.close()
        self._wake()

    def _ask(self, asked: bytes) -> None:
        assert self._transport is not None
        self._incoming = Incoming()
        self._transport.write(asked)

    async def _news(self) -> None:
        """Returns when something has come; raises what ended the connection before the answer."""
        if self._trouble is not None:
            raise self._trouble
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # -- what the event loop tells -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Something has come."""
        incoming = self._incoming
        if incoming.done:
            self.close()  # unasked
            return
        try:
            self._feed(data)
        except Garbled as error:
            self._trouble = ConnectionError(f"the answer is not HTTP: {error}")
            self.close()
        self._wake()

    def _feed(self, data: bytes) -> None:
        at, pieces = 0, self._pieces
        if self._rest:
            data = self._rest + data
        while True:
            incoming = self._incoming
            at = incoming.feed(data, at, pieces)
            if not incoming.done or not self._awaited:
                break
            self._heard.append((incoming, b"".join(pieces)))
            pieces.clear()
            self._awaited -= 1
            if not self._awaited:
                break
            self._incoming = Incoming()
        self._rest = data[at:]
        if self._streams and sum(map(len, pieces)) >= _FULL and self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        complete = self._incoming.closed()
        if complete and self._awaited == 1:
            self._heard.append((self._incoming, b"".join(self._pieces)))
            self._awaited = 0
        elif not complete and self._trouble is None:
            self._trouble = error or ConnectionResetError("the connection was closed")
        self._wake()

    def _wake(self) -> None:
        """Has who reads along look again; who waits for answers gets them, or an error."""
        waiter, answers = self._waiter, self._answers
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if answers is not None and not answers.done():
            if not self._awaited:
                self._deadline = None
                answers.set_result(self._heard)
            elif self._trouble is not None:
                answers.set_exception(self._trouble)
