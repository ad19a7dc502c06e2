"""An HTTPS server in this process, and a client that asks it over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from resettle.clock import SYSTEM, Clock
from resettle.https import ServingCertificate, Tls
from resettle.https.server import HttpsServer, ServerLimits, listen
from resettle.log import Log

SECONDS = 20


def play(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine, for a limited time."""
    asyncio.run(asyncio.wait_for(scenario, 3 * SECONDS))


def trust_all() -> ssl.SSLContext:
    """A client's context that verifies nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Response(NamedTuple):
    """What a client got."""

    status: int
    body: bytes
    headers: http.client.HTTPMessage

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


class HttpsClient:
    """One connection; every call blocks a thread, never the event loop."""

    def __init__(self, port: int, trust: ssl.SSLContext | None = None) -> None:
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=SECONDS, context=trust or trust_all()
        )

    async def request(
        self,
        path: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Response:
        """The response to a request."""

        def request() -> Response:
            self.connection.request(method, path, body, headers=dict(headers or {}))
            response = self.connection.getresponse()
            return Response(response.status, response.read(), response.headers)

        return await asyncio.to_thread(request)

    async def send(self, raw: bytes) -> bytes:
        """All that comes back for these bytes until the connection ends."""

        def send() -> bytes:
            self.connection.connect()
            self.connection.sock.sendall(raw)
            received = b""
            while piece := self.connection.sock.recv(1 << 16):
                received += piece
            return received

        return await asyncio.to_thread(send)

    async def certificate(self) -> bytes:
        """The certificate of the server."""

        def handshake() -> bytes:
            self.connection.connect()
            assert isinstance(self.connection.sock, ssl.SSLSocket)
            return self.connection.sock.getpeercert(binary_form=True) or b""

        return await asyncio.to_thread(handshake)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


async def get(port: int, path: str, method: str = "GET", **headers: str) -> Response:
    """The response to one request over a connection of its own."""
    client = HttpsClient(port)
    try:
        return await client.request(path, method, headers)
    finally:
        client.close()


async def echo(request: web.Request) -> web.StreamResponse:
    """Says what was asked for."""
    return web.Response(text=f"{request.method} {request.path}\n")


@asynccontextmanager
async def serving(
    handler: Handler = echo,
    tls: Tls | None = None,
    log: list[str] | None = None,
    clock: Clock = SYSTEM,
    limits: ServerLimits | None = None,
) -> AsyncIterator[HttpsServer]:
    """A server with one handler for all paths, while the block lasts."""
    to_list = Log.to([] if log is None else log)
    certificate = ServingCertificate(tls or Tls(), "127.0.0.1", clock, to_list)
    certificate.check()
    routes = [web.route("*", "/{path:.*}", handler)]
    listener = listen("127.0.0.1", 0)
    server = HttpsServer(listener, certificate, to_list, public=routes, limits=limits)
    async with server.run():
        yield server


def replace_file(source: Path, to: Path) -> None:
    """Put one file in place of another, as the kubelet does with a renewed Secret."""
    fresh = to.with_suffix(".new")
    fresh.write_bytes(source.read_bytes())
    fresh.replace(to)
