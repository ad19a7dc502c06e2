"""The right to act: ours until a stop is requested and, with a lease, while we hold that lease.

What ends the right ends it for all work at once: every write calls `may_act` right before it is
sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from resettle.clock import Clock
from resettle.errors import NotNow
from resettle.kube.leader_election.election import LeaderElector
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.kube.transport.client import Client
from resettle.log import Log
from resettle.runtime.status import Role

Work = Callable[[], Coroutine[Any, Any, None]]


class Stop:
    """A stop request, and waits that end when it comes."""

    def __init__(self) -> None:
        self.requested = False
        self._event = asyncio.Event()

    def request(self) -> None:
        """Request a stop; every wait here ends at once."""
        self.requested = True
        self._event.set()

    async def finished_before_stop(self, waiting: Coroutine[Any, Any, None]) -> bool:
        """Wait for the coroutine; cancel it and return False if a stop is requested first."""
        task, stopped = asyncio.create_task(waiting), asyncio.create_task(self._event.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                return False
            task.result()
            return True
        finally:
            task.cancel()
            stopped.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)


class InterruptibleClock:
    """A clock whose sleeps end at once when a stop is requested."""

    def __init__(self, clock: Clock, stop: Stop) -> None:
        self._clock = clock
        self._stop = stop
        self.now = clock.now
        self.steady = clock.steady

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds, or at once when a stop is requested."""
        await self._stop.finished_before_stop(self._clock.sleep(seconds))


class Leadership:
    """Runs work in one of several copies at a time, or without election where there is no lease."""

    def __init__(
        self, settings: LeaseSettings | None, identity: str, stop: Stop, clock: Clock, log: Log
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._stop = stop
        self._clock = clock
        self._log = log
        self._elector: LeaderElector | None = None
        self._leads = False
        self._crash: BaseException | None = None
        self.lost = False
        """Whether the lease was lost while the work was under way."""

    def stop(self) -> None:
        """Request a stop: what is under way is finished, and nothing new is begun."""
        if not self._stop.requested:
            self._log.info("stopping")
            self._stop.request()

    def may_act(self) -> None:
        """Raise `NotNow` when nothing more may be sent."""
        if self._stop.requested:
            raise NotNow("asked to stop")
        if self._elector is not None:
            self._elector.raise_unless_held()

    @property
    def role(self) -> Role:
        """Our role in leader election."""
        if self._settings is None:
            return Role.ALONE
        if self.lost or (self._leads and not (self._elector and self._elector.is_held())):
            return Role.LOST
        return Role.LEADING if self._leads else Role.STANDBY

    def silence(self) -> float:
        """Seconds since the API server last answered a request about the lease."""
        return self._elector.seconds_since_contact() if self._elector else 0.0

    async def lead(self, client: Client, work: Work) -> None:
        """Run the work while we lead; return when it ends, raise the error that ended it."""
        if self._settings is None:
            await work()
        else:
            await self._lead_with_lease(client, self._settings, work)
        if self._crash is not None:
            raise self._crash

    def report_crash(self, error: BaseException | None) -> None:
        """Stop everything; an error that is given is raised by `lead` in the end."""
        self._crash = error
        self.stop()

    async def _lead_with_lease(self, client: Client, settings: LeaseSettings, work: Work) -> None:
        elector = LeaderElector(client, settings, self._identity, self._clock, self._log)
        self._elector = elector
        try:
            if not await self._stop.finished_before_stop(elector.acquire()):
                return
            self._leads = True
            working = asyncio.create_task(work())
            keeping = asyncio.create_task(elector.keep())
            keeping.add_done_callback(self._on_lease_ended)
            try:
                # Even without the lease we wait for answers to what was sent while we held it.
                await working
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
        finally:
            self._leads = False
            await elector.release()

    def _on_lease_ended(self, keeping: asyncio.Task[None]) -> None:
        if not keeping.cancelled():
            self.lost = True
            self.report_crash(keeping.exception())
