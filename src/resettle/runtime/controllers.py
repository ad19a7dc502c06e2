"""Runs the controllers of a policy's profiles while this process leads.

    start ──► run ──► fails, or ends by itself ──► pause, twice as long each time ──┐
                ▲                                                                   │
                └───────────────────────────────────────────────────────────────────┘

A controller that has run for a minute without failing begins with the shortest pause again. When
another policy is used, controllers whose arguments, filters or delete options changed are started
again with the new ones; the others go on. All are stopped before the lease is given up. One that
does not end when it is cancelled is left behind: none of its requests is sent any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from resettle.clock import Clock
from resettle.errors import NotNow
from resettle.framework.controller import ControllerHandle
from resettle.framework.profile import Instance, Profile
from resettle.log import Log
from resettle.runtime.status import ControllerStatus

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
STEADY_SECONDS = 60.0
"""A controller that ran for so long counts as working again."""
STOP_SECONDS = 10.0
"""How long a controller that was cancelled may take to end."""

SetFigure = Callable[[str, float], None]
MakeHandle = Callable[[Profile, Callable[[], None], SetFigure], ControllerHandle]
"""Makes the handle of one start; the function raises `NotNow` once that start is over."""
_Made = tuple[Instance, tuple[Instance, ...], tuple[Instance, ...], Mapping[str, Any]]
"""What a controller is made from; if it is equal, the controller goes on."""


class _Start:
    """The time from one start of a controller to its end."""

    def __init__(self) -> None:
        self.is_over = False

    def may_go_on(self) -> None:
        """Raise `NotNow` once the controller has ended or was stopped."""
        if self.is_over:
            raise NotNow("the controller was stopped")


class _Supervised:
    """One controller, and the task that starts it again and again."""

    def __init__(self, profile: Profile, made: _Made, make_handle: MakeHandle) -> None:
        self.profile = profile
        self.made = made
        self.instance = made[0]
        self.make_handle = make_handle
        self.failure = "not started yet"
        self.running = False
        self.restarts = 0
        self.figures: dict[str, float] = {}
        self.start = _Start()
        self.task: asyncio.Task[None] | None = None

    @property
    def status(self) -> ControllerStatus:
        return ControllerStatus(
            profile=self.profile.name,
            name=self.instance.name,
            running=self.running,
            restarts=self.restarts,
            failure="" if self.running else self.failure,
            figures=self.figures,
        )


class Controllers:
    """The controllers of a policy; started and stopped together.

    `may_act` raises `NotNow` once a stop was requested, or the lease is lost.
    """

    def __init__(
        self,
        clock: Clock,
        log: Log,
        may_act: Callable[[], None] = lambda: None,
        *,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self._clock = clock
        self._log = log
        self._may_act = may_act
        self._stop_seconds = stop_seconds
        self._running: dict[tuple[str, str], _Supervised] = {}

    @property
    def statuses(self) -> tuple[ControllerStatus, ...]:
        """The state of each controller."""
        return tuple(supervised.status for supervised in self._running.values())

    @asynccontextmanager
    async def stopped_at_the_end(self) -> AsyncIterator[None]:
        """Stop all controllers when the block ends."""
        try:
            yield
        finally:
            await self.stop()

    async def use_profiles(
        self,
        profiles: Iterable[Profile],
        make_handle: MakeHandle,
        delete_options: Mapping[str, Any],
    ) -> None:
        """Run the controllers of these profiles, and no others."""
        wanted: dict[tuple[str, str], tuple[Profile, _Made]] = {
            (profile.name, instance.name): (
                profile,
                (instance, profile.filters, profile.pre_eviction_filters, delete_options),
            )
            for profile in profiles
            for instance in profile.controllers
        }
        await self._stop_unless({key: made for key, (_, made) in wanted.items()})
        for key, (profile, made) in wanted.items():
            if supervised := self._running.get(key):
                supervised.make_handle = make_handle  # for its next start
            else:
                self._running[key] = self._begin(_Supervised(profile, made, make_handle))

    async def stop(self) -> None:
        """Stop all controllers and wait until they have ended."""
        await self._stop_unless({})

    async def _stop_unless(self, wanted: Mapping[tuple[str, str], _Made]) -> None:
        """Stop the controllers that are not wanted, or would be made from something else now."""
        ending = [
            self._running.pop(key)
            for key, supervised in list(self._running.items())
            if wanted.get(key) != supervised.made
        ]
        by_task = {supervised.task: supervised for supervised in ending if supervised.task}
        if not by_task:
            return
        for task, supervised in by_task.items():
            supervised.start.is_over = True
            task.cancel()
        _, left = await asyncio.wait(by_task, timeout=self._stop_seconds)
        for task, supervised in by_task.items():
            name, profile = supervised.instance.name, supervised.profile.name
            if task in left:
                why = f"still busy {self._stop_seconds:g}s after it was cancelled"
                self._log.error(
                    "controller left behind", controller=name, profile=profile, reason=why
                )
            else:
                self._log.info("controller stopped", controller=name, profile=profile)

    def _begin(self, supervised: _Supervised) -> _Supervised:
        supervised.task = asyncio.create_task(
            self._supervise(supervised), name=f"controller {supervised.instance.name}"
        )
        return supervised

    async def _supervise(self, supervised: _Supervised) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = self._clock.steady()
            try:
                await self._run(supervised)
                supervised.failure = "it ended by itself"
            except Exception as error:
                supervised.failure = _describe(error)
            finally:
                supervised.running = False
                supervised.start.is_over = True
            try:
                self._may_act()
            except NotNow as error:
                # A stop was requested or the lease is lost: it is cancelled soon.
                supervised.failure = str(error)
                return
            if self._clock.steady() - began >= STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            self._log.error(
                "controller failed",
                controller=supervised.instance.name,
                profile=supervised.profile.name,
                reason=supervised.failure,
                again_in=pause,
            )
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            supervised.restarts += 1

    async def _run(self, supervised: _Supervised) -> None:
        make = supervised.instance.plugin.controller
        assert make is not None
        start = supervised.start = _Start()
        handle = supervised.make_handle(
            supervised.profile, start.may_go_on, supervised.figures.__setitem__
        )
        controller = make(supervised.instance.args, handle)
        supervised.running = True
        self._log.info(
            "controller started",
            controller=supervised.instance.name,
            profile=supervised.profile.name,
        )
        # A task of its own: what it cancels, or takes for a cancellation, ends nothing but itself.
        working = asyncio.ensure_future(controller.run())
        try:
            await asyncio.wait({working})
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        if working.cancelled():
            raise RuntimeError("it cancelled itself")
        working.result()


def _describe(error: BaseException) -> str:
    """The error in one line; of a group of errors, the first that is none."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
