"""Contenders for one lease, on one time line that a test winds by hand.

Each has a machine of its own: its wall clock can be set, its steady clock began at some other
moment, and it can be stopped in the middle of anything, as SIGSTOP does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from resettle.errors import AnswerLost
from resettle.kube.auth.access import Access
from resettle.kube.leader_election.election import LeaderElector
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.kube.transport.client import Answer, Client
from resettle.log import Log
from resettle.testing import ApiServer, ManualClock

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
SETTINGS = LeaseSettings()
DURATION = SETTINGS.duration_seconds
DEADLINE = SETTINGS.renew_deadline_seconds
RETRY = SETTINGS.retry_period_seconds
PATIENCE_SECONDS = 30


def a_lease(**spec: Any) -> dict[str, Any]:
    """A lease as another program has written it."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "descheduler", "namespace": "kube-system", "labels": {"team": "a"}},
        "spec": spec,
    }


THEIRS = a_lease(
    holderIdentity="them",
    leaseDurationSeconds=137,
    acquireTime="2020-01-01T00:00:00.000000Z",
    renewTime="2020-01-01T00:00:00.000000Z",
    leaseTransitions=4,
)


def run_with_timeout(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine, and fails if it hangs."""
    asyncio.run(asyncio.wait_for(scenario, PATIENCE_SECONDS))


async def happens(so: Callable[[], bool]) -> bool:
    """True once it is so; raises if that takes too long."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not so():
            await asyncio.sleep(0.001)
    return True


class Machine:
    """A clock as one contender has it."""

    def __init__(self, clock: ManualClock, booted: float = 0) -> None:
        self._clock = clock
        self._booted = booted
        self._running = asyncio.Event()
        self._running.set()
        self._standing: set[object] = set()
        self.set_by = timedelta()

    def now(self) -> datetime:
        return self._clock.now() + self.set_by

    def steady(self) -> float:
        return self._clock.steady() + self._booted

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self.runs()

    @property
    def running(self) -> bool:
        return self._running.is_set()

    def stop(self) -> None:
        self._running.clear()

    def resume(self) -> None:
        self._running.set()
        self._standing.clear()

    @property
    def waiting(self) -> int:
        """How many tasks stand still because the machine is stopped."""
        return len(self._standing)

    async def runs(self) -> None:
        """Returns once the machine runs."""
        while not self.running:
            mark = object()
            self._standing.add(mark)
            try:
                await self._running.wait()
            finally:
                self._standing.discard(mark)


class Line(Client):
    """The way to the server from one machine; answers to writes may get lost on it."""

    def __init__(self, access: Access, machine: Machine) -> None:
        super().__init__(access)
        self._machine = machine
        self.loses = 0
        self.meets: Callable[[], None] = lambda: None
        """Called whenever a request goes out or an answer comes in."""

    async def send(self, method: str, path: str, *args: Any, **more: Any) -> Answer:
        self.meets()
        await self._machine.runs()
        answer = await super().send(method, path, *args, **more)
        await self._machine.runs()
        if self.loses and method != "GET":
            self.loses -= 1
            raise AnswerLost("the answer was lost on purpose")
        self.meets()
        return answer


class Contender:
    """A lease as one machine sees it, what it logs, and how it is asked for."""

    def __init__(self, name: str, machine: Machine, line: Line, jitter: float = 0) -> None:
        self.machine = machine
        self.line = line
        self.log_lines: list[str] = []
        self._jitter = jitter
        self.renamed(name)

    def renamed(self, name: str) -> None:
        """Starts again under another name, as a restarted process does."""
        self.name = name
        self.lease = LeaderElector(
            self.line,
            SETTINGS,
            name,
            self.machine,
            Log.to(self.log_lines),
            jitter=lambda: self._jitter,
        )


class Arena:
    """A server, a clock, and the contenders."""

    def __init__(self, server: ApiServer, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock

    @asynccontextmanager
    async def contender(
        self, name: str, booted: float = 0, jitter: float = 0
    ) -> AsyncIterator[Contender]:
        machine = Machine(self.clock, booted)
        async with Line(Access(server=self.server.url), machine) as line:
            yield Contender(name, machine, line, jitter)

    def wind(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    async def passes(self, seconds: float, *, sleepers: int = 1) -> None:
        """Lets time pass in small steps, and everybody act in between."""
        for _ in range(round(seconds)):
            await self.clock.wait_for_sleepers(sleepers)
            self.wind(1)
        await self.clock.wait_for_sleepers(sleepers)

    async def passes_until(self, done: asyncio.Task[None]) -> float:
        """How many seconds pass until the task is done; it is the only one that sleeps."""
        began = self.clock.steady()
        while await happens(lambda: done.done() or self.clock.sleepers > 0) and not done.done():
            self.wind(1)
        await done
        return self.clock.steady() - began

    @property
    def spec(self) -> dict[str, Any]:
        """What the lease says."""
        lease_spec: dict[str, Any] = self.stored["spec"]
        return lease_spec

    @property
    def stored(self) -> dict[str, Any]:
        """The lease as the server has it."""
        return self.server.store.get("Lease", SETTINGS.name, SETTINGS.namespace) or {}


@asynccontextmanager
async def arena() -> AsyncIterator[Arena]:
    """A place for contenders, with the namespace of the lease in it."""
    clock = ManualClock()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
    async with ApiServer([namespace], clock=clock) as server:
        yield Arena(server, clock)
