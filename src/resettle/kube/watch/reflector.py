"""Keeps the store of one kind current: one list, then watches, like client-go's Reflector.

    list ──► watch from the version of the list ──► … from the last version received ──► …
     ▲                                                                    │
     └── 410, an ERROR event, a malformed event, or no event for too long ◄┘

A watch that ends in any other way is resumed from the last version received, after a pause that
grows with each failure. No event is missed in between: the API server sends what has happened since
a version, or answers 410 if it cannot, and then the kind is listed again.
"""

from __future__ import annotations

import math
from contextlib import aclosing
from functools import partial

from resettle.clock import Clock
from resettle.errors import ClusterError, Forbidden, InputError, Unauthorized
from resettle.kube.auth.access import Access
from resettle.kube.status import Answer, status_of
from resettle.kube.transport.client import Client
from resettle.kube.watch.events import (
    UNREADABLE,
    MalformedObject,
    ObjectReader,
    WatchEvent,
    compact_version,
    unreadable_object,
)
from resettle.kube.watch.lists import list_kind, run_in_thread
from resettle.kube.watch.store import ObjectStore
from resettle.log import Log

LONGEST_PAUSE = 30.0
FIRST_PAUSE = 0.1
FIRST_TRIES = 8
"""How often a first list is tried, over some twelve seconds, before its error is final."""
RESUMES_BEFORE_LIST = 4
"""How often a watch is resumed without success before the kind is listed again."""
WATCH_SECONDS = 90
"""How long a watch lasts; one that ends as planned proves that no event was missed."""
RELIST_AFTER_SECONDS = 60.0
"""After this time without any event, while watches fail, the kind is listed again."""
_GRACE_SECONDS = 15
_GONE = 410
_BUSY = frozenset({401, 403, 429, 503})
"""Answers that say nothing about the version: a list would get the same answer."""
_BRIEF_SECONDS = 1.0
_EVERYDAY = 2


class WatchExpired(ClusterError):
    """The watch cannot be resumed from the last version; a new list is needed."""


class WatchRefused(ClusterError):
    """The API server refuses watches for now, and would refuse a list as well."""


class Reflector:
    """Keeps a store equal to the API server's objects of one kind, until it is cancelled."""

    def __init__(
        self,
        kind: str,
        path: str,
        reader: ObjectReader,
        store: ObjectStore,
        *,
        access: Access,
        client: Client,
        clock: Clock,
        log: Log,
        watch_seconds: int = WATCH_SECONDS,
    ) -> None:
        self.kind = kind
        self.version = ""
        """The resource version up to which every event has been received."""
        self.listed = False
        """Whether there has been a list at all."""
        self.listing = False
        """Whether a list is being read, by a thread that shares the decoder."""
        self.current_at = -math.inf
        """When the store was last known to be current, by the steady clock."""
        self._path = path
        self._what = path.rpartition("/")[2]
        self._reader = reader
        self._store = store
        self._access = access
        self._client = client
        self._clock = clock
        self._log = log
        self._seconds = watch_seconds
        self._failures = 0
        self._must_list = True
        self._because = ""
        self._advice = 0.0

    def age(self) -> float:
        """Seconds since the store was last known to be current; infinite before a list."""
        return self._clock.steady() - self.current_at

    async def first_list(self) -> None:
        """Return when the kind is listed; raise an error that waiting would not remove."""
        while self._must_list:
            try:
                await self._list()
            except (Forbidden, Unauthorized, InputError):
                raise
            except ClusterError as error:
                self._note_failure(error)
                if self._failures == FIRST_TRIES:
                    raise
                await self._pause()

    async def follow(self) -> None:
        """Watch forever, and list again where that is needed."""
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
            except (WatchExpired, MalformedObject) as error:
                self._must_list = True
                self._because = str(error)
                self._note_failure(error)
            except (ClusterError, InputError) as error:
                if self.age() > RELIST_AFTER_SECONDS and not isinstance(error, WatchRefused):
                    self._must_list = True
                    self._because = f"no event came for {self.age():.0f} s"
                self._note_failure(error)
            await self._pause()

    async def _list(self) -> None:
        began = self._clock.steady()
        self.listing = True
        try:
            work = partial(list_kind, self._access, self._path, self._reader, self._store.versions)
            listing = await run_in_thread(work)
        finally:
            self.listing = False
        self.version = listing.version
        self._must_list = False
        self.current_at = began
        self._store.replace(listing)
        if self.listed:
            self._log.info("listed again", kind=self.kind, reason=self._because)
        else:
            objects = sum(map(len, listing.versions.values()))
            took = self._clock.steady() - began
            self._log.detail("listed", kind=self.kind, objects=objects, took=took)
        self.listed = True

    async def _watch(self) -> None:
        query = {
            "watch": "1",
            "resourceVersion": self.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._seconds),
        }
        began = self._clock.steady()
        lines = self._client.watch(self._path, query, quiet_for=self._seconds + _GRACE_SECONDS)
        async with aclosing(lines):  # type: ignore[type-var]
            async for line in lines:
                if isinstance(line, Answer):
                    self._raise_refusal(line)
                else:
                    self._apply(self._reader.read_event(line, self._what))
        if self._clock.steady() - began < _BRIEF_SECONDS and self.current_at < began:
            raise ClusterError(f"a watch of {self._what} ended as soon as it began")
        self._note_success()

    def _apply(self, event: WatchEvent) -> None:
        """Apply an event to the store and remember its version."""
        match event.type:
            case "ERROR":
                raise WatchExpired(f"the watch of {self._what} ended: {event.reason}")
            case "BOOKMARK":
                if _before(event.version, self.version):
                    raise WatchExpired(f"{self._what} are at an earlier version than they were")
            case "DELETED":
                meta = event.item.metadata
                self._store.drop(meta.namespace, meta.name)
            case _:
                meta = event.item.metadata
                thing = self._convert(event)
                self._store.put(
                    meta.namespace, meta.name, compact_version(meta.resource_version), thing
                )
        self.version = event.version or self.version
        self._note_success()

    def _convert(self, event: WatchEvent) -> object:
        try:
            return self._reader.convert(event.item)
        except UNREADABLE as error:
            raise MalformedObject(str(unreadable_object(event.item, self._what, error))) from None

    def _raise_refusal(self, answer: Answer) -> None:
        status = status_of(answer)
        reason = f"a watch of {self._what} was answered {answer.status}: {status.message}"
        self._advice = status.retry_after_seconds or 0.0
        in_vain = (
            self._failures % RESUMES_BEFORE_LIST == RESUMES_BEFORE_LIST - 1
            and answer.status not in _BUSY
        )
        if answer.status == _GONE or in_vain:
            raise WatchExpired(reason)
        raise WatchRefused(reason) if answer.status in _BUSY else ClusterError(reason)

    def _note_success(self) -> None:
        self.current_at = self._clock.steady()
        if self._failures:
            self._failures = 0
            self._log.forget(f"watch {self.kind}")

    def _note_failure(self, error: Exception) -> None:
        """Count a failure; warn only if it lasts, because watches are often cut off."""
        self._failures += 1
        if isinstance(error, MalformedObject | InputError) or self._failures > _EVERYDAY:
            log = self._log.only_when_new(f"watch {self.kind}")
            log.warning("watch failing", kind=self.kind, reason=str(error))
        else:
            self._log.debug("watch ended", kind=self.kind, reason=str(error))

    async def _pause(self) -> None:
        if self._failures:
            pause = FIRST_PAUSE * 2 ** min(self._failures - 1, 16)
            pause, self._advice = max(pause, self._advice), 0.0
            await self._clock.sleep(min(pause, LONGEST_PAUSE))


def _before(version: str, other: str) -> bool:
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)
