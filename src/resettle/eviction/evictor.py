"""The filters of a profile over the cluster as it is now, for movers and controllers.

A fresh view costs a snapshot, in a large cluster some tens of milliseconds. So it is made again
only when something has changed, and never more often than its own cost allows: what was true a
moment ago is asked of the view, what is true of one pod right now is asked of the watch cache.

Views are made on the event loop that the watch cache runs on. Another thread that asks waits for
the loop to answer; the filters themselves then run in the thread that asked.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from resettle.clock import Clock
from resettle.framework.admission import PLACEHOLDER_POD
from resettle.framework.profile import Profile, ProfileFilters
from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.migration_job import PLACEHOLDER
from resettle.model.pod import Pod

_SHORTEST_SECONDS = 0.1
"""Time from one fresh view to the next, at least."""
_PAUSE_BY_COST = 20
"""Fresh views take at most a twentieth of the time."""
_LONGEST_SECONDS = 1.0
"""Age at which a view is made again though nothing has changed: limits over time move on."""

T = TypeVar("T")


class ChangeCount(Protocol):
    """What counts the changes of a cluster: the watch cache."""

    changes: int

    async def wait_for_change(self, seen: int) -> None:
        """Return when there were more changes than `seen`, which is a former `changes`."""


class FreshView:
    """The newest view of the cluster, made again when something has changed.

    `take` makes a view; `count` counts the changes of the watch cache; `is_busy` says that none can
    be made now, because a plan is being drawn from the same cache. Belongs to the event loop that
    it is made on, if there is one.
    """

    def __init__(
        self,
        take: Callable[[], View],
        count: ChangeCount,
        clock: Clock,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._take = take
        self._count = count
        self._clock = clock
        self._is_busy = is_busy
        self._view: View | None = None
        self.taken_with = -1
        """How many changes the view has."""
        self._not_before = 0.0
        self._old_at = 0.0
        self._thread = threading.get_ident()
        self._loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    def view(self) -> View:
        """The view as of a moment ago."""
        return self.on_its_loop(self._newest)

    def _newest(self) -> View:
        now = self._clock.steady()
        is_old = self.taken_with != self._count.changes or now >= self._old_at
        if self._view is None or (is_old and now >= self._not_before and not self._is_busy()):
            return self.refresh()
        return self._view

    def refresh(self) -> View:
        """A view as of the last watch event; not to be called while a plan is being drawn."""
        began = self._clock.steady()
        view = self._take()
        self.use(view, cost=self._clock.steady() - began)
        return view

    def use(self, view: View, cost: float = 0.0) -> None:
        """Take over a view that was made just now, and took so many seconds to make."""
        self.forget()
        self._view = view
        self.taken_with = self._count.changes
        now = self._clock.steady()
        self._not_before = now + max(_SHORTEST_SECONDS, _PAUSE_BY_COST * cost)
        self._old_at = now + _LONGEST_SECONDS

    def forget(self) -> None:
        """Drop the view, for instance because another policy sees the cluster differently."""
        if self._view is not None:
            self._view.release()
        self._view = None

    def on_its_loop(self, ask: Callable[[], T]) -> T:
        """The answer of `ask`, called on the event loop of the watch cache."""
        if self._loop is None or threading.get_ident() == self._thread:
            return ask()
        answer = Future[T]()

        def fill_in() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(fill_in)
        return answer.result()

    def waits(self) -> Callable[[float], Coroutine[Any, Any, None]]:
        """A function that waits for changes, for one controller; see `ChangeWaits`."""
        return ChangeWaits(self, self._count, self._clock).wait


class ChangeWaits:
    """Waits of one controller for changes that it has not seen.

    A change counts as seen when the view had it at the end of a wait. So a controller that reads
    the view never misses the last change, although the view is made again only every so often: the
    next wait then ends as soon as there is a newer view.
    """

    def __init__(self, fresh_view: FreshView, count: ChangeCount, clock: Clock) -> None:
        self._fresh_view = fresh_view
        self._count = count
        self._clock = clock
        self._seen = -1
        self._ended_with = -1

    async def wait(self, seconds: float) -> None:
        """Return when an object has changed since the last wait ended, at most after `seconds`."""
        waits = (
            asyncio.ensure_future(self._change()),
            asyncio.ensure_future(self._clock.sleep(seconds)),
        )
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        self._fresh_view.view()
        self._seen, self._ended_with = self._fresh_view.taken_with, self._count.changes

    async def _change(self) -> None:
        while self._count.changes == self._ended_with != self._seen:
            # The view was older than the last change when the last wait ended.
            self._fresh_view.view()
            if self._fresh_view.taken_with != self._seen:
                return
            await self._clock.sleep(_SHORTEST_SECONDS)
        await self._count.wait_for_change(self._seen)


class LiveEvictor:
    """The filters of one profile over the newest view."""

    def __init__(
        self,
        profile: Profile,
        fresh_view: FreshView,
        live_pod: Callable[[str, str], Pod | None],
    ) -> None:
        self._profile = profile
        self._fresh_view = fresh_view
        self._live_pod = live_pod
        self._derived: tuple[View | None, View | None] = (None, None)

    @property
    def view(self) -> View:
        """The cluster as of about the last watch event."""
        return self._fresh_view.view()

    def live_pod(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name as of the last watch event."""
        return self._fresh_view.on_its_loop(lambda: self._live_pod(namespace, name))

    def refusal(
        self,
        pod: Pod,
        moving: frozenset[str] | None = None,
        *,
        place_held: bool = False,
        view: View | None = None,
    ) -> Refusal | None:
        """Why the filters of the profile would not let the pod leave; None if they would.

        `moving` are the uids of the pods that count as moving, if not all that are known to move.
        `place_held` says that a place is held for its replacement, which fills the node for others.
        `view` is the view to ask, if not the newest: pods that are compared need the same.
        """
        if PLACEHOLDER in pod.labels:
            return PLACEHOLDER_POD
        view = self.view if view is None else view
        places = frozenset({pod.uid}) if place_held else frozenset()
        if places or (moving is not None and moving != view.moving):
            view = self._derive(view, view.moving if moving is None else moving, places)
        return view.prepare_once(self._profile, ProfileFilters).all.refusal(pod)

    def _derive(self, view: View, moving: frozenset[str], places: frozenset[str]) -> View:
        """The view with other pods counted as moving, and these places held; the last is kept."""
        base, derived = self._derived
        if (
            derived is None
            or base is not view
            or (derived.moving, derived.held_places) != (moving, places)
        ):
            snapshot = view.snapshot.with_moving(moving)
            derived = View(snapshot, view.semantics, view.node_selector, view.departed)
            derived.held_places = places
            self._derived = (view, derived)
        return derived
