"""One connection: request after request, as long as both sides are quick enough."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Awaitable, Callable
from ssl import SSLContext

from resettle.kube.transport.parser import MalformedResponse
from resettle.log import Log
from resettle.serving.http import Answer, Request, parsed, plain, written

LONGEST_HEAD = 16 << 10
"""Tokens of service accounts take one or two KiB."""
HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 10.0
REST_SECONDS = 120.0
"""How long a connection may wait for its next request; scrapes are a minute apart at most."""
SEND_SECONDS = 30.0
_END = b"\r\n\r\n"
_GOODBYE_SECONDS = 1.0

Respond = Callable[[Request], Awaitable[Answer]]


class Visit:
    """Somebody who is connected."""

    def __init__(self, line: socket.socket, respond: Respond, log: Log) -> None:
        self._line = line
        self._respond = respond
        self._log = log
        self.rests_since = asyncio.get_running_loop().time()
        """When we began to wait for a request; never, while one is being answered."""

    async def run(self, secured: Awaitable[SSLContext]) -> None:
        """Returns when the connection has ended."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LONGEST_HEAD)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                self._line,
                ssl=await secured,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_GOODBYE_SECONDS,
            )
        except OSError:
            self._line.close()
            return
        except BaseException:
            self._line.close()
            raise
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            patience = HEAD_SECONDS
            while await self._exchange(reader, writer, patience):
                patience = REST_SECONDS
            writer.close()
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # gone, or too slow
        finally:
            transport.abort()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float
    ) -> bool:
        """Answers one request, and says whether another may follow."""
        self.rests_since = asyncio.get_running_loop().time()
        lasts = head_only = False
        try:
            async with asyncio.timeout(patience):
                request = parsed(await reader.readuntil(_END))
        except asyncio.LimitOverrunError:
            answer = plain(431, "the head of the request is too long\n")
        except MalformedResponse as error:
            answer = plain(400, f"this is not HTTP: {error}\n")
        else:
            self.rests_since = math.inf
            answer = await self._answer(request)
            lasts, head_only = request.lasts, request.method == "HEAD"
        writer.write(written(answer, head_only=head_only, lasts=lasts))
        async with asyncio.timeout(SEND_SECONDS):
            await writer.drain()
        return lasts

    async def _answer(self, request: Request) -> Answer:
        try:
            return await self._respond(request)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self._log.error("request failed", path=request.path, reason=reason)
            return plain(500, "this could not be answered; the log says why\n")
