"""The component of `resettle soft-tainter`: each pass is one round over all nodes.

A round that fails is tried again soon, then less soon, and at the latest when the next one is due.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, structs

from resettle.clock import Clock
from resettle.controllers.soft_taints.apply import NodeWriter
from resettle.controllers.soft_taints.reconcile import (
    Mode,
    ReconcileResult,
    Task,
    reconcile,
    removal_task,
    task_of,
)
from resettle.errors import ClusterError, ResettleError
from resettle.framework.plugin import Plugin
from resettle.kube.auth.access import Access
from resettle.kube.watch.cache import Cache
from resettle.log import Log
from resettle.rbac.permissions import ApiPermission, soft_tainter_permissions
from resettle.runtime.policy_file import LoadedPolicy
from resettle.runtime.runner import ComponentRunner, ComponentSettings, Runtime, policy_file_of
from resettle.runtime.status import ComponentStatus
from resettle.runtime.watching import watch_cluster, why_stale
from resettle.utilization.sources.poller import UsagePoller

FIRST_PAUSE = 1.0
"""Seconds until a round that failed is tried again; twice as long after each further failure."""


class TaintSettings(ComponentSettings, frozen=True, kw_only=True):
    """How to taint, as the flags of `resettle soft-tainter` say."""

    mode: Mode = Mode.TAINT
    prefixes: tuple[str, ...] = ()
    """More prefixes whose taints are to be removed."""


# -- what observers see ----------------------------------------------------------------------------


class RoundResult(StrEnum):
    """How a round can end."""

    DONE = "done"
    INCOMPLETE = "incomplete"
    """Done, but for nodes that could not be written."""
    SKIPPED = "skipped"
    """The cache was too old."""
    FAILED = "failed"


class LastRound(Struct, frozen=True):
    """The round that ended last."""

    ended_at: datetime
    took: float
    result: RoundResult
    reconciled: ReconcileResult | None = None
    """None where the round was skipped or failed."""


class RoundObserver(Protocol):
    """Called at the end of every round."""

    def round_ended(self, last: LastRound) -> None:
        """A round has ended, with any result."""


class IgnoreRounds:
    """A `RoundObserver` that ignores all rounds."""

    def round_ended(self, last: LastRound) -> None:
        """Do nothing."""


IGNORE_ROUNDS = IgnoreRounds()


# -- the component ---------------------------------------------------------------------------------


class SoftTainting:
    """Keeps the soft taints of one cluster as the policy and the flags ask for."""

    retry_seconds = FIRST_PAUSE

    def __init__(
        self,
        settings: TaintSettings,
        clock: Clock,
        log: Log,
        observer: RoundObserver = IGNORE_ROUNDS,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._log = log
        self._observer = observer
        self._before: Task | None = None

    def kinds(self, policy: LoadedPolicy | None) -> frozenset[str]:
        """The kinds that are watched for this policy."""
        return self._task_of(policy).kinds

    def permissions(self, policy: LoadedPolicy | None) -> Sequence[ApiPermission]:
        """The permissions to read, measure, write and lead by this policy."""
        task = self._task_of(policy)
        return soft_tainter_permissions(task.kinds, task.measuring, lease=self._settings.lease)

    def next_task(self, policy: LoadedPolicy | None) -> Task:
        """The task by this policy, which also removes the taints of the tasks before it."""
        task, before = self._task_of(policy), self._before
        if before is not None:
            task = structs.replace(task, ours=task.ours.with_prefixes(before.ours.prefixes))
        self._before = task
        return task

    def _task_of(self, policy: LoadedPolicy | None) -> Task:
        settings = self._settings
        if policy is None:
            return removal_task(*settings.prefixes)
        task = task_of(policy.descheduler, settings.mode)
        return structs.replace(task, ours=task.ours.with_prefixes(settings.prefixes))

    def log_start(self, access: Access, policy: LoadedPolicy | None) -> None:
        """Log that rounds start."""
        settings = self._settings
        self._log.info(
            "starting",
            server=access.server,
            policy=settings.policy_file,
            mode=settings.mode,
            interval=settings.interval or "once",
        )

    @asynccontextmanager
    async def open_session(
        self, policy: LoadedPolicy | None, runtime: Runtime
    ) -> AsyncIterator[_Rounds | None]:
        """Rounds on one cache while the block lasts; None if a stop was requested before."""
        task = self.next_task(policy)
        cache = Cache(
            runtime.access,
            runtime.clients.unlimited,
            task.kinds,
            clock=runtime.clock,
            log=runtime.log,
            always=(),
        )
        repeated = bool(self._settings.interval)
        async with watch_cluster(cache, runtime, repeated=repeated) as poller:
            yield None if poller is None else _Rounds(self, task, cache, poller, runtime)

    def pass_skipped(self, reason: str, seconds: float) -> None:
        """Log and count a round that was skipped."""
        self._log.warning("round skipped", reason=reason)
        self.round_ended(RoundResult.SKIPPED, seconds)

    def pass_failed(self, error: ResettleError, seconds: float) -> None:
        """Log and count a round that failed."""
        self._log.error("round failed", reason=str(error), taints="kept as they are")
        self.round_ended(RoundResult.FAILED, seconds)

    def session_failed(self, error: ClusterError, seconds: float) -> None:
        """Log and count a round for which other kinds could not be listed."""
        self.pass_failed(error, seconds)

    def round_ended(
        self, result: RoundResult, seconds: float, reconciled: ReconcileResult | None = None
    ) -> None:
        """Report how a round ended."""
        last = LastRound(self._clock.now(), seconds, result, reconciled)
        self._observer.round_ended(last)

    def add_details(self, status: ComponentStatus) -> ComponentStatus:
        """The status as it is: the tainter has nothing to add."""
        return status


class _Rounds:
    """Rounds on one cache."""

    def __init__(
        self,
        component: SoftTainting,
        task: Task,
        cache: Cache,
        poller: UsagePoller,
        runtime: Runtime,
    ) -> None:
        self._component = component
        self._task = task
        self._cache = cache
        self._poller = poller
        self._runtime = runtime
        self._writer = NodeWriter(runtime.clients.unlimited, runtime.may_act)
        self._measure()

    async def run_pass(self) -> bool:
        """Run one round; a stop that cuts it short is no failure."""
        clock = self._runtime.clock
        began = clock.steady()

        def elapsed_seconds() -> float:
            return clock.steady() - began

        usage = await self._poller.measure()
        snapshot = self._cache.snapshot(clock.now()).with_usage(usage)
        done = await reconcile(
            self._task, snapshot, self._writer, elapsed_seconds, self._runtime.log
        )
        result = RoundResult.DONE if done.complete else RoundResult.INCOMPLETE
        self._component.round_ended(result, elapsed_seconds(), done)
        return done.complete or self._runtime.stop.requested

    async def use_policy(self, policy: LoadedPolicy | None) -> None:
        """Use another policy from the next round on."""
        self._task = self._component.next_task(policy)
        self._measure()

    def why_stale(self) -> str:
        """Why the cache must not be acted upon; empty if it may."""
        return why_stale(self._cache)

    def ages(self) -> Mapping[str, float]:
        """The age of the cache, by kind."""
        return self._cache.ages()

    def log_state(self) -> None:
        """Log the state of the cache."""
        self._cache.log_state(self._runtime.log)

    def _measure(self) -> None:
        self._poller.set_questions(self._task.measuring.measures, self._task.measuring.providers)


def soft_taint_runner(
    settings: TaintSettings,
    access: Access,
    plugins: Mapping[str, Plugin],
    clock: Clock,
    log: Log,
    observer: RoundObserver = IGNORE_ROUNDS,
) -> ComponentRunner:
    """A runner of the soft tainter against one API server."""
    component = SoftTainting(settings, clock, log, observer)
    policy_file = policy_file_of(settings, plugins, clock, log)
    return ComponentRunner(component, settings, access, policy_file, clock, log)
