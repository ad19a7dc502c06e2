"""The loop that every component runs in.

    acquire the lease ──► open a session ──► pass ──► wait for the next start ──┐
          │               (list and watch)    ▲                                 │
          │                     ▲             └── same kinds ── policy read ◄───┘
          │                     └──────── other kinds are watched ───┘
          └── lost, or a stop is requested: nothing more is sent, at once

A `Component` says what is done in a pass and what is needed for it. `ComponentRunner` owns all that
is the same for each: clients, leadership, the policy file, the interval, retries, the status that
health and metrics read, and the stop. A new component writes no loop of its own:

    runner = ComponentRunner(component, settings, access, policy_file, clock, log)
    exit_code = await runner.run()

An interval is counted from start to start. A policy that becomes invalid never replaces the last
valid one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from msgspec import Struct

from resettle.clock import Clock
from resettle.errors import ClusterError, ResettleError
from resettle.framework.plugin import Plugin
from resettle.kube.auth.access import Access
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.kube.transport.client import Client
from resettle.kube.transport.pacing import RateLimiter
from resettle.log import Log
from resettle.rbac.permissions import ApiPermission
from resettle.rbac.reviews import require_permissions
from resettle.runtime.leadership import InterruptibleClock, Leadership, Stop
from resettle.runtime.policy_file import LoadedPolicy, PolicyFile
from resettle.runtime.status import ComponentStatus

# -- settings -------------------------------------------------------------------------------------


class ComponentSettings(Struct, frozen=True, kw_only=True):
    """Settings that all components have; each component adds its own."""

    policy_file: str | None = None
    """None for a component, or a mode of one, that needs no policy."""
    lenient: bool = False
    """Whether policy mistakes that upstream ignores are warnings, handled as upstream does."""
    interval: float = 0.0
    """Seconds from the start of one pass to the next; zero for a single pass."""
    qps: float = 0.0
    """Requests per second of the rate limited clients; 0 for the default, negative for no limit."""
    burst: int = 0
    controller_qps: float = 0.0
    """The same for the requests of all controllers together."""
    controller_burst: int = 0
    lease: LeaseSettings | None = None
    identity: str = ""

    @property
    def held_lease(self) -> LeaseSettings | None:
        """The lease to hold while passes run; None for no leader election."""
        return self.lease


def policy_file_of(
    settings: ComponentSettings, plugins: Mapping[str, Plugin], clock: Clock, log: Log
) -> PolicyFile | None:
    """The policy file that the settings name, not read yet; None if they name none."""
    if settings.policy_file is None:
        return None
    return PolicyFile(settings.policy_file, plugins, log, clock, lenient=settings.lenient)


# -- clients --------------------------------------------------------------------------------------


CONTROLLER_QPS = 50.0
CONTROLLER_BURST = 100
"""Default rate of the requests of controllers, as Koordinator's descheduler has it."""


class Clients(NamedTuple):
    """Four clients of one API server, so that no kind of request waits behind another."""

    unlimited: Client
    """For watches and the lease: no rate limit."""
    paced: Client
    """For writes, rate limited; a write that waits for its turn ends at once on a stop request."""
    for_events: Client
    """For events, rate limited apart from evictions, so that many events delay none."""
    for_controllers: Client
    """For controllers of plugins, which wait for many small answers."""


@asynccontextmanager
async def open_clients(
    access: Access, settings: ComponentSettings, clock: Clock, stop: Stop
) -> AsyncIterator[Clients]:
    """Open the clients for the time of the block; each connects at its first request."""
    async with AsyncExitStack() as stack:

        async def open_client(clock: Clock, qps: float, burst: int) -> Client:
            limiter = RateLimiter(qps, burst, clock) if qps >= 0 else None
            return await stack.enter_async_context(Client(access, limiter, clock))

        rate = (settings.qps, settings.burst)
        for_controllers = (
            settings.controller_qps or CONTROLLER_QPS,
            settings.controller_burst or CONTROLLER_BURST,
        )
        interruptible = InterruptibleClock(clock, stop)
        yield Clients(
            await open_client(clock, -1, 0),
            await open_client(interruptible, *rate),
            await open_client(clock, *rate),
            await open_client(interruptible, *for_controllers),
        )


# -- components -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What the runner gives to the session of a component."""

    access: Access
    clients: Clients
    clock: Clock
    log: Log
    stop: Stop
    may_act: Callable[[], None]
    """Raises `NotNow` when nothing more may be sent; to be called right before each write."""
    report_crash: Callable[[BaseException], None]
    """Ends the component with this error."""
    note_work: Callable[[], object]
    """Reports progress within a long pass, for the liveness check."""


class Session(Protocol):
    """What a component works with while it watches one set of kinds."""

    async def run_pass(self) -> bool:
        """Run one pass and return whether it succeeded; may raise `ResettleError`."""

    async def use_policy(self, policy: LoadedPolicy | None) -> None:
        """Use another policy, which needs the same kinds, from the next pass on."""

    def why_stale(self) -> str:
        """Why the next pass must be skipped, such as a cache that is too old; else empty."""

    def ages(self) -> Mapping[str, float]:
        """How old the cache of each kind is, in seconds; empty without a cache."""

    def log_state(self) -> None:
        """Log what is in the cache, on SIGUSR1."""


class Component(Protocol):
    """What is particular to one component; `ComponentRunner` does the rest."""

    @property
    def retry_seconds(self) -> float | None:
        """Wait after a failed pass, doubled with each further one; None to wait the interval."""

    def kinds(self, policy: LoadedPolicy | None) -> frozenset[str]:
        """The kinds that are watched for this policy."""

    def permissions(self, policy: LoadedPolicy | None) -> Sequence[ApiPermission]:
        """The permissions that this policy needs; raises if the policy cannot be used."""

    def log_start(self, access: Access, policy: LoadedPolicy | None) -> None:
        """Log that the work starts, with the facts that matter."""

    def open_session(
        self, policy: LoadedPolicy | None, runtime: Runtime
    ) -> AbstractAsyncContextManager[Session | None]:
        """Open a session for the block; None if a stop was requested before it was ready."""

    def pass_skipped(self, reason: str, seconds: float) -> None:
        """Log and count a pass that was skipped because the session is stale."""

    def pass_failed(self, error: ResettleError, seconds: float) -> None:
        """Log and count a pass that raised this error."""

    def session_failed(self, error: ClusterError, seconds: float) -> None:
        """Log and count that no new session could be opened; it is tried again."""

    def add_details(self, status: ComponentStatus) -> ComponentStatus:
        """The status, with the fields that only this component can fill in."""


# -- the loop -------------------------------------------------------------------------------------


class ComponentRunner:
    """Runs the passes of one component until it is done or a stop is requested."""

    def __init__(
        self,
        component: Component,
        settings: ComponentSettings,
        access: Access,
        policy_file: PolicyFile | None,
        clock: Clock,
        log: Log,
    ) -> None:
        self._component = component
        self._settings = settings
        self._access = access
        self._file = policy_file
        self._clock = clock
        self._log = log
        self._stop = Stop()
        self._leadership = Leadership(
            settings.held_lease, settings.identity, self._stop, clock, log
        )
        self._policy: LoadedPolicy | None = None
        self._session: Session | None = None
        self._failures = 0
        """Passes that failed since the last one that succeeded."""
        self._worked_at = clock.steady()

    def stop(self) -> None:
        """Request a stop: what is under way is finished, and nothing new is begun."""
        self._leadership.stop()

    def log_state(self) -> None:
        """Log the state of the cache."""
        if self._session is None:
            self._log.info("nothing listed yet")
        else:
            self._session.log_state()

    def status(self) -> ComponentStatus:
        """The state of the component right now."""
        file = self._file
        status = ComponentStatus(
            role=self._leadership.role,
            lease_silence=self._leadership.silence(),
            policy_taken_at=file.loaded_at if file else self._clock.now(),
            policy_usable=file is None or file.usable,
            ages=self._session.ages() if self._session else None,
            quiet_for=self._clock.steady() - self._worked_at,
            interval=self._settings.interval,
            stopping=self._stop.requested,
        )
        return self._component.add_details(status)

    async def run(self) -> int:
        """Run to the end; return 1 if the only pass failed or the lease was lost, else 0."""
        async with open_clients(self._access, self._settings, self._clock, self._stop) as clients:
            check = partial(self._check_permissions, clients.unlimited)
            if self._file is None:
                await check(None)
            else:
                self._policy = await self._file.load(check)
            await self._leadership.lead(clients.unlimited, partial(self._run_sessions, clients))
        failed = self._failures and not self._settings.interval
        return 1 if failed or self._leadership.lost else 0

    async def _check_permissions(self, client: Client, policy: LoadedPolicy | None) -> None:
        """Raise if a permission is missing that the policy needs, before anything is done."""
        await require_permissions(client, self._component.permissions(policy))

    async def _run_sessions(self, clients: Clients) -> None:
        component = self._component
        component.log_start(self._access, self._policy)
        runtime = Runtime(
            access=self._access,
            clients=clients,
            clock=self._clock,
            log=self._log,
            stop=self._stop,
            may_act=self._leadership.may_act,
            report_crash=self._leadership.report_crash,
            note_work=self._note_work,
        )
        opened = False
        while not self._stop.requested:
            began = self._note_work()
            try:
                async with component.open_session(self._policy, runtime) as session:
                    if session is None:
                        return
                    opened, self._session = True, session
                    if not await self._run_passes(session, clients):
                        return
            except ClusterError as error:
                if not opened:
                    raise
                # An earlier session worked, so this failure is probably temporary.
                self._failures += 1
                component.session_failed(error, self._clock.steady() - began)
                await self._wait_until(began + self._pause())
                await self._reload_policy(clients)
            finally:
                self._session = None

    async def _run_passes(self, session: Session, clients: Clients) -> bool:
        """Run passes; return True when other kinds are to be watched, False at the end."""
        while not self._stop.requested:
            began = self._clock.steady()
            succeeded = await self._run_pass(session)
            self._failures = 0 if succeeded else self._failures + 1
            if not self._settings.interval:
                return False
            await self._wait_until(began + self._pause())
            if self._stop.requested:
                return False
            before = self._policy
            await self._reload_policy(clients)
            if self._policy is before:
                continue
            if self._component.kinds(self._policy) != self._component.kinds(before):
                return True
            await session.use_policy(self._policy)
        return False

    async def _run_pass(self, session: Session) -> bool:
        began = self._note_work()
        if reason := session.why_stale():
            self._component.pass_skipped(reason, self._clock.steady() - began)
            return False
        try:
            return await session.run_pass()
        except ResettleError as error:
            self._component.pass_failed(error, self._clock.steady() - began)
            return False
        finally:
            self._note_work()

    async def _reload_policy(self, clients: Clients) -> None:
        if self._file is not None and self._policy is not None:
            check = partial(self._check_permissions, clients.unlimited)
            self._policy = await self._file.reload(self._policy, check)

    def _pause(self) -> float:
        """Seconds from the start of this pass to that of the next."""
        interval, retry = self._settings.interval, self._component.retry_seconds
        if retry is None or not self._failures:
            return interval
        return min(interval, retry * 2.0 ** min(self._failures - 1, 16))

    async def _wait_until(self, moment: float) -> None:
        await self._stop.finished_before_stop(self._sleep_until(moment))

    async def _sleep_until(self, moment: float) -> None:
        await self._clock.sleep(max(0.0, moment - self._clock.steady()))

    def _note_work(self) -> float:
        self._worked_at = self._clock.steady()
        return self._worked_at
