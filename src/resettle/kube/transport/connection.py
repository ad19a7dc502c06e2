"""One connection of the event loop to an API server, and requests that are written together.

A request that is written alone wakes the server for itself, which costs both sides more than the
request does. So all requests of one turn of the event loop are written together at the next, and
each is checked once more right before that.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Self
from urllib.parse import urlsplit

from resettle.kube.auth.access import Access
from resettle.kube.transport.blocking import proxy_credentials
from resettle.kube.transport.parser import (
    MalformedResponse,
    Response,
    ResponseParser,
    encode_headers,
    encode_request,
)

_FULL = 1 << 20
"""Unread bytes of a stream at which the sender has to wait."""
_BUFFER_SIZE = 64 << 10

Check = Callable[[], None]
"""Called right before a request is written; raises to stop it."""


def make_buffer() -> memoryview:
    """A buffer for all connections of one event loop.

    Whatever is received is parsed before the next `recv`. Without it asyncio allocates 256 KiB for
    each `recv`, which can cost more than all else that a small response does.
    """
    return memoryview(bytearray(_BUFFER_SIZE))


class AsyncConnection(asyncio.BufferedProtocol):
    """A connection that is used by one caller at a time."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = ResponseParser()
        self._streams = False
        self._expected = 0
        """How many responses the caller waits for."""
        self._responses: asyncio.Future[list[Response]] | None = None
        """Done when all of them are complete."""
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.sent = False
        """Whether the server may have received the requests whose responses are expected."""
        self.used_at = 0.0
        """When the pool got it back, by the clock of the pool."""

    @classmethod
    async def open(cls, access: Access, trust: ssl.SSLContext | None, buffer: memoryview) -> Self:
        """A new connection to the server, through its proxy if there is one."""
        server, proxy = urlsplit(access.server), urlsplit(access.proxy)
        first = proxy if access.proxy else server
        port = first.port or (443 if first.scheme == "https" else 80)
        name = (access.server_name or server.hostname) if trust else None
        loop = asyncio.get_running_loop()
        direct = None if access.proxy else trust
        _, connection = await loop.create_connection(
            lambda: cls(buffer),
            first.hostname or "",
            port,
            ssl=direct,
            server_hostname=name if direct else None,
        )
        if access.proxy and trust:
            try:
                await connection._open_tunnel(access, trust, name or "")
            except BaseException:
                connection.close()  # a cancelled wait would leave the socket to the proxy open
                raise
        return connection

    async def _open_tunnel(self, access: Access, trust: ssl.SSLContext, name: str) -> None:
        """Have the proxy connect to the server, then start TLS."""
        server = urlsplit(access.server)
        address = f"{server.hostname}:{server.port or 443}"
        headers = encode_headers([("Host", address), *proxy_credentials(access.proxy).items()])
        try:
            response = await self._read_head(encode_request("CONNECT", address, headers, None))
        except ConnectionError as error:
            raise OSError(f"the proxy {urlsplit(access.proxy).netloc} hung up") from error
        if response.status != 200:
            raise OSError(f"the proxy answered {response.status} to CONNECT {address}")
        assert self._transport is not None
        self._parser.finish()
        self._parser = ResponseParser()
        upgraded = await self._loop.start_tls(self._transport, self, trust, server_hostname=name)
        assert upgraded is not None
        self._transport = upgraded

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent over it."""
        if self._transport is None or self._transport.is_closing():
            return False
        latest = self._parser.latest
        # A server that sends more than was requested is not trusted with another request.
        in_order = not self._parser.in_head and len(self._parser.complete) == self._expected
        return in_order and latest is not None and latest.is_complete and latest.allows_reuse

    def close(self) -> None:
        """Close the connection."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    # -- requests -------------------------------------------------------------------------------

    def expect(self, count: int, within: float) -> asyncio.Future[list[Response]]:
        """A future with the responses to so many requests, which are sent afterwards.

        It fails with `TimeoutError` after `within` seconds.
        """
        responses = self._responses = self._loop.create_future()
        self.sent = False
        if self._failure is not None:
            responses.set_exception(self._failure)
            return responses
        self._set_deadline(self._loop.time() + within)
        self._expected = count
        self._parser.clear()
        return responses

    def send(self, request: bytes) -> None:
        """Send a request whose response is expected, unless its caller has stopped waiting."""
        assert self._responses is not None
        assert self._transport is not None
        if not self._responses.done():
            self.sent = True
            self._transport.write(request)

    def give_up(self, why: Exception) -> None:
        """Raise this in the caller that waits for responses: nothing is sent."""
        assert self._responses is not None
        if not self._responses.done():
            self._responses.set_exception(why)

    async def begin(self, request: bytes) -> Response:
        """Send a request and return the head of its response; `pieces` then gives the body."""
        self._streams = True
        return await self._read_head(request)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body of the response in pieces, as they arrive."""
        response = self._parser.latest
        assert response is not None
        while True:
            while response.pieces:
                pieces, response.pieces = response.pieces, []
                if self._transport is not None:
                    self._transport.resume_reading()
                for piece in pieces:
                    yield piece
            if response.is_complete:
                return
            await self._wait_for_data()

    async def _read_head(self, request: bytes) -> Response:
        assert self._transport is not None
        self._parser.clear()
        self._expected = 1
        self.sent = True
        self._transport.write(request)
        while self._parser.latest is None:
            await self._wait_for_data()
        return self._parser.latest

    def _set_deadline(self, deadline: float) -> None:
        """Have the request fail at the deadline.

        One timer serves all requests: it is not cancelled with each, but finds out when it fires
        whether there is a later deadline by then.
        """
        self._deadline = deadline
        if self._timer is None:
            self._timer = self._loop.call_at(deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)
            return
        self._failure = TimeoutError()
        self.close()
        self._wake()

    async def _wait_for_data(self) -> None:
        """Return when something has arrived; raise what ended the connection before that."""
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # -- called by the event loop ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer to receive into."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what has arrived and wake the caller."""
        data, parser = self._buffer[:nbytes], self._parser
        if not self.sent or len(parser.complete) >= self._expected:
            # Such as the 408 of a load balancer, which must not pass for our response.
            self._failure = ConnectionError(f"{bytes(data[:40])!r} came without a request")
            self.close()
            self._wake()
            return
        try:
            parser.feed(data)
        except MalformedResponse as error:
            self.close()
            if len(parser.complete) < self._expected:
                self._failure = ConnectionError(f"the answer is not HTTP: {error}")
        if self._streams:
            self._hold_back_sender()
        self._wake()

    def _hold_back_sender(self) -> None:
        response = self._parser.latest
        if response is not None and sum(map(len, response.pieces)) >= _FULL:
            assert self._transport is not None
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Complete a body that ends here, or fail the request."""
        self._parser.finish()
        if self._failure is None:
            self._failure = error or ConnectionResetError("the connection was closed")
        self._wake()

    def _wake(self) -> None:
        """Wake the reader of a stream; give responses to their caller if all are there."""
        waiter, responses = self._waiter, self._responses
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if responses is not None and not responses.done():
            if len(self._parser.complete) >= self._expected:
                self._deadline = None
                responses.set_result(self._parser.complete[: self._expected])
            elif self._failure is not None:
                responses.set_exception(self._failure)


class WriteBatch:
    """Requests that wait to be written at the next turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[AsyncConnection, bytes, Check | None]] = []

    def add(self, connection: AsyncConnection, request: bytes, check: Check | None = None) -> None:
        """Have a request written whose response the connection expects."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write_all)
        self._waiting.append((connection, request, check))

    def _write_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection, request, check in waiting:
            try:
                if check is not None:
                    check()
            except Exception as error:
                connection.give_up(error)
            else:
                connection.send(request)
