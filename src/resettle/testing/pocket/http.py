"""The server's voice: sockets, tokens, streams and mishaps. The thinking is done elsewhere."""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Mapping

from aiohttp import web

from resettle.testing.pocket.answers import Answer, Desk, Request, told
from resettle.testing.pocket.asked import Asked
from resettle.testing.pocket.discovery import HEALTH, document, group_of
from resettle.testing.pocket.faults import Fault, Faults
from resettle.testing.pocket.ledger import Ledger
from resettle.testing.pocket.lists import number
from resettle.testing.pocket.refusals import Declined, unauthorized, unknown_path
from resettle.testing.pocket.routes import Target, target
from resettle.testing.pocket.watching import Watch

_JSON = "application/json"
_LARGEST_BODY = 16 * 1024 * 1024
_SLICES_PER_SECOND = 20
NO_FAULT = Fault()


class Voice:
    """Speaks HTTP for a desk, on the loop it is opened in."""

    def __init__(self, ledger: Ledger, desk: Desk, faults: Faults, token: str) -> None:
        self._ledger = ledger
        self._desk = desk
        self._faults = faults
        self._token = token
        self._watches: set[_Teller] = set()
        self._closing = False
        self._runner: web.AppRunner | None = None
        self.asked: list[Asked] = []

    async def open(self, tls: ssl.SSLContext | None) -> int:
        """The port it listens at."""
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Ends all watches, then the server."""
        self._closing = True
        self._ledger.wake()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    def drop_watches(self) -> None:
        """Breaks off every open watch, in the middle of whatever it says."""
        for teller in tuple(self._watches):
            teller.breaks_off()

    # -- one request ----------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        found = target(self._ledger.catalogue, request.method, request.path, query)
        verb = found.verb if found else request.method.lower()
        self.asked.append(_looked_back_on(request, verb, query))
        fault = self._faults.take(verb, request.path) or NO_FAULT
        await asyncio.sleep(fault.delay_seconds)
        if fault.hang_up:
            _hang_up(request)
            return web.Response()
        try:
            if refusal := fault.refusal():
                raise refusal
            self._authenticate(request)
            if found is None:
                return self._elsewhere(request)
            self._desk.admit(found)
            if found.verb == "watch":
                return await self._watch(request, found, query, fault)
            sent = Request(query=query, media=_media(request), body=await request.read())
            answer = self._desk.answer(found, sent)
        except Declined as declined:
            return await _spoken(request, told(declined.code, declined.status()), fault, declined)
        return await _spoken(request, answer, fault)

    def _authenticate(self, request: web.Request) -> None:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self._token and not hmac.compare_digest(shown.encode(), self._token.encode()):
            raise unauthorized()

    def _elsewhere(self, request: web.Request) -> web.Response:
        """Health, discovery, or nothing at all."""
        if request.path.strip("/").partition("/")[0] in HEALTH:
            return web.Response(text="ok")
        found = document(self._ledger.catalogue, request.path)
        if found is None and document(self._ledger.catalogue, group_of(request.path)):
            raise unknown_path()
        if found is None:
            return web.Response(status=404, text="404 page not found\n")
        return web.Response(body=told(200, found).body, content_type=_JSON)

    # -- watches --------------------------------------------------------------------------------

    async def _watch(
        self, request: web.Request, found: Target, query: Mapping[str, str], fault: Fault
    ) -> web.StreamResponse:
        seconds = number(query, "timeoutSeconds")
        chosen = self._desk.selected(found, Request(query=query))
        loop = asyncio.get_running_loop()
        news = asyncio.Event()

        def waker() -> None:
            loop.call_soon_threadsafe(news.set)

        # All in one turn, so that no change falls between what is there and what is new.
        with self._ledger.turn():
            watch = Watch(self._ledger, found.resource, chosen, query)
            lines = watch.first()
            self._ledger.wakers.add(waker)
            self._ledger.followers.add(watch.catch_up)
        response = web.StreamResponse(headers={"Content-Type": _JSON})
        response.enable_chunked_encoding()
        teller = _Teller(request, response, fault)
        self._watches.add(teller)
        try:
            await response.prepare(request)
            try:
                async with asyncio.timeout(seconds or None):
                    while await teller.tells(lines) and not watch.over and not self._closing:
                        await news.wait()
                        news.clear()
                        with self._ledger.turn():
                            lines = watch.news()
            except TimeoutError:
                with self._ledger.turn():
                    lines = [*watch.news(), *watch.last()]
                await teller.tells(lines)
        except ConnectionError:
            pass  # the client has left, or a fault has hung up
        finally:
            self._ledger.wakers.discard(waker)
            self._ledger.followers.discard(watch.catch_up)
            self._watches.discard(teller)
        return response


class _Teller:
    """Sends the lines of a watch until it is told to break off."""

    def __init__(self, request: web.Request, response: web.StreamResponse, fault: Fault) -> None:
        self._request = request
        self._response = response
        self._left = fault.drop_after_events
        self._speed = fault.bytes_per_second

    async def tells(self, lines: list[bytes]) -> bool:
        """Whether all lines were sent, and the watch goes on."""
        if self._left is not None:
            lines, self._left = lines[: self._left], self._left - len(lines)
        if lines:
            await _written(self._response, b"".join(lines), self._speed)
        if self._left is not None and self._left <= 0:
            self.breaks_off()
            return False
        return True

    def breaks_off(self) -> None:
        """Ends the connection after what was said so far, in the middle of the body."""
        if self._request.transport is not None:
            self._request.transport.close()


# -- answers -------------------------------------------------------------------------------------


async def _spoken(
    request: web.Request, answer: Answer, fault: Fault, declined: Declined | None = None
) -> web.StreamResponse:
    headers = {"Content-Type": _JSON}
    if declined is not None and declined.retry_after_seconds:
        headers["Retry-After"] = str(declined.retry_after_seconds)
    if fault.bytes_per_second is None:
        return web.Response(status=answer.code, body=answer.body, headers=headers)
    response = web.StreamResponse(status=answer.code, headers=headers)
    response.content_length = len(answer.body)
    await response.prepare(request)
    await _written(response, answer.body, fault.bytes_per_second)
    return response


async def _written(response: web.StreamResponse, body: bytes, speed: int | None) -> None:
    if speed is None:
        await response.write(body)
        return
    size = max(1, speed // _SLICES_PER_SECOND)
    for start in range(0, len(body), size):
        await response.write(body[start : start + size])
        await asyncio.sleep(size / speed)


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _media(request: web.Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip()


def _looked_back_on(request: web.Request, verb: str, query: dict[str, str]) -> Asked:
    agent = request.headers.get("User-Agent", "")
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    return Asked(verb, request.path, query, agent, token)
