"""Who leads: one of several, by a lease that each of them would hold.

    nobody's ── acquire ──► ours ── keep ──► ours …        renewed every retry period
       ▲                     │ ╲
       └────── release ──────┘  ╲── not renewed within the deadline, or another's ──► lost

Safe whatever the wall clocks say. The holder counts from before it sent its last renewal and acts
no longer than the renew deadline. The others count from when they saw that renewal and wait for the
lease's whole duration, which is longer. Both count by steady clocks of their own.

How a lease is named and timed, as the flags of leader election say.
"""

from __future__ import annotations

import asyncio
import random
import socket
import uuid
from collections.abc import Callable
from contextlib import suppress

from resettle.clock import Clock
from resettle.errors import LeaseLost, ResettleError
from resettle.kube.leader_election.lease import (
    JITTER_FACTOR,
    LeaseClient,
    LeaseSettings,
    LeaseRecord,
    new_lease,
)
from resettle.kube.transport.client import Client
from resettle.log import Log

_RELEASE_SECONDS = 5
_TRIES_TO_RELEASE = 2


def new_identity() -> str:
    """A name nobody else goes by: the host's, and a chance number."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Lease:
    """One contender for a lease; `jitter` gives numbers from 0 to 1, to spread tries."""

    def __init__(
        self,
        client: Client,
        settings: LeaseSettings,
        identity: str,
        clock: Clock,
        log: Log,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings.validate()
        self._identity = identity
        self._clock = clock
        self._log = log
        self._jitter = jitter
        self._desk = LeaseClient(client, settings, log)
        self._renewed: float | None = None
        """When the request left that last made or kept the lease ours."""
        self._heard_at = clock.steady()
        self._seen: LeaseRecord | None = None
        self._seen_at = 0.0
        self._wrote = False

    def is_held(self) -> bool:
        """Whether the lease is ours beyond doubt at this moment, however long we were stopped."""
        return self._left() > 0

    def seconds_since_contact(self) -> float:
        """Seconds since we were last told about the lease, or began to ask."""
        return self._clock.steady() - self._heard_at

    def fence(self) -> None:
        """Returns if the lease is ours, to be asked right before each write."""
        if not self.is_held():
            raise LeaseLost(
                f"the lease {self._desk.name} is no longer ours; another may be acting, "
                "so nothing more is done here"
            )

    async def acquire(self) -> None:
        """Returns once the lease is ours; raises when it cannot become so without help."""
        self._renewed = None
        while (started := await self._attempt()) is None or self._late(started):
            if another := self._another():
                self._log.only_when_new("lease").info(
                    "waiting for the lease", lease=self._desk.name, holder=another
                )
            pause = self._settings.retry_period_seconds
            await self._clock.sleep(pause * (1 + JITTER_FACTOR * self._jitter()))
        self._renewed = started
        self._log.forget("lease")
        self._log.info("lease acquired", lease=self._desk.name, identity=self._identity)

    async def keep(self) -> None:
        """Renews the lease and returns when it is lost."""
        while self.is_held():
            await self._clock.sleep(min(self._settings.retry_period_seconds, self._left()))
            if not self.is_held():
                break
            started = await self._attempt_in_time()
            if not self.is_held():
                break
            if started is not None:
                self._renewed = started
                self._log.debug("lease renewed", lease=self._desk.name)
            elif another := self._another():
                self._lost(f"{another} has taken it")
                return
        self._lost("it was not renewed in time")

    async def release(self) -> None:
        """Gives the lease back, so that another need not wait; a failure is told in the log."""
        self._renewed = None
        if not self._wrote:
            return
        with suppress(TimeoutError, ResettleError):
            async with asyncio.timeout(_RELEASE_SECONDS):
                self._wrote = not await self._given_back()
        if self._wrote:
            waits = self._settings.duration_seconds
            self._log.warning("lease not released", lease=self._desk.name, others_wait=waits)

    async def _given_back(self) -> bool:
        """Whether the lease is certainly not ours any more."""
        for _ in range(_TRIES_TO_RELEASE):
            read = await self._desk.read()
            if read == "gone" or (read is not None and read.holder != self._identity):
                return True
            if read is not None and await self._desk.update(read.without_holder(self._clock.now())):
                self._log.info("lease released", lease=self._desk.name)
                return True
        return False

    # -- one try --------------------------------------------------------------------------------

    async def _attempt_in_time(self) -> float | None:
        try:
            async with asyncio.timeout(self._left()):
                return await self._attempt()
        except TimeoutError:
            return None

    async def _attempt(self) -> float | None:
        """When the request left that made or kept the lease ours; None if it is not."""
        if self._seen is not None and self._seen.holder == self._identity:
            # Most likely nobody has touched it since; the version tells if somebody has.
            started = await self._take(self._seen)
            if started is not None:
                return started
        match await self._desk.read():
            case LeaseRecord() as record:
                self._see(record)
                return await self._take(record) if self._free() else None
            case "gone":
                self._heard_at = self._clock.steady()
                return await self._make() if self._free() else None
            case None:
                return None

    async def _take(self, record: LeaseRecord) -> float | None:
        started = self._clock.steady()
        duration = self._settings.duration_seconds
        self._wrote = True
        taken = await self._desk.update(record.with_holder(self._identity, duration, self._clock.now()))
        return self._ours(taken, started)

    async def _make(self) -> float | None:
        started = self._clock.steady()
        where = self._settings
        self._wrote = True
        made = await self._desk.create(
            new_lease(
                where.namespace,
                where.name,
                self._identity,
                where.duration_seconds,
                self._clock.now(),
            )
        )
        return self._ours(made, started)

    def _ours(self, written: LeaseRecord | None, started: float) -> float | None:
        if written is None:
            return None
        self._see(written)
        return started

    # -- what we know ---------------------------------------------------------------------------

    def _see(self, record: LeaseRecord) -> None:
        self._heard_at = self._clock.steady()
        if self._seen is None or self._seen.version != record.version:
            self._seen_at = self._heard_at
        self._seen = record

    def _another(self) -> str:
        """Who else was last seen to hold it; empty if nobody."""
        holder = self._seen.holder if self._seen else ""
        return "" if holder == self._identity else holder

    def _free(self) -> bool:
        """Whether we may have it: nobody else does, or gave no sign of life for long enough.

        A lease that somebody deleted is no proof that its holder has stopped, so the wait is the
        same for one that was seen and is gone.
        """
        if self._seen is None or not self._another():
            return True
        wait = self._seen.duration_seconds or self._settings.duration_seconds
        return self._clock.steady() - self._seen_at >= wait

    def _late(self, started: float) -> bool:
        return self._clock.steady() - started >= self._settings.renew_deadline_seconds

    def _left(self) -> float:
        """For how many more seconds we may act without another renewal."""
        if self._renewed is None:
            return 0
        return self._renewed + self._settings.renew_deadline_seconds - self._clock.steady()

    def _lost(self, reason: str) -> None:
        self._renewed = None
        self._log.error("lease lost", lease=self._desk.name, reason=reason)
