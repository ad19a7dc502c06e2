"""Requests and watches over a pool of connections; used from one event loop.

Every response is returned as it is, whatever its status: the caller knows what a 409 means. Only
what was certainly not acted upon is repeated here. No response at all is an error, which says
whether the request may have been carried out.
"""

from __future__ import annotations

import asyncio
import math
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

from resettle.clock import SYSTEM, Clock
from resettle.errors import AnswerLost, ClusterUnreachable
from resettle.kube.auth.access import Access, Headers
from resettle.kube.failures import (
    answer_lost_error,
    describe_error,
    rejects_our_certificate,
    unreachable_error,
)
from resettle.kube.status import Answer
from resettle.kube.transport.blocking import proxy_credentials
from resettle.kube.transport.connection import AsyncConnection, Check, WriteBatch, make_buffer
from resettle.kube.transport.pacing import RateLimiter, pause_before_retry
from resettle.kube.transport.parser import LineSplitter, Response, encode_headers, encode_request

__all__ = ["Answer", "Client"]

PATIENCE_SECONDS = 10.0
_ANSWER_SECONDS = 30
_CONNECT_SECONDS = 10
_IDLE_SECONDS = 30
"""How long a connection is kept unused; servers close them after a minute or more."""
_SPREAD = 0.5
_UNAUTHORIZED = 401
_IDEMPOTENT = ("GET", "HEAD")


class Client:
    """Sends requests to one API server; the rate limiter delays requests, and never watches.

    `jitter` gives numbers from 0 to 1, which spread repeated requests over time.
    """

    def __init__(
        self,
        access: Access,
        rate_limiter: RateLimiter | None = None,
        clock: Clock = SYSTEM,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._access = access
        self._identity = access.identity()
        self._rate_limiter = rate_limiter
        self._jitter = jitter
        self._clock = clock
        self._batch = WriteBatch()
        self._buffer = make_buffer()
        self._idle: list[tuple[AsyncConnection, ssl.SSLContext | None]] = []
        server = urlsplit(access.server)
        self._base = server.path.rstrip("/")
        always = [("Host", server.netloc.rpartition("@")[2]), ("Accept", "application/json")]
        always += [("User-Agent", "resettle"), *access.impersonation]
        if access.proxy and access.trust is None:
            # Without a tunnel, the proxy needs the whole address of each request.
            self._base = access.server
            always += proxy_credentials(access.proxy).items()
        self._always = encode_headers(always)
        self._encoded: tuple[Headers, bytes] = ((), self._always)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._idle:
            self._idle.pop()[0].close()
        await asyncio.sleep(0)  # connections end on the next turn of the event loop

    @property
    def server(self) -> str:
        """The address of the API server, for messages."""
        return self._access.server

    @property
    def access(self) -> Access:
        """The API server's address and our credentials."""
        return self._access

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        within: float = _ANSWER_SECONDS,
        patience: float = PATIENCE_SECONDS,
        before: Check | None = None,
    ) -> Answer:
        """The response to one request, whatever its status.

        Each try has `within` seconds; tries that were certainly not acted upon are repeated for
        up to `patience` seconds. `before` is called right before each try is written, and may
        raise to stop it.
        """
        began = self._clock.steady()
        tries = 0
        while True:
            tries += 1
            result: Answer | ClusterUnreachable
            try:
                result = await self._try(method, path, body, query, content_type, within, before)
                if result.is_success:
                    return result
            except AnswerLost:
                raise
            except ClusterUnreachable as error:
                result = error
            spent = self._clock.steady() - began
            pause = pause_before_retry(method, result, tries, patience - spent)
            if pause is not None:
                # Clients that were refused at the same time should not all return at the same time.
                await self._clock.sleep(pause * (1 + _SPREAD * self._jitter()))
            elif isinstance(result, Answer):
                return result
            else:
                raise result

    async def _try(
        self,
        method: str,
        path: str,
        body: bytes | None,
        query: Mapping[str, str] | None,
        content_type: str,
        within: float,
        before: Check | None,
    ) -> Answer:
        """The response; a 401 is tried once more if there are newer credentials."""
        more = b"" if body is None else _content_type_header(content_type)
        for last in (False, True):
            credentials = await self._credentials()
            if self._rate_limiter is not None:
                await self._rate_limiter.acquire()
            headers = self._headers(credentials) + more
            request = encode_request(method, self._target(path, query), headers, body)
            answer = _answer(await self._exchange(method, request, within, before))
            if answer.is_success or last or not await self._has_renewed(answer.status, credentials):
                break
        return answer

    async def _exchange(
        self, method: str, request: bytes, within: float, before: Check | None
    ) -> Response:
        """The response to one request; what can do no harm is sent again over a new connection."""
        while True:
            connection = self._take_idle()
            is_new = connection is None
            connection = connection or await self._connect()
            try:
                responses = connection.expect(1, within)
                self._batch.add(connection, request, before)
                (response,) = await responses
            except (OSError, TimeoutError) as error:
                connection.close()
                if rejects_our_certificate(error):
                    raise await self._unreachable(error) from None
                harmless = method in _IDEMPOTENT or not connection.sent
                if is_new or not harmless or isinstance(error, TimeoutError):
                    raise answer_lost_error(self._access, error) from None
            except BaseException:
                connection.close()
                raise
            else:
                self._give_back(connection)
                return response

    async def post_all(
        self, posts: Sequence[tuple[str, bytes]], *, within: float = _ANSWER_SECONDS
    ) -> list[Answer]:
        """The responses to posts of (path, body), all sent over one connection without waiting.

        Much cheaper for many small requests, and only for what may be lost: if the connection
        breaks, it is not known which of them arrived. Send no more than `at_once` gives.
        """
        headers = self._headers(await self._credentials())
        headers += _content_type_header("application/json")
        requests = [
            encode_request("POST", self._target(path, None), headers, body) for path, body in posts
        ]
        if self._rate_limiter is not None:
            for _ in posts:
                await self._rate_limiter.acquire()
        connection = self._take_idle() or await self._connect()
        try:
            expected = connection.expect(len(posts), within)
            self._batch.add(connection, b"".join(requests))
            responses = await expected
        except (OSError, TimeoutError) as error:
            connection.close()
            raise answer_lost_error(self._access, error) from None
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return [_answer(response) for response in responses]

    def at_once(self) -> float:
        """How many requests could be sent now without being delayed."""
        return math.inf if self._rate_limiter is None else self._rate_limiter.available()

    async def watch(
        self, path: str, query: Mapping[str, str], *, quiet_for: float
    ) -> AsyncIterator[Answer | bytes]:
        """The lines of a watch as they arrive; or first and only the refusal, if there is one.

        Ends when the server ends it; silence for `quiet_for` seconds is an error.
        """
        for last in (False, True):
            credentials = await self._credentials()
            connection = await self._connect()
            try:
                headers = self._headers(credentials)
                request = encode_request("GET", self._target(path, query), headers, None)
                async with asyncio.timeout(quiet_for):
                    response = await connection.begin(request)
                pieces = _within(connection.pieces(), quiet_for)
                if response.status == 200:
                    lines = LineSplitter()
                    async for piece in pieces:
                        for line in lines.split(piece):
                            yield line
                    return
                body = b"".join([piece async for piece in pieces])
            except (OSError, TimeoutError) as error:
                if rejects_our_certificate(error):
                    raise await self._unreachable(error) from None
                raise ClusterUnreachable(
                    f"{self.server} ended a watch: {describe_error(error)}"
                ) from None
            finally:
                connection.close()
            if last or not await self._has_renewed(response.status, credentials):
                yield _answer(response, body)
                return

    # -- connections ----------------------------------------------------------------------------

    @property
    def _trust(self) -> ssl.SSLContext | None:
        return self._identity.trust or self._access.trust

    def _target(self, path: str, query: Mapping[str, str] | None) -> str:
        return f"{self._base}{path}?{urlencode(query)}" if query else self._base + path

    def _take_idle(self) -> AsyncConnection | None:
        """A connection that was used before and can be used again."""
        trust, soon = self._trust, self._clock.steady() - _IDLE_SECONDS
        while self._idle:
            connection, trusted = self._idle.pop()
            if connection.is_usable and trusted is trust and connection.used_at > soon:
                return connection
            connection.close()
        return None

    def _give_back(self, connection: AsyncConnection) -> None:
        if connection.is_usable:
            connection.used_at = self._clock.steady()
            self._idle.append((connection, self._trust))
        else:
            connection.close()

    async def _connect(self) -> AsyncConnection:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await AsyncConnection.open(self._access, self._trust, self._buffer)
        except (OSError, TimeoutError) as error:
            raise await self._unreachable(error) from None

    # -- credentials ----------------------------------------------------------------------------

    async def _credentials(self) -> Headers:
        if self._identity.is_due():
            await asyncio.to_thread(self._identity.renew)
        return self._identity.headers()

    def _headers(self, credentials: Headers) -> bytes:
        """The headers of every request until there are newer credentials."""
        if credentials is not self._encoded[0]:
            self._encoded = (credentials, self._always + encode_headers(credentials))
        return self._encoded[1]

    async def _has_renewed(self, status: int, refused: Headers) -> bool:
        """Whether there are newer credentials than those that were just refused."""
        return status == _UNAUTHORIZED and await asyncio.to_thread(self._identity.renew, refused)

    async def _unreachable(self, error: Exception) -> ClusterUnreachable:
        return await asyncio.to_thread(unreachable_error, self._access, error)


@cache
def _content_type_header(content_type: str) -> bytes:
    return encode_headers([("Content-Type", content_type)])


def _answer(response: Response, body: bytes | None = None) -> Answer:
    """The response as callers get it; `body` stands in for one that was read as a stream."""
    content = response.body if body is None else body
    if response.status < 300:
        return Answer(response.status, content)
    seconds = response.header(b"retry-after")
    return Answer(response.status, content, float(seconds) if seconds.isdigit() else None)


async def _within(pieces: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """The pieces; `TimeoutError` if one takes longer than this."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        yield piece
