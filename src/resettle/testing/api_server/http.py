"""The server's voice: sockets, tokens, streams and mishaps. The thinking is done elsewhere.

Answers on their way to a client: whole, slow, or broken off.

A request as a test looks back on it.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Mapping
from typing import NamedTuple

from aiohttp import web

from resettle.testing.api_server.discovery import HEALTH, document, group_of
from resettle.testing.api_server.faults import Fault, Faults
from resettle.testing.api_server.router import Answer, Desk, Request, Target, target, told
from resettle.testing.api_server.status import Declined, unauthorized, unknown_path
from resettle.testing.api_server.storage.lists import number
from resettle.testing.api_server.storage.revisions import Ledger
from resettle.testing.api_server.storage.watch import Watch

JSON = "application/json"
_SLICES_PER_SECOND = 20


async def spoken(
    request: web.Request, answer: Answer, fault: Fault, retry_after_seconds: int | None = None
) -> web.StreamResponse:
    """The answer, sent as the fault would have it."""
    headers = {"Content-Type": JSON}
    if retry_after_seconds:
        headers["Retry-After"] = str(retry_after_seconds)
    if fault.bytes_per_second is None and fault.cut_after_bytes is None:
        return web.Response(status=answer.code, body=answer.body, headers=headers)
    response = web.StreamResponse(status=answer.code, headers=headers)
    response.content_length = len(answer.body)
    await response.prepare(request)
    await written(response, answer.body[: fault.cut_after_bytes], fault.bytes_per_second)
    if fault.cut_after_bytes is not None:
        break_off(request)
    return response


async def written(response: web.StreamResponse, body: bytes, speed: int | None) -> None:
    """Sends the body, at so many bytes a second if that is said."""
    if speed is None:
        await response.write(body)
        return
    size = max(1, speed // _SLICES_PER_SECOND)
    for start in range(0, len(body), size):
        await response.write(body[start : start + size])
        await asyncio.sleep(size / speed)


def break_off(request: web.Request) -> None:
    """Ends the connection after what was said so far."""
    if request.transport is not None:
        request.transport.close()


def hang_up(request: web.Request) -> None:
    """Ends the connection at once."""
    if request.transport is not None:
        request.transport.abort()


class Asked(NamedTuple):
    """Who asked for what; the verb is that of roles, such as `list`."""

    verb: str
    path: str
    query: dict[str, str]
    user_agent: str
    token: str
    client: str
    """Address and port of whoever asked; the same for all requests of one connection."""


_LARGEST_BODY = 16 * 1024 * 1024
NO_FAULT = Fault()


class Voice:
    """Speaks HTTP for a desk, on the loop it is opened in."""

    def __init__(
        self, ledger: Ledger, desk: Desk, faults: Faults, *, token: str, prefix: str
    ) -> None:
        self._prefix = prefix
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
        path = self._below_prefix(request.path)
        found = target(self._ledger.catalogue, request.method, path, query)
        verb = found.verb if found else request.method.lower()
        self.asked.append(_looked_back_on(request, verb, query))
        fault = self._faults.take(verb, path) or NO_FAULT
        await asyncio.sleep(fault.delay_seconds)
        if fault.hang_up:
            hang_up(request)
            return web.Response()
        if fault.body is not None:
            instead = Answer(fault.status or 200, fault.body)
            return await spoken(request, instead, fault, fault.retry_after_seconds)
        try:
            if refusal := fault.refusal():
                raise refusal
            self._authenticate(request)
            if found is None:
                return self._elsewhere(path)
            self._desk.admit(found)
            if found.verb == "watch":
                return await self._watch(request, found, query, fault)
            asked = fault.narrowed(query) if found.verb == "list" else query
            sent = Request(query=asked, media=_media(request), body=await request.read())
            answer = self._desk.answer(found, sent)
        except Declined as declined:
            refused = told(declined.code, declined.status())
            return await spoken(request, refused, fault, declined.retry_after_seconds)
        await asyncio.sleep(fault.hold_seconds)
        return await spoken(request, answer, fault)

    def _below_prefix(self, path: str) -> str:
        """The path as an API server without a prefix would see it; empty outside of it."""
        return path.removeprefix(self._prefix) if path.startswith(self._prefix) else ""

    def _authenticate(self, request: web.Request) -> None:
        shown = _token(request)
        if self._token and not hmac.compare_digest(shown.encode(), self._token.encode()):
            raise unauthorized()

    def _elsewhere(self, path: str) -> web.Response:
        """Health, discovery, or nothing at all."""
        if path.strip("/").partition("/")[0] in HEALTH:
            return web.Response(text="ok")
        found = document(self._ledger.catalogue, path)
        if found is None and document(self._ledger.catalogue, group_of(path)):
            raise unknown_path()
        if found is None:
            return web.Response(status=404, text="404 page not found\n")
        return web.Response(body=told(200, found).body, content_type=JSON)

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
        response = web.StreamResponse(headers={"Content-Type": JSON})
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
        self._first = [fault.begins_with.encode() + b"\n"] if fault.begins_with else []
        self._times = 2 if fault.twice else 1

    async def tells(self, lines: list[bytes]) -> bool:
        """Whether all lines were sent, and the watch goes on."""
        lines, self._first = self._first + [it for it in lines for _ in range(self._times)], []
        if self._left is not None:
            lines, self._left = lines[: self._left], self._left - len(lines)
        if lines:
            await written(self._response, b"".join(lines), self._speed)
        if self._left is not None and self._left <= 0:
            self.breaks_off()
            return False
        return True

    def breaks_off(self) -> None:
        """Ends the connection after what was said so far, in the middle of the body."""
        break_off(self._request)


def _media(request: web.Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip()


def _token(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if scheme == "Bearer" else ""


def _looked_back_on(request: web.Request, verb: str, query: dict[str, str]) -> Asked:
    agent = request.headers.get("User-Agent", "")
    host, port, *_ = request.transport.get_extra_info("peername") if request.transport else ("", 0)
    return Asked(verb, request.path, query, agent, _token(request), f"{host}:{port}")
