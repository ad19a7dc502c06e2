"""HTTP front end of the test API server: connections, tokens, watch streams and faults.

Requests are handled in `router`; here responses are sent whole, slowly, or cut off by a fault.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Mapping

from aiohttp import web

from resettle.testing.api_server.discovery import HEALTH, document, group_of
from resettle.testing.api_server.faults import Fault, Faults
from resettle.testing.api_server.router import (
    ReceivedRequest,
    Request,
    RequestHandler,
    RequestTarget,
    ServerResponse,
    json_response,
    read_target,
)
from resettle.testing.api_server.status import Declined, missing_credentials, unknown_path
from resettle.testing.api_server.storage.lists import number
from resettle.testing.api_server.storage.revisions import Storage
from resettle.testing.api_server.storage.watch import Watch

JSON = "application/json"
_SLICES_PER_SECOND = 20


async def send_response(
    request: web.Request,
    answer: ServerResponse,
    fault: Fault,
    retry_after_seconds: int | None = None,
) -> web.StreamResponse:
    """Send the response, slowed down or cut off as the fault says."""
    headers = {"Content-Type": JSON}
    if retry_after_seconds:
        headers["Retry-After"] = str(retry_after_seconds)
    if fault.bytes_per_second is None and fault.cut_after_bytes is None:
        return web.Response(status=answer.code, body=answer.body, headers=headers)
    response = web.StreamResponse(status=answer.code, headers=headers)
    response.content_length = len(answer.body)
    await response.prepare(request)
    await send_body(response, answer.body[: fault.cut_after_bytes], fault.bytes_per_second)
    if fault.cut_after_bytes is not None:
        close_connection(request)
    return response


async def send_body(response: web.StreamResponse, body: bytes, speed: int | None) -> None:
    """Send the body, at `speed` bytes a second unless that is None."""
    if speed is None:
        await response.write(body)
        return
    size = max(1, speed // _SLICES_PER_SECOND)
    for start in range(0, len(body), size):
        await response.write(body[start : start + size])
        await asyncio.sleep(size / speed)


def close_connection(request: web.Request) -> None:
    """Close the connection after what was sent so far."""
    if request.transport is not None:
        request.transport.close()


def abort_connection(request: web.Request) -> None:
    """Abort the connection at once."""
    if request.transport is not None:
        request.transport.abort()


_LARGEST_BODY = 16 * 1024 * 1024
NO_FAULT = Fault()


class HttpFrontEnd:
    """Serves a request handler over HTTP, on the event loop it is opened in."""

    def __init__(
        self, storage: Storage, handler: RequestHandler, faults: Faults, *, token: str, prefix: str
    ) -> None:
        self._prefix = prefix
        self._storage = storage
        self._handler = handler
        self._faults = faults
        self._token = token
        self._watches: set[_WatchStream] = set()
        self._closing = False
        self._runner: web.AppRunner | None = None
        self.requests: list[ReceivedRequest] = []

    async def open(self, tls: ssl.SSLContext | None) -> int:
        """Start to listen and return the port."""
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
        self._storage.wake()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    def drop_watches(self) -> None:
        """Break off every open watch, even in the middle of an event."""
        for stream in tuple(self._watches):
            stream.break_off()

    # -- one request ----------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        path = self._below_prefix(request.path)
        target = read_target(self._storage.catalogue, request.method, path, query)
        verb = target.verb if target else request.method.lower()
        self.requests.append(_received_request(request, verb, query))
        fault = self._faults.take(verb, path) or NO_FAULT
        await asyncio.sleep(fault.delay_seconds)
        if fault.hang_up:
            abort_connection(request)
            return web.Response()
        if fault.body is not None:
            instead = ServerResponse(fault.status or 200, fault.body)
            return await send_response(request, instead, fault, fault.retry_after_seconds)
        try:
            if refusal := fault.refusal():
                raise refusal
            self._authenticate(request)
            if target is None:
                return self._answer_other_path(path)
            self._handler.admit(target)
            if target.verb == "watch":
                return await self._watch(request, target, query, fault)
            asked = fault.limit_page(query) if target.verb == "list" else query
            sent = Request(query=asked, media=_media(request), body=await request.read())
            answer = self._handler.answer(target, sent)
        except Declined as declined:
            refused = json_response(declined.code, declined.status())
            return await send_response(request, refused, fault, declined.retry_after_seconds)
        await asyncio.sleep(fault.hold_seconds)
        return await send_response(request, answer, fault)

    def _below_prefix(self, path: str) -> str:
        """The path as an API server without a prefix would see it; empty outside of it."""
        return path.removeprefix(self._prefix) if path.startswith(self._prefix) else ""

    def _authenticate(self, request: web.Request) -> None:
        shown = _token(request)
        if self._token and not hmac.compare_digest(shown.encode(), self._token.encode()):
            raise missing_credentials()

    def _answer_other_path(self, path: str) -> web.Response:
        """Health, discovery, or nothing at all."""
        if path.strip("/").partition("/")[0] in HEALTH:
            return web.Response(text="ok")
        discovered = document(self._storage.catalogue, path)
        if discovered is None and document(self._storage.catalogue, group_of(path)):
            raise unknown_path()
        if discovered is None:
            return web.Response(status=404, text="404 page not found\n")
        return web.Response(body=json_response(200, discovered).body, content_type=JSON)

    # -- watches --------------------------------------------------------------------------------

    async def _watch(
        self, request: web.Request, target: RequestTarget, query: Mapping[str, str], fault: Fault
    ) -> web.StreamResponse:
        seconds = number(query, "timeoutSeconds")
        chosen = self._handler.selection_of(target, Request(query=query))
        loop = asyncio.get_running_loop()
        news = asyncio.Event()

        def waker() -> None:
            loop.call_soon_threadsafe(news.set)

        # In one transaction, so that no change is lost between the first lines and the later ones.
        with self._storage.transaction():
            watch = Watch(self._storage, target.resource, chosen, query)
            lines = watch.first()
            self._storage.wakers.add(waker)
            self._storage.followers.add(watch.catch_up)
        response = web.StreamResponse(headers={"Content-Type": JSON})
        response.enable_chunked_encoding()
        stream = _WatchStream(request, response, fault)
        self._watches.add(stream)
        try:
            await response.prepare(request)
            try:
                async with asyncio.timeout(seconds or None):
                    while await stream.send(lines) and not watch.over and not self._closing:
                        await news.wait()
                        news.clear()
                        with self._storage.transaction():
                            lines = watch.news()
            except TimeoutError:
                with self._storage.transaction():
                    lines = [*watch.news(), *watch.last()]
                await stream.send(lines)
        except ConnectionError:
            pass  # the client has left, or a fault has hung up
        finally:
            self._storage.wakers.discard(waker)
            self._storage.followers.discard(watch.catch_up)
            self._watches.discard(stream)
        return response


class _WatchStream:
    """Sends the lines of a watch until it ends or is broken off."""

    def __init__(self, request: web.Request, response: web.StreamResponse, fault: Fault) -> None:
        self._request = request
        self._response = response
        self._left = fault.drop_after_events
        self._speed = fault.bytes_per_second
        self._first = [fault.begins_with.encode() + b"\n"] if fault.begins_with else []
        self._times = 2 if fault.twice else 1

    async def send(self, lines: list[bytes]) -> bool:
        """Whether all lines were sent, and the watch goes on."""
        lines, self._first = self._first + [line for line in lines for _ in range(self._times)], []
        if self._left is not None:
            lines, self._left = lines[: self._left], self._left - len(lines)
        if lines:
            await send_body(self._response, b"".join(lines), self._speed)
        if self._left is not None and self._left <= 0:
            self.break_off()
            return False
        return True

    def break_off(self) -> None:
        """Close the connection in the middle of the body."""
        close_connection(self._request)


def _media(request: web.Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip()


def _token(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if scheme == "Bearer" else ""


def _received_request(request: web.Request, verb: str, query: dict[str, str]) -> ReceivedRequest:
    agent = request.headers.get("User-Agent", "")
    host, port, *_ = request.transport.get_extra_info("peername") if request.transport else ("", 0)
    return ReceivedRequest(verb, request.path, query, agent, _token(request), f"{host}:{port}")
