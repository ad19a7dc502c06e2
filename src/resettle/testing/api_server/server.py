"""The test API server, as a test uses it.

    with ApiServer(world.objects) as server:
        ...  # any client, at server.url

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

from resettle.testing.api_server.discovery import DeniedPermission
from resettle.testing.api_server.faults import Fault, Faults
from resettle.testing.api_server.router import ReceivedRequest, RequestHandler
from resettle.testing.api_server.storage.revisions import Storage
from resettle.testing.api_server.storage.store import Store
from resettle.testing.builders import Object

if TYPE_CHECKING:
    from resettle.testing.api_server.http import HttpFrontEnd

_TIMEOUT_SECONDS = 30


def _wall_clock() -> datetime:
    return datetime.now(UTC)


class ApiServer:
    """An API server on a loopback port, with these objects in it.

    `token` is what clients have to show, if anything. `tls` is the server's certificate as a
    context, and `authority` the file of its CA certificate, for the kubeconfig. `denied` are
    permissions that no client has. `clock` stamps what is created, deleted and evicted. `prefix`
    is a path that all others are below, as with a server behind a gateway: `/k8s/clusters/c1`.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        clock: Callable[[], datetime] = _wall_clock,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        authority: Path | None = None,
        denied: Iterable[DeniedPermission] = (),
        faults: Iterable[Fault] = (),
        prefix: str = "",
    ) -> None:
        self._storage = Storage(clock)
        self.store = Store(self._storage, objects)
        self.faults = Faults(faults)
        self.denied = list(denied)
        self._token = token
        self._tls = tls
        self._authority = authority
        self._prefix = f"/{prefix.strip('/')}" if prefix else ""
        self._handler = RequestHandler(self._storage, self.denied, token)
        self._front_end: HttpFrontEnd | None = None
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}{self._prefix}"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests so far, in order."""
        return list(self._front_end.requests) if self._front_end else []

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return self._front_end.watches if self._front_end else 0

    def kubeconfig(self, path: Path) -> Path:
        """The path, with a kubeconfig for this server written to it."""
        cluster: Object = {"server": self.url}
        if self._authority is not None:
            cluster["certificate-authority"] = str(self._authority)
        user = {"token": self._token} if self._token else {}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        return path

    def drop_watches(self) -> None:
        """Breaks off every open watch."""
        if self._loop is not None and self._front_end is not None:
            self._loop.call_soon_threadsafe(self._front_end.drop_watches)

    # -- opening and closing --------------------------------------------------------------------

    async def __aenter__(self) -> ApiServer:
        from resettle.testing.api_server.http import HttpFrontEnd

        self._loop = asyncio.get_running_loop()
        self._front_end = HttpFrontEnd(
            self._storage, self._handler, self.faults, token=self._token, prefix=self._prefix
        )
        self._port = await self._front_end.open(self._tls)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._front_end is not None:
            await self._front_end.close()

    def __enter__(self) -> ApiServer:
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

        self._thread = Thread(target=run, name="test", daemon=True)
        self._thread.start()
        started.wait(_TIMEOUT_SECONDS)
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
            self._thread.join(_TIMEOUT_SECONDS)
