"""The component of `resettle run`: each pass is one cycle of descheduling."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import structs

from resettle import __version__
from resettle.clock import Clock
from resettle.cycle import CycleContext, CycleObserver, log_state, run_cycle
from resettle.errors import ClusterError, ResettleError
from resettle.framework.plugin import Plugin
from resettle.framework.tracing import NO_SPANS, Spans
from resettle.kube.auth.access import Access
from resettle.log import Log
from resettle.rbac.permissions import ApiPermission, required_permissions
from resettle.runtime.cycle_setup import CycleSetup, RunSettings
from resettle.runtime.policy_file import LoadedPolicy
from resettle.runtime.runner import ComponentRunner, Runtime, policy_file_of
from resettle.runtime.status import (
    IGNORE_RUN,
    ComponentStatus,
    LastCycle,
    Result,
    RunObserver,
    result_of,
)
from resettle.runtime.watching import why_stale


class Descheduling:
    """Runs cycles; a cycle that failed is not repeated before the next is due."""

    retry_seconds = None

    def __init__(
        self,
        settings: RunSettings,
        plugins: Mapping[str, Plugin],
        clock: Clock,
        log: Log,
        observers: Sequence[CycleObserver] = (),
        run_observer: RunObserver = IGNORE_RUN,
        spans: Spans = NO_SPANS,
    ) -> None:
        self._settings = settings
        self._own_kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
        self._clock = clock
        self._log = log
        self._run_observer = run_observer
        self._setup = CycleSetup(settings, self._own_kinds, run_observer, observers, spans)
        self._context: CycleContext | None = None
        self._last: LastCycle | None = None

    def kinds(self, policy: LoadedPolicy | None) -> frozenset[str]:
        """The kinds that are watched for this policy."""
        return _require_policy(policy).kinds

    def permissions(self, policy: LoadedPolicy | None) -> Sequence[ApiPermission]:
        """The permissions to read, to act and to lead by this policy."""
        dry, lease = self._settings.dry_run, self._settings.lease
        return required_permissions(
            _require_policy(policy).descheduler, self._own_kinds, dry_run=dry, lease=lease
        )

    def log_start(self, access: Access, policy: LoadedPolicy | None) -> None:
        """Log that cycles start."""
        loaded = _require_policy(policy)
        self._log.info(
            "starting",
            version=__version__,
            server=access.server,
            policy=self._settings.policy_file,
            decides_as=loaded.policy.api_version,
            profiles=loaded.profiles,
            interval=self._settings.interval or "once",
            dry_run=self._settings.dry_run or None,
        )

    @asynccontextmanager
    async def open_session(
        self, policy: LoadedPolicy | None, runtime: Runtime
    ) -> AsyncIterator[_Cycles | None]:
        """Cycles on one context while the block lasts; None if a stop was requested before."""
        async with self._setup.open(_require_policy(policy), runtime) as context:
            self._context = context
            try:
                yield None if context is None else _Cycles(self, context, runtime)
            finally:
                self._context = None

    async def use_policy(
        self, context: CycleContext, policy: LoadedPolicy | None, runtime: Runtime
    ) -> None:
        """Have the next cycles on this context run by another policy."""
        await self._setup.use_policy(context, _require_policy(policy), runtime)

    def pass_skipped(self, reason: str, seconds: float) -> None:
        """Log and count a cycle that was skipped."""
        self._log.warning("cycle skipped", reason=reason)
        self.cycle_ended(Result.SKIPPED, seconds)

    def pass_failed(self, error: ResettleError, seconds: float) -> None:
        """Log and count a cycle that failed."""
        self._log.error("cycle failed", reason=str(error))
        self.cycle_ended(Result.FAILED, seconds)

    def session_failed(self, error: ClusterError, seconds: float) -> None:
        """Log that other kinds could not be listed; no cycle was begun, so none is counted."""
        self._log.error("cycle failed", reason=str(error))

    def cycle_ended(self, result: Result, seconds: float) -> None:
        """Keep how the last cycle ended, and report it."""
        self._last = LastCycle(self._clock.now(), seconds, result)
        self._run_observer.cycle_ended(self._last)

    def add_details(self, status: ComponentStatus) -> ComponentStatus:
        """The status, with the moves in flight and the last cycle."""
        entries = self._context.in_flight_moves.moves if self._context else ()
        in_flight = Counter(entry.stage for entry in entries)
        return structs.replace(
            status,
            in_flight=in_flight,
            last=self._last,
            controllers=self._setup.controllers.statuses if self._setup.controllers else (),
        )


class _Cycles:
    """Cycles on one context."""

    def __init__(self, component: Descheduling, context: CycleContext, runtime: Runtime) -> None:
        self._component = component
        self._context = context
        self._runtime = runtime

    async def run_pass(self) -> bool:
        """Run one cycle; a stop that cuts it short is no failure."""
        clock = self._runtime.clock
        began = clock.steady()
        report = await run_cycle(self._context)
        self._component.cycle_ended(result_of(report), clock.steady() - began)
        cut_short = report.cut_short and not self._runtime.stop.requested
        return not (report.errors or cut_short)

    async def use_policy(self, policy: LoadedPolicy | None) -> None:
        """Use another policy from the next cycle on."""
        await self._component.use_policy(self._context, policy, self._runtime)

    def why_stale(self) -> str:
        """Why the cache must not be acted upon; empty if it may."""
        return why_stale(self._context.cache)

    def ages(self) -> Mapping[str, float]:
        """The age of the cache, by kind."""
        return self._context.cache.ages()

    def log_state(self) -> None:
        """Log the state of the cache and the moves in flight."""
        log_state(self._context)


def descheduling_runner(
    settings: RunSettings,
    access: Access,
    plugins: Mapping[str, Plugin],
    clock: Clock,
    log: Log,
    observers: Sequence[CycleObserver] = (),
    run_observer: RunObserver = IGNORE_RUN,
    spans: Spans = NO_SPANS,
) -> ComponentRunner:
    """A runner of cycles against one API server."""
    component = Descheduling(settings, plugins, clock, log, observers, run_observer, spans)
    policy_file = policy_file_of(settings, plugins, clock, log)
    return ComponentRunner(component, settings, access, policy_file, clock, log)


def _require_policy(policy: LoadedPolicy | None) -> LoadedPolicy:
    """The policy, which a run always has: its settings name a file."""
    if policy is None:
        raise ValueError("a run needs a policy")
    return policy
