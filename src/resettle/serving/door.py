"""Where others connect: one port, TLS, and no more patience than a probe or a scrape takes.

Whoever connects can keep us busy with little, so a head has a largest size and a time to arrive, a
connection has a time to rest, and if there are too many the one that has rested longest is closed.
Everything happens on the event loop: an answer proves that it turns.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext

from resettle.errors import InputError
from resettle.log import Log
from resettle.serving.settings import EVERYWHERE
from resettle.serving.visit import Respond, Visit

MOST_VISITS = 100
_BACKLOG = 128
_PAUSE_SECONDS = 1.0


def bound(address: str, port: int) -> socket.socket:
    """A socket that listens there; raises if it cannot."""
    everywhere = address in EVERYWHERE
    six = ":" in address or (everywhere and socket.has_dualstack_ipv6())
    try:
        return socket.create_server(
            ("" if everywhere else address, port),
            family=socket.AF_INET6 if six else socket.AF_INET,
            backlog=_BACKLOG,
            dualstack_ipv6=six and everywhere,
        )
    except OSError as error:
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        raise InputError(
            f"cannot serve metrics and health on {where}: {os.strerror(error.errno or 0)}; name "
            "another port with --secure-port (0 serves nothing), or an address with --bind-address"
        ) from None


class Door:
    """Takes connections and answers over them while its block lasts."""

    def __init__(
        self,
        listener: socket.socket,
        secured: Callable[[], Awaitable[SSLContext]],
        respond: Respond,
        log: Log,
    ) -> None:
        self._listener = listener
        self._secured = secured
        self._respond = respond
        self._log = log
        self._visits: dict[Visit, asyncio.Task[None]] = {}
        """In the order they came."""

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._listener.getsockname()[1])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Answers while the block lasts; all connections end with it."""
        self._listener.setblocking(False)
        taking = asyncio.create_task(self._take())
        try:
            yield
        finally:
            ending = [taking, *self._visits.values()]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            self._listener.close()

    async def _take(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, _ = await loop.sock_accept(self._listener)
            except OSError as error:  # too many files are open, for one
                self._log.only_when_new("door").warning("nobody can connect", reason=str(error))
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if len(self._visits) >= MOST_VISITS:
                self._send_somebody_away()
            visit = Visit(line, self._respond, self._log)
            self._visits[visit] = asyncio.create_task(self._received(visit))

    async def _received(self, visit: Visit) -> None:
        try:
            await visit.run(self._secured())
        finally:
            self._visits.pop(visit, None)

    def _send_somebody_away(self) -> None:
        """Ends the connection that has rested longest, or else the oldest."""
        longest = min(self._visits, key=lambda visit: visit.rests_since)
        self._visits.pop(longest).cancel()
