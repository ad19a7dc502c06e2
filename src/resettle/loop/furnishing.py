"""What a cycle is run with: the cluster under watch, the ledger, and a policy put into it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from resettle.clock import Clock
from resettle.cluster.access import Access
from resettle.cluster.cache import Cache
from resettle.cycle import House, Witness, preview
from resettle.errors import NotNow
from resettle.evict.carry import Carrier
from resettle.evict.events import Recorder
from resettle.evict.eviction_api import EvictionAPI
from resettle.evict.hands import ApiHands
from resettle.evict.ledger import Ended, Ledger
from resettle.framework.mover import Hands, Moved, Mover
from resettle.framework.profile import Profile
from resettle.framework.spans import NO_SPANS, Spans
from resettle.kube.transport.client import Client
from resettle.load.sources.meters import measuring
from resettle.log import Log
from resettle.loop.clients import Clients
from resettle.loop.policy_file import Loaded
from resettle.loop.settings import Settings
from resettle.loop.stop import Stop
from resettle.loop.watching import outdated, watched
from resettle.model.kinds import Kind


class Furnisher:
    """Makes houses, one for each set of kinds that a policy reads."""

    def __init__(
        self,
        settings: Settings,
        access: Access,
        kinds: Iterable[Kind],
        clock: Clock,
        log: Log,
        stop: Stop,
        *,
        may_act: Callable[[], None],
        crashed: Callable[[BaseException], None],
        moved: Moved,
        settled: Ended,
        witnesses: Sequence[Witness] = (),
        spans: Spans = NO_SPANS,
    ) -> None:
        self._settings = settings
        self._access = access
        self._own_kinds = list(kinds)
        self._clock = clock
        self._log = log
        self._stop = stop
        self._may_act = may_act
        self._crashed = crashed
        self._moved = moved
        self._settled = settled
        self._witnesses = witnesses
        self._spans = spans
        self.last: House | None = None
        """The house that was made last: what is known there goes on in the next."""

    @asynccontextmanager
    async def house(self, loaded: Loaded, clients: Clients) -> AsyncIterator[House | None]:
        """The house while the cluster is watched; None if we were asked to stop before."""
        clock, log = self._clock, self._log
        cache = Cache(
            self._access, clients.free, loaded.kinds, self._own_kinds, clock=clock, log=log
        )
        background = self._settings.background
        ledger = Ledger(cache.pod, clock, log, background=background, ended=self._settled)
        cache.listen(ledger.heard)
        again = bool(self._settings.interval)
        async with (
            measuring(clients.free, clock, again=again) as meters,
            watched(cache, self._stop, self._crashed) as listed,
        ):
            if not listed:
                yield None
                return
            recorder = Recorder(clients.for_events, self._settings.identity, clock, log)
            async with recorder.writing():
                house = House(
                    descheduler=loaded.descheduler,
                    cache=cache,
                    ledger=ledger,
                    recorder=recorder,
                    carry_out=partial(preview, log=log, moved=self._moved),
                    clock=clock,
                    log=log,
                    meters=meters,
                    witnesses=self._witnesses,
                    spans=self._spans,
                )
                self._move_in(house)
                self.furnish(house, loaded, clients.paced)
                yield house

    def _move_in(self, house: House) -> None:
        """Takes over what the last house knew."""
        if self.last is not None:
            house.history = self.last.history
            house.ledger.take_over(self.last.ledger.entries)
        self.last = house

    def furnish(self, house: House, loaded: Loaded, client: Client) -> None:
        """Puts a policy into the house."""
        house.descheduler, house.policy = loaded.descheduler, loaded.text
        if house.meters:
            house.meters.serve(loaded.descheduler.measures, loaded.descheduler.providers)
        if self._settings.dry_run:
            return
        house.recorder.failures = loaded.policy.eviction_failure_event_notification
        may_act = partial(self._may_act_on, house.cache)
        hands = ApiHands(client, may_act)
        carrier = Carrier(
            {
                profile.name: self._spans.around(_mover(profile, hands))
                for profile in loaded.descheduler.profiles
            },
            look=house.cache.pod,
            may_act=may_act,
            ledger=house.ledger,
            recorder=house.recorder,
            log=self._log,
            moved=self._moved,
            grace_period_seconds=loaded.policy.grace_period_seconds,
            in_background=self._settings.background,
        )
        house.carry_out = carrier.carry_out

    def _may_act_on(self, cache: Cache) -> None:
        """Raises `NotNow` when nothing more may be sent, or what we would act upon is too old."""
        self._may_act()
        if why := outdated(cache):
            raise NotNow(why)


def _mover(profile: Profile, hands: Hands) -> Mover:
    chosen = profile.mover
    make = chosen.plugin.evict if chosen else None
    return EvictionAPI(hands) if chosen is None or make is None else make(chosen.args, hands)
