"""The window of a component: what it shows of itself, put together from settings.

    window = Window(serving, access, clock, log, meters_of_the_tainter)
    component = SoftTainting(…, observer=window.meters or IGNORE_ROUNDS)
    runner = ComponentRunner(component, …)
    async with window.open(runner.status): …

A component knows nothing of who looks in: the window asks it how it is doing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from resettle.clock import Clock
from resettle.cluster.access import Access
from resettle.cluster.client import Client
from resettle.cluster.reviews import ensure
from resettle.cluster.rights import VOUCHING
from resettle.errors import InputError
from resettle.log import Log
from resettle.loop.status import Status
from resettle.serving.door import Door, bound
from resettle.serving.papers import Papers
from resettle.serving.routes import Gate, Open, Routes
from resettle.serving.settings import Serving
from resettle.serving.vouching import Vouching

if TYPE_CHECKING:
    from resettle.serving.instruments import Instruments
    from resettle.serving.meters import Meters
    from resettle.serving.tainter_meters import TainterMeters

Kept = TypeVar("Kept", bound="Instruments")


def meters_of_a_run() -> Meters:
    """The metrics of a run; who serves none spares the memory that they take."""
    from resettle.serving.meters import Meters

    return Meters()


def meters_of_the_tainter() -> TainterMeters:
    """The metrics of the soft tainter, likewise."""
    from resettle.serving.tainter_meters import TainterMeters

    return TainterMeters()


class Window(Generic[Kept]):
    """What there is to see of a component, and the way to see it.

    `serving` is None for nothing. `meters` are those that `made` makes, None where nobody may see
    them.
    """

    def __init__(
        self,
        serving: Serving | None,
        access: Access,
        clock: Clock,
        log: Log,
        made: Callable[[], Kept],
    ) -> None:
        self._serving = serving
        self._access = access
        self._clock = clock
        self._log = log
        self.meters = made() if serving is not None and serving.metrics else None

    @asynccontextmanager
    async def open(self, status: Callable[[], Status]) -> AsyncIterator[int]:
        """Serves while the block lasts, on a port that it gives; 0 if nothing is served."""
        serving = self._serving
        async with Client(self._access, clock=self._clock) as client:
            gate = await self._gate(client)
            door = self._door(serving, Routes(status, self.meters, gate)) if serving else None
            if door is None:
                yield 0
                return
            async with door.open():
                yield door.port

    async def _gate(self, client: Client) -> Gate:
        """Who may have metrics; raises if we may not ask the API server about them."""
        if self._serving is None or not self._serving.protected or self.meters is None:
            return Open()
        await ensure(client, VOUCHING)
        return Vouching(client, self._clock, self._log)

    def _door(self, serving: Serving, routes: Routes) -> Door | None:
        """The door that all of it is seen through, if there can be one."""
        papers = Papers(serving.tls, serving.own_addresses, self._clock, self._log)
        certificate = papers.check()
        try:
            listener = bound(serving.address, serving.port)
        except InputError as error:
            if not serving.optional:
                raise
            self._log.warning("nothing is served", reason=str(error))
            return None
        door = Door(listener, papers.context, routes.answer, self._log)
        self._log.info(
            "serving",
            address=serving.address,
            port=door.port,
            certificate=certificate,
            metrics="off" if self.meters is None else "protected" if serving.protected else "open",
        )
        return door
