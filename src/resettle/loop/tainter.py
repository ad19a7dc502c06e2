"""The soft tainter from its first round to its last.

    acquire the lease ──► list and watch nodes ──► round ──► wait ──► policy read ──┐
                              ▲                      ▲                              │
                              │                      └── the same kinds are read ◄──┤
                              └───────────── other kinds are read ◄─────────────────┘

A round that fails is tried again soon, then less soon, and at the latest when the next one is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from msgspec import Struct, structs

from resettle.clock import Clock
from resettle.cluster.access import Access
from resettle.cluster.cache import Cache
from resettle.cluster.lease_settings import LeaseSettings
from resettle.cluster.reviews import ensure
from resettle.cluster.rights import needed_to_taint
from resettle.controllers.soft_taints.task import Mode, Task, clean_up, task_of
from resettle.controllers.soft_taints.tending import Tended, tend
from resettle.controllers.soft_taints.writing import NodeWriter
from resettle.errors import ClusterError, ResettleError
from resettle.framework.plugin import Plugin
from resettle.kube.transport.client import Client
from resettle.load.sources.meters import Meters, measuring
from resettle.log import Log
from resettle.loop.leadership import Leadership
from resettle.loop.policy_file import Loaded, PolicyFile
from resettle.loop.rounds import NOBODY_LOOKS, LastRound, RoundOnlooker, RoundResult
from resettle.loop.status import Status
from resettle.loop.stop import Stop
from resettle.loop.watching import outdated, watched

FIRST_PAUSE = 1.0
"""Seconds until a round that failed is tried again; twice as long after each further failure."""


class TaintSettings(Struct, frozen=True, kw_only=True):
    """How to taint, as the flags of `resettle soft-tainter` say."""

    policy_file: str | None = None
    """None only to remove what is there."""
    forgiving: bool = False
    """Whether mistakes that the peer hides are taken as it takes them."""
    interval: float = 0.0
    """Seconds from one start to the next; zero for a single round."""
    mode: Mode = Mode.TAINT
    prefixes: tuple[str, ...] = ()
    """More prefixes whose taints are to be removed."""
    lease: LeaseSettings | None = None
    identity: str = ""


class Tainter:
    """Sees to the soft taints of one cluster until it is done or asked to stop."""

    def __init__(
        self,
        settings: TaintSettings,
        access: Access,
        plugins: Mapping[str, Plugin],
        clock: Clock,
        log: Log,
        onlooker: RoundOnlooker = NOBODY_LOOKS,
    ) -> None:
        self._settings = settings
        self._access = access
        self._clock = clock
        self._log = log
        self._onlooker = onlooker
        self._stop = Stop()
        self._leadership = Leadership(settings.lease, settings.identity, self._stop, clock, log)
        file = settings.policy_file
        self._file: PolicyFile | None = None
        if file is not None:
            self._file = PolicyFile(file, plugins, log, clock, forgiving=settings.forgiving)
        self._loaded: Loaded | None = None
        self._known: Cache | None = None
        self._failures = 0
        self._worked_at = clock.steady()

    def stop(self) -> None:
        """Has everything end: what is under way is finished, and nothing new is begun."""
        self._leadership.stop()

    def tell_known(self) -> None:
        """Has the log say what is known of the cluster by now."""
        if self._known is None:
            self._log.info("nothing known yet")
        else:
            self._known.tell(self._log)

    def status(self) -> Status:
        """How it is going."""
        file = self._file
        return Status(
            role=self._leadership.role,
            lease_silence=self._leadership.silence(),
            policy_taken_at=file.taken_at if file else self._clock.now(),
            policy_usable=file is None or file.usable,
            ages=self._known.ages() if self._known else None,
            quiet_for=self._clock.steady() - self._worked_at,
            interval=self._settings.interval,
            stopping=self._stop.wished,
        )

    async def run(self) -> int:
        """Runs to the end; 0 when that was intended."""
        async with Client(self._access, clock=self._clock) as client:
            if self._file is None:
                await self._allowed_to(client, self._task())
            else:
                self._loaded = await self._file.first(partial(self._allowed, client))
            await self._leadership.lead(client, partial(self._rounds, client))
        failed = self._failures and not self._settings.interval and not self._stop.wished
        return 1 if failed or self._leadership.lost else 0

    # -- what is to be done ----------------------------------------------------------------------

    def _task(self, before: Task | None = None) -> Task:
        """What is to be seen to now, taints that were ours a moment ago included."""
        task = self._of(self._loaded)
        return structs.replace(task, ours=task.ours.also(before.ours.prefixes)) if before else task

    def _of(self, loaded: Loaded | None) -> Task:
        settings = self._settings
        if loaded is None:
            return clean_up(*settings.prefixes)
        task = task_of(loaded.descheduler, settings.mode)
        return structs.replace(task, ours=task.ours.also(settings.prefixes))

    async def _allowed(self, client: Client, loaded: Loaded) -> None:
        """Raises if the policy says nothing that can be done, or nothing we may do."""
        await self._allowed_to(client, self._of(loaded))

    async def _allowed_to(self, client: Client, task: Task) -> None:
        await ensure(client, needed_to_taint(task.kinds, task.sight, lease=self._settings.lease))

    # -- rounds ----------------------------------------------------------------------------------

    async def _rounds(self, client: Client) -> None:
        task: Task | None = self._task()
        settings = self._settings
        self._log.info(
            "starting",
            server=self._access.server,
            policy=settings.policy_file,
            mode=settings.mode,
            interval=settings.interval or "once",
        )
        listed_once, again = False, bool(settings.interval)
        while task is not None and not self._stop.wished:
            began = self._clock.steady()
            cache = self._cache(client, task)
            try:
                async with (
                    measuring(client, self._clock, again=again) as meters,
                    watched(cache, self._stop, self._leadership.crashed) as listed,
                ):
                    listed_once = listed_once or listed
                    self._known = cache if listed else None
                    work = self._rounds_on(cache, meters, client, task) if listed else None
                    task = await work if work else None
            except ClusterError as error:
                if not listed_once:
                    raise
                # It went well until other kinds were to be read; it will again.
                self._log.error("round failed", reason=str(error), taints="kept as they are")
                self._ended(began, RoundResult.FAILED)
                await self._until(self._clock.steady() + self._pause())

    def _cache(self, client: Client, task: Task) -> Cache:
        clock, log = self._clock, self._log
        return Cache(self._access, client, task.kinds, clock=clock, log=log, always=())

    async def _rounds_on(
        self, cache: Cache, meters: Meters, client: Client, task: Task
    ) -> Task | None:
        """Round after round; a task for which other kinds are read once there is one."""
        writer = NodeWriter(client, self._leadership.may_act)
        while not self._stop.wished:
            began = self._clock.steady()
            meters.serve(task.sight.measures, task.sight.providers)
            await self._round(task, cache, meters, writer)
            if not self._settings.interval:
                return None
            await self._until(began + self._pause())
            if self._stop.wished:
                return None
            later = await self._renewed(client, task)
            if later.kinds != task.kinds:
                return later
            task = later
        return None

    async def _round(self, task: Task, cache: Cache, meters: Meters, writer: NodeWriter) -> None:
        began = self._clock.steady()
        if why := outdated(cache):
            self._log.warning("round skipped", reason=why)
            self._ended(began, RoundResult.SKIPPED)
            return
        usage = await meters.measured()
        taken = cache.snapshot(self._clock.now()).measured(usage)
        try:
            tended = await tend(task, taken, writer, partial(self._since, began), self._log)
        except ResettleError as error:
            self._log.error("round failed", reason=str(error), taints="kept as they are")
            self._ended(began, RoundResult.FAILED)
        else:
            result = RoundResult.DONE if tended.well else RoundResult.INCOMPLETE
            self._ended(began, result, tended)

    def _ended(self, began: float, result: RoundResult, tended: Tended | None = None) -> None:
        """Takes note of how a round ended."""
        self._failures = 0 if result is RoundResult.DONE else self._failures + 1
        self._worked_at = self._clock.steady()
        last = LastRound(self._clock.now(), self._since(began), result, tended)
        self._onlooker.round_ended(last)

    def _since(self, began: float) -> float:
        return self._clock.steady() - began

    def _pause(self) -> float:
        """Seconds from the start of this round to that of the next."""
        interval = self._settings.interval
        if not self._failures:
            return interval
        return min(interval, FIRST_PAUSE * 2.0 ** min(self._failures - 1, 16))

    async def _renewed(self, client: Client, task: Task) -> Task:
        if self._file is None or self._loaded is None:
            return task
        later = await self._file.renewed(self._loaded, partial(self._allowed, client))
        if later is self._loaded:
            return task
        self._loaded = later
        return self._task(task)

    async def _until(self, moment: float) -> None:
        await self._stop.comes_after(self._clock.sleep(max(0.0, moment - self._clock.steady())))
