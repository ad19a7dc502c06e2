"""The right to act: ours while nobody asks us to stop and, with a lease, while we hold that.

Whatever ends the right ends it for all work at once, wherever it stands: whoever is about to write
asks `may_act`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from resettle.clock import Clock
from resettle.cluster.lease import Lease
from resettle.cluster.lease_settings import LeaseSettings
from resettle.errors import NotNow
from resettle.kube.transport.client import Client
from resettle.log import Log
from resettle.loop.status import Role
from resettle.loop.stop import Stop

Work = Callable[[], Coroutine[Any, Any, None]]


class Leadership:
    """Has work done by one of several copies, or by the only one where there is no lease."""

    def __init__(
        self, settings: LeaseSettings | None, identity: str, stop: Stop, clock: Clock, log: Log
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._stop = stop
        self._clock = clock
        self._log = log
        self._lease: Lease | None = None
        self._leads = False
        self._crash: BaseException | None = None
        self.lost = False
        """Whether the lease was lost while the work was under way."""

    def stop(self) -> None:
        """Has everything end: what is under way is finished, and nothing new is begun."""
        if not self._stop.wished:
            self._log.info("stopping")
            self._stop.wish()

    def may_act(self) -> None:
        """Raises `NotNow` when nothing more may be sent."""
        if self._stop.wished:
            raise NotNow("asked to stop")
        if self._lease is not None:
            self._lease.fence()

    @property
    def role(self) -> Role:
        """Which part we play."""
        if self._settings is None:
            return Role.ALONE
        if self.lost or (self._leads and not (self._lease and self._lease.held())):
            return Role.LOST
        return Role.LEADING if self._leads else Role.STANDBY

    def silence(self) -> float:
        """Seconds since the API server last told us about the lease."""
        return self._lease.silence() if self._lease else 0.0

    async def lead(self, client: Client, work: Work) -> None:
        """Returns when the work is done or may go on no longer; raises what crashed it."""
        if self._settings is None:
            await work()
        else:
            await self._with_lease(client, self._settings, work)
        if self._crash is not None:
            raise self._crash

    def crashed(self, error: BaseException | None) -> None:
        """Ends everything, because of an error that nobody counted on if there is one."""
        self._crash = error
        self.stop()

    async def _with_lease(self, client: Client, settings: LeaseSettings, work: Work) -> None:
        lease = Lease(client, settings, self._identity, self._clock, self._log)
        self._lease = lease
        try:
            if not await self._stop.comes_after(lease.acquire()):
                return
            self._leads = True
            working = asyncio.create_task(work())
            keeping = asyncio.create_task(lease.keep())
            keeping.add_done_callback(self._ended)
            try:
                # Even without the lease we wait for answers to what was sent while we held it.
                await working
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
        finally:
            self._leads = False
            await lease.release()

    def _ended(self, keeping: asyncio.Task[None]) -> None:
        if not keeping.cancelled():
            self.lost = True
            self.crashed(keeping.exception())
