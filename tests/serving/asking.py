"""A door in this process, and somebody outside who asks over real sockets."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from resettle.clock import SYSTEM, Clock
from resettle.log import Log
from resettle.serving.door import Door, bound
from resettle.serving.http import Answer, Request, plain
from resettle.serving.papers import Papers
from resettle.serving.settings import Tls
from resettle.serving.visit import Respond

SECONDS = 20


def curious() -> ssl.SSLContext:
    """Trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Told(NamedTuple):
    """What was answered."""

    status: int
    body: bytes
    headers: http.client.HTTPMessage

    @property
    def text(self) -> str:
        """The body in words."""
        return self.body.decode()


class Caller:
    """One connection; every call blocks a thread, never the event loop."""

    def __init__(self, port: int, trust: ssl.SSLContext | None = None) -> None:
        self.line = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=SECONDS, context=trust or curious()
        )

    async def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> Told:
        """The answer to a request."""

        def ask() -> Told:
            self.line.request(method, path, headers=dict(headers or {}))
            heard = self.line.getresponse()
            return Told(heard.status, heard.read(), heard.headers)

        return await asyncio.to_thread(ask)

    async def say(self, raw: bytes) -> bytes:
        """All that comes back for these bytes until the connection ends."""

        def say() -> bytes:
            self.line.connect()
            self.line.sock.sendall(raw)
            heard = b""
            while piece := self.line.sock.recv(1 << 16):
                heard += piece
            return heard

        return await asyncio.to_thread(say)

    async def certificate(self) -> bytes:
        """What the other side shows of itself."""

        def look() -> bytes:
            self.line.connect()
            assert isinstance(self.line.sock, ssl.SSLSocket)
            return self.line.sock.getpeercert(binary_form=True) or b""

        return await asyncio.to_thread(look)

    def close(self) -> None:
        """Hangs up."""
        self.line.close()


async def asked(port: int, path: str, method: str = "GET", **headers: str) -> Told:
    """The answer to one request over a connection of its own."""
    caller = Caller(port)
    try:
        return await caller.ask(path, method, headers)
    finally:
        caller.close()


async def echo(request: Request) -> Answer:
    """Says what was asked for."""
    return plain(200, f"{request.method} {request.path}\n")


@asynccontextmanager
async def door(
    respond: Respond = echo,
    tls: Tls | None = None,
    log: list[str] | None = None,
    clock: Clock = SYSTEM,
) -> AsyncIterator[Door]:
    """A door that is open while the block lasts."""
    told = Log.to([] if log is None else log)
    papers = Papers(tls or Tls(), [], clock, told)
    papers.check()
    made = Door(bound("127.0.0.1", 0), papers.context, respond, told)
    async with made.open():
        yield made


def copied(source: Path, to: Path) -> None:
    """Puts one file in place of another, as a Secret that was renewed is put in place."""
    fresh = to.with_suffix(".new")
    fresh.write_bytes(source.read_bytes())
    fresh.replace(to)
