"""A run from its first cycle to its last.

    acquire the lease ──► list and watch ──► cycle ──► wait for the next start ──┐
          │                     ▲              ▲                                 │
          │                     │              └── same kinds ── policy read ◄───┘
          │                     └───────── other kinds are read ──────┘
          └── lost, or asked to stop: nothing more is sent, at once

An interval is counted from start to start. A policy that turns bad never replaces the last good
one. What is known of the cluster must be fresh, or a cycle is skipped and says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from resettle import __version__
from resettle.clock import Clock
from resettle.cluster.access import Access
from resettle.cluster.reviews import ensure
from resettle.cluster.rights import needed
from resettle.cycle import House, Witness, run_cycle, tell_known
from resettle.errors import ClusterError, ResettleError
from resettle.framework.mover import Outcome
from resettle.framework.plan import Move
from resettle.framework.plugin import Plugin
from resettle.framework.spans import NO_SPANS, Spans
from resettle.kube.transport.client import Client
from resettle.log import Log
from resettle.loop.clients import Clients, clients_of
from resettle.loop.furnishing import Furnisher
from resettle.loop.leadership import Leadership
from resettle.loop.onlooker import NOBODY, Onlooker
from resettle.loop.policy_file import Loaded, PolicyFile
from resettle.loop.settings import Settings
from resettle.loop.status import LastCycle, Result, Status, result_of
from resettle.loop.stop import Stop
from resettle.loop.watching import outdated


class Runner:
    """Runs cycles against one API server until it is done or asked to stop."""

    def __init__(
        self,
        settings: Settings,
        access: Access,
        plugins: Mapping[str, Plugin],
        clock: Clock,
        log: Log,
        witnesses: Sequence[Witness] = (),
        onlooker: Onlooker = NOBODY,
        spans: Spans = NO_SPANS,
    ) -> None:
        self._settings = settings
        self._access = access
        self._own_kinds = [kind for plugin in plugins.values() for kind in plugin.kinds]
        self._clock = clock
        self._log = log
        self._stop = Stop()
        # A dry run changes nothing, and so leaves the lease to whoever does.
        lease = None if settings.dry_run else settings.lease
        self._leadership = Leadership(lease, settings.identity, self._stop, clock, log)
        self._file = PolicyFile(
            settings.policy_file, plugins, log, clock, forgiving=settings.forgiving
        )
        self._onlooker = onlooker
        self._furnisher = Furnisher(
            settings,
            access,
            self._own_kinds,
            clock,
            log,
            self._stop,
            may_act=self._leadership.may_act,
            crashed=self._leadership.crashed,
            moved=self._moved,
            settled=onlooker.settled,
            witnesses=witnesses,
            spans=spans,
        )
        self._at_work: House | None = None
        self._failed = False
        self._worked_at = clock.steady()
        self._last: LastCycle | None = None

    def stop(self) -> None:
        """Has everything end: what is under way is finished, and nothing new is begun."""
        self._leadership.stop()

    def tell_known(self) -> None:
        """Has the log say what is known of the cluster by now."""
        if self._at_work is None:
            self._log.info("nothing known yet")
        else:
            tell_known(self._at_work)

    def status(self) -> Status:
        """How it is going."""
        house = self._at_work
        return Status(
            role=self._leadership.role,
            lease_silence=self._leadership.silence(),
            policy_taken_at=self._file.taken_at,
            policy_usable=self._file.usable,
            ages=house.cache.ages() if house else None,
            in_flight=Counter(it.stage for it in house.ledger.entries) if house else {},
            quiet_for=self._clock.steady() - self._worked_at,
            interval=self._settings.interval,
            last=self._last,
            stopping=self._stop.wished,
        )

    async def run(self) -> int:
        """Runs to the end; 0 when that was intended."""
        settings = self._settings
        async with clients_of(self._access, settings, self._clock, self._stop) as clients:
            loaded = await self._file.first(partial(self._allowed, clients.free))
            await self._leadership.lead(clients.free, partial(self._cycles, loaded, clients))
        return 1 if self._failed or self._leadership.lost else 0

    async def _allowed(self, client: Client, loaded: Loaded) -> None:
        """Raises if we may not do what the policy takes, before anything is done."""
        dry, lease = self._settings.dry_run, self._settings.lease
        rights = needed(loaded.descheduler, self._own_kinds, dry_run=dry, lease=lease)
        await ensure(client, rights)

    # -- cycles ---------------------------------------------------------------------------------

    async def _cycles(self, loaded: Loaded, clients: Clients) -> None:
        self._log.info(
            "starting",
            version=__version__,
            server=self._access.server,
            policy=self._settings.policy_file,
            decides_as=loaded.policy.api_version,
            profiles=loaded.profiles,
            interval=self._settings.interval or "once",
            dry_run=self._settings.dry_run or None,
        )
        while not self._stop.wished:
            began = self._worked_at = self._clock.steady()
            try:
                async with self._furnisher.house(loaded, clients) as self._at_work:
                    if self._at_work is None:
                        return
                    later = await self._cycles_in(self._at_work, loaded, clients)
            except ClusterError as error:
                if self._furnisher.last is None:
                    raise
                # It went well until other kinds were to be read; it will again.
                self._log.error("cycle failed", reason=str(error))
                await self._until(began + self._settings.interval)
                later = await self._renewed(loaded, clients)
            finally:
                self._at_work = None
            if later is None:
                return
            loaded = later

    async def _cycles_in(self, house: House, loaded: Loaded, clients: Clients) -> Loaded | None:
        """Cycle after cycle; a policy that reads other kinds once there is one, None at the end."""
        while not self._stop.wished:
            began = self._clock.steady()
            await self._cycle(house)
            if not self._settings.interval:
                return None
            await self._until(began + self._settings.interval)
            if self._stop.wished:
                return None
            later = await self._renewed(loaded, clients)
            if later.kinds != loaded.kinds:
                return later
            if later is not loaded:
                loaded = later
                self._furnisher.furnish(house, loaded, clients.paced)
        return None

    async def _cycle(self, house: House) -> None:
        began = self._worked_at = self._clock.steady()
        result = await self._tried(house)
        self._worked_at = self._clock.steady()
        self._last = LastCycle(self._clock.now(), self._worked_at - began, result)
        self._onlooker.cycle_ended(self._last)

    async def _tried(self, house: House) -> Result:
        once = not self._settings.interval
        if why := outdated(house.cache):
            self._failed = once
            self._log.warning("cycle skipped", reason=why)
            return Result.SKIPPED
        try:
            report = await run_cycle(house)
        except ResettleError as error:
            self._failed = once
            self._log.error("cycle failed", reason=str(error))
            return Result.FAILED
        cut_short = report.cut_short and not self._stop.wished
        self._failed = bool(report.errors or cut_short) and once
        return result_of(report)

    def _moved(self, move: Move, outcome: Outcome) -> None:
        self._worked_at = self._clock.steady()
        self._onlooker.moved(move, outcome)

    async def _renewed(self, loaded: Loaded, clients: Clients) -> Loaded:
        return await self._file.renewed(loaded, partial(self._allowed, clients.free))

    async def _until(self, moment: float) -> None:
        await self._stop.comes_after(self._clock.sleep(max(0.0, moment - self._clock.steady())))
