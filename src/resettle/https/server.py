"""An HTTPS server on aiohttp: one port, routes, limits, and a stop that lets requests finish.

    server = HttpsServer(listen("0.0.0.0", 10258), certificate, log, public=[web.get("/livez", …)])
    async with server.run(): …

A client can keep a server busy at little cost. So heads and bodies have a largest size, each stage
of a request has a time limit, and when there are too many connections the one that has been idle
longest is closed. Handlers run on the event loop: a response proves that the loop is not stuck.
aiohttp parses requests and writes responses; accepting is done here, so that connections count
from the first byte of the TLS handshake and each gets the certificate of its moment.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import HttpVersion10, web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.typedefs import Handler
from msgspec import Struct

from resettle.errors import InputError
from resettle.https.authorization import AllowAll, Authorizer
from resettle.https.certificates import ALL_ADDRESSES, ServingCertificate
from resettle.log import Log

_BACKLOG = 128
_ACCEPT_PAUSE_SECONDS = 1.0
_CLOSE_SECONDS = 0.5
"""How long a closing connection may take to send what is left and to end TLS."""
_LINGER_SECONDS = 1.0
"""How long a body that no handler wanted is read and dropped, so that the response arrives."""

_HEADERS = {
    "Server": "resettle",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class ServerLimits(Struct, frozen=True, kw_only=True):
    """What one client may take of the server."""

    connections: int = 100
    handshake_seconds: float = 10.0
    first_request_seconds: float = 10.0
    """From the end of the handshake to the end of the first request's head."""
    keep_alive_seconds: float = 120.0
    """From one response to the end of the next head; scrapes are a minute apart at most."""
    request_seconds: float = 30.0
    """From the end of the head to the start of the response, a body included."""
    send_seconds: float = 30.0
    stop_seconds: float = 2.0
    """How long requests may go on when the server stops."""
    body_bytes: int = 1 << 20
    header_bytes: int = 8 << 10
    """The largest single header; tokens of service accounts take one or two KiB."""
    headers: int = 64


def listen(address: str, port: int, what: str = "HTTPS") -> socket.socket:
    """A listening socket; raises an error that names what was to be served if there cannot be one.

    An address that stands for all is bound for IPv4 and IPv6.
    """
    everywhere = address in ALL_ADDRESSES
    v6 = ":" in address or (everywhere and socket.has_dualstack_ipv6())
    try:
        return socket.create_server(
            ("" if everywhere else address, port),
            family=socket.AF_INET6 if v6 else socket.AF_INET,
            backlog=_BACKLOG,
            dualstack_ipv6=v6 and everywhere,
        )
    except OSError as error:
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        raise InputError(
            f"cannot serve {what} on {where}: {os.strerror(error.errno or 0)}; name "
            "another port with --secure-port (0 serves nothing), or an address with --bind-address"
        ) from None


class ServerConnection(web.RequestHandler):
    """One connection, from its accept to its end; aiohttp does the HTTP on it."""

    def __init__(
        self,
        server: web.Server,
        limits: ServerLimits,
        log: Log,
        on_end: Callable[[ServerConnection], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=limits.keep_alive_seconds,
            lingering_time=_LINGER_SECONDS,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=limits.headers,
            auto_decompress=False,
            access_log=None,  # type: ignore[arg-type]  # aiohttp's way to say no access log
        )
        self._log = log
        self._clock = loop.time
        self._limits = limits
        self._on_end = on_end
        self._tls_transport: asyncio.Transport | None = None
        self._first_request: asyncio.TimerHandle | None = None
        self.opening: asyncio.Task[None] | None = None
        self.idle_since = loop.time()
        """When we began to wait for the client; infinite while a request is handled."""
        self.time_limit: asyncio.Timeout | None = None
        """The limit of the request that is being handled."""

    def open(self, accepted: socket.socket, certificate: ServingCertificate) -> None:
        """Start the TLS handshake on an accepted socket; a failure ends the connection."""

        def end_if_failed(opening: asyncio.Task[None]) -> None:
            if not self.is_open:
                accepted.close()
                self._on_end(self)

        self.opening = asyncio.create_task(self._shake_hands(accepted, certificate))
        self.opening.add_done_callback(end_if_failed)

    async def _shake_hands(self, accepted: socket.socket, certificate: ServingCertificate) -> None:
        with suppress(OSError):  # no TLS, no common version or cipher, too slow, closed
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self,
                accepted,
                ssl=await certificate.context(),
                ssl_handshake_timeout=self._limits.handshake_seconds,
                ssl_shutdown_timeout=_CLOSE_SECONDS,
            )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to wait for the first request."""
        assert isinstance(transport, asyncio.Transport)
        self._tls_transport = transport
        self._first_request = asyncio.get_running_loop().call_later(
            self._limits.first_request_seconds, self.abort
        )
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._stop_first_request_timer()
        super().connection_lost(exc)
        self._on_end(self)

    def start_request(self) -> None:
        """Note that a request is being handled."""
        self._stop_first_request_timer()
        self.idle_since = math.inf

    def end_request(self) -> None:
        """Note that the response has been sent."""
        self.idle_since = self._clock()

    @property
    def is_open(self) -> bool:
        """Whether the TLS handshake is done."""
        return self._tls_transport is not None

    def abort(self) -> None:
        """Close the connection at once, whatever it is doing."""
        if self.opening is not None:
            self.opening.cancel()
        if self._tls_transport is not None:
            self._tls_transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to bytes that aiohttp cannot read as a request; the connection ends."""
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the response has been sent already")
        if isinstance(exc, LineTooLong):
            status = 431
        text = f"this is no request that can be handled: {message or status}\n"
        response = web.Response(status=status, text=text, headers=_HEADERS)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **facts: Any) -> None:
        """Log an error that aiohttp met outside of handlers, once until there is another."""
        error = facts.get("exc_info")
        self._log.only_when_new("connection").error(
            "connection failed", reason=f"{type(error).__name__}: {error}"
        )

    def _stop_first_request_timer(self) -> None:
        if self._first_request is not None:
            self._first_request.cancel()
            self._first_request = None


class HttpsServer:
    """Serves routes over HTTPS; for `protected` ones the authorizer decides who gets them."""

    def __init__(
        self,
        listener: socket.socket,
        certificate: ServingCertificate,
        log: Log,
        *,
        public: Iterable[web.AbstractRouteDef] = (),
        protected: Iterable[web.AbstractRouteDef] = (),
        authorizer: Authorizer | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        self._listener = listener
        self._certificate = certificate
        self._log = log
        self._authorizer = authorizer or AllowAll()
        self._limits = limits or ServerLimits()
        self._connections: dict[ServerConnection, None] = {}
        """In the order in which they were accepted."""
        self._app = web.Application(
            middlewares=[self._serve], client_max_size=self._limits.body_bytes
        )
        self._app.on_response_prepare.append(self._prepare_headers)
        self._app.add_routes(public)
        self._protected = {
            route.resource
            for definition in protected
            for route in self._app.add_routes([definition])
        }

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listener.getsockname()[1])

    @property
    def connections(self) -> int:
        """How many connections there are, those in their handshake included."""
        return len(self._connections)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve while the block lasts; then requests may finish, and all connections end."""
        self._listener.setblocking(False)
        runner = web.AppRunner(self._app, shutdown_timeout=self._limits.stop_seconds)
        await runner.setup()
        assert runner.server is not None
        accepting = asyncio.create_task(self._accept(runner.server))
        try:
            yield
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
            self._listener.close()
            opening = [connection.opening for connection in self._connections if connection.opening]
            for connection in list(self._connections):
                if not connection.is_open:
                    connection.abort()
            await asyncio.gather(*opening, return_exceptions=True)
            await runner.cleanup()
            await self._end_connections()

    async def _end_connections(self) -> None:
        """Give connections a moment to send what is left, then abort them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._connections:
                    await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # aborted transports report their end in the next turn of the loop

    # -- connections ------------------------------------------------------------------------------

    async def _accept(self, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError as error:  # for example too many open files
                log = self._log.only_when_new("accept")
                log.warning("connections cannot be accepted", reason=str(error))
                await asyncio.sleep(_ACCEPT_PAUSE_SECONDS)
                continue
            if len(self._connections) >= self._limits.connections:
                self._close_longest_idle()
            connection = ServerConnection(server, self._limits, self._log, self._forget)
            self._connections[connection] = None
            connection.open(accepted, self._certificate)

    def _close_longest_idle(self) -> None:
        """Close the connection that has been idle longest, or else the oldest."""
        longest = min(self._connections, key=lambda connection: connection.idle_since)
        self._forget(longest)
        longest.abort()

    def _forget(self, connection: ServerConnection) -> None:
        self._connections.pop(connection, None)

    # -- requests ---------------------------------------------------------------------------------

    @web.middleware
    async def _serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, ServerConnection)
        connection.start_request()
        try:
            response = await self._respond(request, handler, connection)
            if request.can_read_body:
                response.force_close()
            if not response.prepared and request.writer.output_size > 0:
                connection.abort()  # another response has begun, and cannot be completed
            try:
                async with asyncio.timeout(self._limits.send_seconds):
                    await response.prepare(request)
                    await response.write_eof()
            except TimeoutError:
                connection.abort()
            return response
        finally:
            connection.end_request()

    async def _respond(
        self, request: web.Request, handler: Handler, connection: ServerConnection
    ) -> web.StreamResponse:
        try:
            async with asyncio.timeout(self._limits.request_seconds) as connection.time_limit:
                if request.version < HttpVersion10:
                    raise web.HTTPBadRequest(text="write HTTP/1.0 or HTTP/1.1\n")
                if request.match_info.route.resource in self._protected:
                    refusal = await self._authorizer.refusal(request)
                    if refusal is not None:
                        return refusal
                return await handler(request)
        except web.HTTPException as error:
            return self._error_response(request, error)
        except web.RequestPayloadError as error:
            return web.Response(status=400, text=f"the body cannot be read: {error}\n")
        except TimeoutError:
            log = self._log.only_when_new("request time")
            log.warning("request took too long", path=request.path)
            return web.Response(status=503, text="this took too long\n")
        except Exception as error:
            if request.transport is None:
                raise  # the client has gone
            reason = f"{type(error).__name__}: {error}"
            self._log.error("request failed", path=request.path, reason=reason)
            return web.Response(status=500, text="this request failed; the log says why\n")
        finally:
            connection.time_limit = None

    def _error_response(self, request: web.Request, error: web.HTTPException) -> web.Response:
        """The response of an error that the router or a handler raised."""
        text = error.text
        if isinstance(error, web.HTTPMethodNotAllowed):
            text = f"only {', '.join(sorted(error.allowed_methods))}\n"
        elif isinstance(error, web.HTTPNotFound) and request.match_info.http_exception is error:
            paths = [resource.canonical for resource in self._app.router.resources()]
            plain = dict.fromkeys(path for path in paths if "{" not in path)
            text = f"nothing is served here; there is {', '.join(plain)}\n"
        headers = error.headers.copy()
        headers.popall("Content-Type", None)
        headers.popall("Content-Length", None)
        return web.Response(status=error.status, text=text, headers=headers)

    async def _prepare_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """Set the headers of every response; a response that has begun has no time limit."""
        response.headers["Server"] = _HEADERS["Server"]  # aiohttp has put its version there
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        connection = request.protocol
        if isinstance(connection, ServerConnection) and connection.time_limit is not None:
            connection.time_limit.reschedule(None)
