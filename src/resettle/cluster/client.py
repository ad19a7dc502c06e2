"""Requests and watches over connections that are kept open; used from one event loop.

Every answer comes back as it is, whatever its status: who asked knows what a 409 means. What is
tried again here is only what was certainly not acted upon. No answer at all is an error, and it
says whether the request may have been carried out.
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
from resettle.cluster.access import Access
from resettle.cluster.channel import Channel
from resettle.cluster.connection import proxy_credentials
from resettle.cluster.credentials import Headers
from resettle.cluster.http1 import Incoming, request, written
from resettle.cluster.lines import Lines
from resettle.cluster.outbox import Before, Outbox
from resettle.cluster.pace import Pace
from resettle.cluster.retries import pause_before_retry
from resettle.cluster.statuses import Answer
from resettle.cluster.troubles import answer_lost, dislikes_us, reason, unreachable
from resettle.errors import AnswerLost, ClusterUnreachable

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
    """A way to one API server; `pace` holds back requests, and never watches.

    `jitter` gives numbers from 0 to 1, by which tries that come again are spread.
    """

    def __init__(
        self,
        access: Access,
        pace: Pace | None = None,
        clock: Clock = SYSTEM,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._access = access
        self._identity = access.identity()
        self._pace = pace
        self._jitter = jitter
        self._clock = clock
        self._outbox = Outbox()
        self._idle: list[tuple[Channel, ssl.SSLContext | None]] = []
        server = urlsplit(access.server)
        self._base = server.path.rstrip("/")
        always = [("Host", server.netloc.rpartition("@")[2]), ("Accept", "application/json")]
        always += [("User-Agent", "resettle"), *access.impersonation]
        if access.proxy and access.trust is None:
            # A proxy that is not tunnelled through has to be told where to.
            self._base = access.server
            always += proxy_credentials(access.proxy).items()
        self._always = written(always)
        self._written: tuple[Headers, bytes] = ((), self._always)

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
        """The address, for messages."""
        return self._access.server

    @property
    def access(self) -> Access:
        """Where we ask, and as whom."""
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
        before: Before | None = None,
    ) -> Answer:
        """The answer to one request, whatever it is.

        Each try has `within` seconds; tries that were certainly not acted upon are repeated for
        up to `patience` seconds. `before` is called as each try goes out, and may raise to stop it.
        """
        began = self._clock.steady()
        tries = 0
        while True:
            tries += 1
            heard: Answer | ClusterUnreachable
            try:
                heard = await self._tried(method, path, body, query, content_type, within, before)
                if heard.fine:
                    return heard
            except AnswerLost:
                raise
            except ClusterUnreachable as error:
                heard = error
            spent = self._clock.steady() - began
            pause = pause_before_retry(method, heard, tries, patience - spent)
            if pause is not None:
                # Those who were turned away together shall not come back together.
                await self._clock.sleep(pause * (1 + _SPREAD * self._jitter()))
            elif isinstance(heard, Answer):
                return heard
            else:
                raise heard

    async def _tried(
        self,
        method: str,
        path: str,
        body: bytes | None,
        query: Mapping[str, str] | None,
        content_type: str,
        within: float,
        before: Before | None,
    ) -> Answer:
        """The answer, asked for once more with newer credentials if there are any."""
        typed = b"" if body is None else _typed(content_type)
        for last in (False, True):
            shown = await self._shown()
            if self._pace is not None:
                await self._pace.turn()
            asked = request(method, self._target(path, query), self._headers(shown) + typed, body)
            answer = _answer(*await self._exchanged(method, asked, within, before))
            if answer.fine or last or not await self._signs_in_anew(answer.status, shown):
                break
        return answer

    async def _exchanged(
        self, method: str, asked: bytes, within: float, before: Before | None
    ) -> tuple[Incoming, bytes]:
        """One request and its answer; what can do no harm is sent again over a new connection."""
        while True:
            channel = self._put_aside()
            fresh = channel is None
            channel = channel or await self._connected()
            try:
                answers = channel.expect(1, within)
                self._outbox.put(channel, asked, before)
                (heard,) = await answers
            except (OSError, TimeoutError) as error:
                channel.close()
                if dislikes_us(error):
                    raise await self._unreachable(error) from None
                harmless = method in _IDEMPOTENT or not channel.sent
                if fresh or not harmless or isinstance(error, TimeoutError):
                    raise answer_lost(self._access, error) from None
            except BaseException:
                channel.close()
                raise
            else:
                self._put_by(channel)
                return heard

    async def post_all(
        self, posts: Sequence[tuple[str, bytes]], *, within: float = _ANSWER_SECONDS
    ) -> list[Answer]:
        """The answers to posts of (path, body), all sent over one connection without waiting.

        Much cheaper for many small things, and only for what may be lost: if the connection breaks,
        nobody can say which of them arrived. No more are sent than `at_once` gives.
        """
        shown = await self._shown()
        headers = self._headers(shown) + _typed("application/json")
        asked = [request("POST", self._target(path, None), headers, body) for path, body in posts]
        if self._pace is not None:
            for _ in posts:
                await self._pace.turn()
        channel = self._put_aside() or await self._connected()
        try:
            answers = channel.expect(len(posts), within)
            self._outbox.put(channel, b"".join(asked))
            heard = await answers
        except (OSError, TimeoutError) as error:
            channel.close()
            raise answer_lost(self._access, error) from None
        except BaseException:
            channel.close()
            raise
        self._put_by(channel)
        return [_answer(incoming, body) for incoming, body in heard]

    def at_once(self) -> float:
        """How many requests could go out now without being held back."""
        return math.inf if self._pace is None else self._pace.at_once()

    async def watch(
        self, path: str, query: Mapping[str, str], *, quiet_for: float
    ) -> AsyncIterator[Answer | bytes]:
        """First the refusal if there is one, else the lines of a watch as they come.

        Ends when the server ends it; nothing heard for `quiet_for` seconds is an error.
        """
        for last in (False, True):
            shown = await self._shown()
            channel = await self._connected()
            try:
                asked = request("GET", self._target(path, query), self._headers(shown), None)
                async with asyncio.timeout(quiet_for):
                    incoming = await channel.begin(asked)
                pieces = _within(channel.pieces(), quiet_for)
                if incoming.status == 200:
                    lines = Lines()
                    async for piece in pieces:
                        for line in lines.of(piece):
                            yield line
                    return
                said = b"".join([piece async for piece in pieces])
            except (OSError, TimeoutError) as error:
                if dislikes_us(error):
                    raise await self._unreachable(error) from None
                raise ClusterUnreachable(f"{self.server} ended a watch: {reason(error)}") from None
            finally:
                channel.close()
            if last or not await self._signs_in_anew(incoming.status, shown):
                yield _answer(incoming, said)
                return

    # -- connections ----------------------------------------------------------------------------

    @property
    def _trust(self) -> ssl.SSLContext | None:
        return self._identity.trust or self._access.trust

    def _target(self, path: str, query: Mapping[str, str] | None) -> str:
        return f"{self._base}{path}?{urlencode(query)}" if query else self._base + path

    def _put_aside(self) -> Channel | None:
        """A connection that was used before and can be used again."""
        trust, soon = self._trust, self._clock.steady() - _IDLE_SECONDS
        while self._idle:
            channel, trusted = self._idle.pop()
            if channel.usable and trusted is trust and channel.used_at > soon:
                return channel
            channel.close()
        return None

    def _put_by(self, channel: Channel) -> None:
        if channel.usable:
            channel.used_at = self._clock.steady()
            self._idle.append((channel, self._trust))
        else:
            channel.close()

    async def _connected(self) -> Channel:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await Channel.open(self._access, self._trust)
        except (OSError, TimeoutError) as error:
            raise await self._unreachable(error) from None

    # -- who we are -----------------------------------------------------------------------------

    async def _shown(self) -> Headers:
        if self._identity.due():
            await asyncio.to_thread(self._identity.renew)
        return self._identity.headers()

    def _headers(self, shown: Headers) -> bytes:
        """What goes with every request until there are newer credentials."""
        if shown is not self._written[0]:
            self._written = (shown, self._always + written(shown))
        return self._written[1]

    async def _signs_in_anew(self, status: int, shown: Headers) -> bool:
        """Whether there are newer credentials than those that were just turned down."""
        return status == _UNAUTHORIZED and await asyncio.to_thread(self._identity.renew, shown)

    async def _unreachable(self, error: Exception) -> ClusterUnreachable:
        return await asyncio.to_thread(unreachable, self._access, error)


@cache
def _typed(content_type: str) -> bytes:
    return written([("Content-Type", content_type)])


def _answer(incoming: Incoming, body: bytes) -> Answer:
    if incoming.status < 300:
        return Answer(incoming.status, body)
    told = incoming.header(b"retry-after")
    return Answer(incoming.status, body, float(told) if told.isdigit() else None)


async def _within(pieces: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """The pieces; a pause longer than this is an error."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        yield piece
