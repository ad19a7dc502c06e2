"""The pocket API server, as a test holds it.

    with PocketServer(world.objects) as pocket:
        ...  # any client, at pocket.url

In a test that has a loop already, `async with` serves on that loop; otherwise the server brings a
thread and a loop of its own. Nothing of aiohttp is imported before a server starts.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING

from resettle.testing.api_server.discovery import Ban
from resettle.testing.api_server.faults import Fault, Faults
from resettle.testing.api_server.http import Asked
from resettle.testing.api_server.router import Desk
from resettle.testing.api_server.storage.revisions import Ledger
from resettle.testing.api_server.storage.store import Store
from resettle.testing.builders import Object

if TYPE_CHECKING:
    from resettle.testing.api_server.http import Voice

_PATIENCE_SECONDS = 30


def _wall_clock() -> datetime:
    return datetime.now(UTC)


class PocketServer:
    """An API server on a loopback port, with these objects in it.

    `token` is what clients have to show, if anything. `tls` is the server's certificate as a
    context, and `authority` the file of who vouches for it, for the kubeconfig. `bans` are what
    nobody may do. `clock` stamps what is created, deleted and evicted. `prefix` is a path that all
    others are below, as with a server behind a gateway: `/k8s/clusters/c1`.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        clock: Callable[[], datetime] = _wall_clock,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        authority: Path | None = None,
        bans: Iterable[Ban] = (),
        faults: Iterable[Fault] = (),
        prefix: str = "",
    ) -> None:
        self._ledger = Ledger(clock)
        self.store = Store(self._ledger, objects)
        self.faults = Faults(faults)
        self.bans = list(bans)
        self._token = token
        self._tls = tls
        self._authority = authority
        self._prefix = f"/{prefix.strip('/')}" if prefix else ""
        self._desk = Desk(self._ledger, self.bans, token)
        self._voice: Voice | None = None
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}{self._prefix}"

    @property
    def asked(self) -> list[Asked]:
        """The requests so far, in order."""
        return list(self._voice.asked) if self._voice else []

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return self._voice.watches if self._voice else 0

    def kubeconfig(self, path: Path) -> Path:
        """The path, with a kubeconfig for this server written to it."""
        cluster: Object = {"server": self.url}
        if self._authority is not None:
            cluster["certificate-authority"] = str(self._authority)
        user = {"token": self._token} if self._token else {}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pocket",
            "clusters": [{"name": "pocket", "cluster": cluster}],
            "users": [{"name": "pocket", "user": user}],
            "contexts": [{"name": "pocket", "context": {"cluster": "pocket", "user": "pocket"}}],
        }
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        return path

    def drop_watches(self) -> None:
        """Breaks off every open watch."""
        if self._loop is not None and self._voice is not None:
            self._loop.call_soon_threadsafe(self._voice.drop_watches)

    # -- opening and closing --------------------------------------------------------------------

    async def __aenter__(self) -> PocketServer:
        from resettle.testing.api_server.http import Voice

        self._loop = asyncio.get_running_loop()
        self._voice = Voice(
            self._ledger, self._desk, self.faults, token=self._token, prefix=self._prefix
        )
        self._port = await self._voice.open(self._tls)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._voice is not None:
            await self._voice.close()

    def __enter__(self) -> PocketServer:
        started = Event()
        failures: list[BaseException] = []

        async def serve() -> None:
            self._stop = asyncio.Event()
            async with self:
                started.set()
                await self._stop.wait()

        def run() -> None:
            try:
                asyncio.run(serve())
            except BaseException as error:
                failures.append(error)
            finally:
                started.set()

        self._thread = Thread(target=run, name="pocket", daemon=True)
        self._thread.start()
        started.wait(_PATIENCE_SECONDS)
        if failures:
            raise failures[0]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._stop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_PATIENCE_SECONDS)
