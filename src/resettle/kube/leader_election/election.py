"""Leader election: of several processes the one that holds the lease acts.

      free ── acquire ──► ours ── keep ──► ours …        renewed every retry period
       ▲                   │ ╲
       └───── release ─────┘  ╲── not renewed within the deadline, or another's ──► lost

At most one process acts at a time, even if wall clocks differ. The holder stops acting when the
renew deadline has passed since it sent its last renewal. The others take the lease only when its
whole duration, which is longer, has passed since they saw that renewal. Each measures with its own
steady clock.
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
    LeaseRecord,
    LeaseSettings,
    new_lease,
)
from resettle.kube.transport.client import Client
from resettle.log import Log

_RELEASE_SECONDS = 5
_TRIES_TO_RELEASE = 2


def new_identity() -> str:
    """A unique name: the host name and a random number."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """Competes for a lease and keeps it, as LeaderElector of client-go does.

    `jitter` returns numbers from 0 to 1 that spread the tries of several processes over time.
    """

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
        self._client = LeaseClient(client, settings, log)
        self._renewed: float | None = None
        """When we sent the request that last acquired or renewed the lease."""
        self._contact_at = clock.steady()
        self._seen: LeaseRecord | None = None
        self._seen_at = 0.0
        self._wrote = False

    def is_held(self) -> bool:
        """Whether the lease is certainly ours now, even if this process was paused."""
        return self._seconds_left() > 0

    def seconds_since_contact(self) -> float:
        """Seconds since the API server last answered about the lease, or since the start."""
        return self._clock.steady() - self._contact_at

    def raise_unless_held(self) -> None:
        """Raise `LeaseLost` unless the lease is ours; call it right before each write."""
        if not self.is_held():
            raise LeaseLost(
                f"the lease {self._client.name} is no longer ours; another may be acting, "
                "so nothing more is done here"
            )

    async def acquire(self) -> None:
        """Wait until the lease is ours; raise an error if waiting longer would not help."""
        self._renewed = None
        while (started := await self._attempt()) is None or self._late(started):
            if another := self._another():
                self._log.only_when_new("lease").info(
                    "waiting for the lease", lease=self._client.name, holder=another
                )
            pause = self._settings.retry_period_seconds
            await self._clock.sleep(pause * (1 + JITTER_FACTOR * self._jitter()))
        self._renewed = started
        self._log.forget("lease")
        self._log.info("lease acquired", lease=self._client.name, identity=self._identity)

    async def keep(self) -> None:
        """Renew the lease, and return when it is lost."""
        while self.is_held():
            await self._clock.sleep(min(self._settings.retry_period_seconds, self._seconds_left()))
            if not self.is_held():
                break
            started = await self._attempt_in_time()
            if not self.is_held():
                break
            if started is not None:
                self._renewed = started
                self._log.debug("lease renewed", lease=self._client.name)
            elif another := self._another():
                self._log_loss(f"{another} has taken it")
                return
        self._log_loss("it was not renewed in time")

    async def release(self) -> None:
        """Release the lease, so that others need not wait; a failure is logged."""
        self._renewed = None
        if not self._wrote:
            return
        with suppress(TimeoutError, ResettleError):
            async with asyncio.timeout(_RELEASE_SECONDS):
                self._wrote = not await self._remove_holder()
        if self._wrote:
            waits = self._settings.duration_seconds
            self._log.warning("lease not released", lease=self._client.name, others_wait=waits)

    async def _remove_holder(self) -> bool:
        """Remove us as the holder; return whether the lease is certainly not ours any more."""
        for _ in range(_TRIES_TO_RELEASE):
            read = await self._client.read()
            if read == "gone" or (read is not None and read.holder != self._identity):
                return True
            if read is not None and await self._client.update(
                read.without_holder(self._clock.now())
            ):
                self._log.info("lease released", lease=self._client.name)
                return True
        return False

    # -- one try --------------------------------------------------------------------------------

    async def _attempt_in_time(self) -> float | None:
        try:
            async with asyncio.timeout(self._seconds_left()):
                return await self._attempt()
        except TimeoutError:
            return None

    async def _attempt(self) -> float | None:
        """When we sent the request that acquired or renewed the lease; None if it is not ours."""
        if self._seen is not None and self._seen.holder == self._identity:
            # Most likely it has not changed since; if it has, the update is a conflict.
            started = await self._take(self._seen)
            if started is not None:
                return started
        match await self._client.read():
            case LeaseRecord() as record:
                self._remember(record)
                return await self._take(record) if self._is_free() else None
            case "gone":
                self._contact_at = self._clock.steady()
                return await self._create() if self._is_free() else None
            case None:
                return None

    async def _take(self, record: LeaseRecord) -> float | None:
        started = self._clock.steady()
        duration = self._settings.duration_seconds
        self._wrote = True
        written = await self._client.update(
            record.with_holder(self._identity, duration, self._clock.now())
        )
        return self._record_write(written, started)

    async def _create(self) -> float | None:
        started = self._clock.steady()
        settings = self._settings
        self._wrote = True
        written = await self._client.create(
            new_lease(
                settings.namespace,
                settings.name,
                self._identity,
                settings.duration_seconds,
                self._clock.now(),
            )
        )
        return self._record_write(written, started)

    def _record_write(self, written: LeaseRecord | None, started: float) -> float | None:
        """Remember a lease that we wrote; return when we sent it, or None if it was refused."""
        if written is None:
            return None
        self._remember(written)
        return started

    # -- what we know ---------------------------------------------------------------------------

    def _remember(self, record: LeaseRecord) -> None:
        """Keep the lease as last read or written, and since when it has not changed."""
        self._contact_at = self._clock.steady()
        if self._seen is None or self._seen.version != record.version:
            self._seen_at = self._contact_at
        self._seen = record

    def _another(self) -> str:
        """The name of the holder as last read, if it is another process; else empty."""
        holder = self._seen.holder if self._seen else ""
        return "" if holder == self._identity else holder

    def _is_free(self) -> bool:
        """Whether we may take the lease: no other process holds it, or its holder let it expire.

        A deleted lease does not prove that its holder has stopped: if we saw a holder before the
        lease was deleted, we wait for the whole duration as well.
        """
        if self._seen is None or not self._another():
            return True
        wait = self._seen.duration_seconds or self._settings.duration_seconds
        return self._clock.steady() - self._seen_at >= wait

    def _late(self, started: float) -> bool:
        return self._clock.steady() - started >= self._settings.renew_deadline_seconds

    def _seconds_left(self) -> float:
        """For how many more seconds we may act without another renewal."""
        if self._renewed is None:
            return 0
        return self._renewed + self._settings.renew_deadline_seconds - self._clock.steady()

    def _log_loss(self, reason: str) -> None:
        self._renewed = None
        self._log.error("lease lost", lease=self._client.name, reason=reason)
