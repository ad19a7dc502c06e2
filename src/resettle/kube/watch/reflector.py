"""One kind, listed once and watched from there on.

    list ──► watch from the version of the list ──► … from the last version heard ──► …
     ▲                                                                    │
     └── 410, an ERROR event, something garbled, or no news for too long ◄┘

Whatever else ends a watch, it is taken up again from the last version heard, after a pause that
grows while nothing is heard. Nothing is missed in between: the API server tells what has happened
since a version, or says that it cannot, and then the kind is listed anew.
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
from resettle.kube.watch.events import UNREADABLE, MalformedObject, WatchEvent, ObjectReader, unreadable_object, compact_version
from resettle.kube.watch.lists import run_in_thread, list_kind
from resettle.kube.watch.store import ObjectStore
from resettle.log import Log

LONGEST_PAUSE = 30.0
FIRST_PAUSE = 0.1
FIRST_TRIES = 8
"""How often a first list is tried, over some twelve seconds, before its error is for good."""
RESUMES_BEFORE_LIST = 4
"""How often a watch is taken up in vain before the kind is listed anew."""
WATCH_SECONDS = 90
"""A watch that ends in order proves that nothing was missed: an upper limit to doubt."""
RELIST_AFTER_SECONDS = 60.0
"""How long watches that are cut before they speak leave us without news until we list anew."""
_GRACE_SECONDS = 15
_GONE = 410
_BUSY = frozenset({401, 403, 429, 503})
"""Answers that say nothing of the version: a list would be told the same."""
_BRIEF_SECONDS = 1.0
_EVERYDAY = 2


class WatchExpired(ClusterError):
    """The watch cannot go on from here; only a list can."""


class WatchRefused(ClusterError):
    """The API server will not let us watch for now, nor list."""


class Reflector:
    """Keeps a shelf true to the API server, from `run` until it is cancelled."""

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
        """The resource version up to which everything has been heard."""
        self.listed = False
        """Whether there has been a list at all."""
        self.listing = False
        """Whether a list is being read, by a thread that shares the decoder."""
        self.current_at = -math.inf
        """The steady moment up to which all is known; infinitely long ago before a list."""
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
        """Steady seconds since all that there was to know was known; infinite before a list."""
        return self._clock.steady() - self.current_at

    async def first_list(self) -> None:
        """Returns once the kind is listed; raises what will not get better by waiting."""
        while self._must_list:
            try:
                await self._list()
            except (Forbidden, Unauthorized, InputError):
                raise
            except ClusterError as error:
                self._trouble(error)
                if self._failures == FIRST_TRIES:
                    raise
                await self._pause()

    async def follow(self) -> None:
        """Watches, and lists anew where that is due, for ever."""
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
            except (WatchExpired, MalformedObject) as error:
                self._must_list = True
                self._because = str(error)
                self._trouble(error)
            except (ClusterError, InputError) as error:
                if self.age() > RELIST_AFTER_SECONDS and not isinstance(error, WatchRefused):
                    self._must_list = True
                    self._because = f"nothing was heard for {self.age():.0f} s"
                self._trouble(error)
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
                    self._refused(line)
                else:
                    self._take(self._reader.read_event(line, self._what))
        if self._clock.steady() - began < _BRIEF_SECONDS and self.current_at < began:
            raise ClusterError(f"a watch of {self._what} ended as soon as it began")
        self._well()

    def _take(self, news: WatchEvent) -> None:
        """Enters what a line told, and takes note of how far we have heard."""
        match news.type:
            case "ERROR":
                raise WatchExpired(f"the watch of {self._what} ended: {news.reason}")
            case "BOOKMARK":
                if _before(news.version, self.version):
                    raise WatchExpired(f"{self._what} are at an earlier version than they were")
            case "DELETED":
                meta = news.item.metadata
                self._store.drop(meta.namespace, meta.name)
            case _:
                meta = news.item.metadata
                thing = self._modelled(news)
                self._store.put(meta.namespace, meta.name, compact_version(meta.resource_version), thing)
        self.version = news.version or self.version
        self._well()

    def _modelled(self, news: WatchEvent) -> object:
        try:
            return self._reader.convert(news.item)
        except UNREADABLE as error:
            raise MalformedObject(str(unreadable_object(news.item, self._what, error))) from None

    def _refused(self, answer: Answer) -> None:
        said = status_of(answer)
        reason = f"a watch of {self._what} was answered {answer.status}: {said.message}"
        self._advice = said.retry_after_seconds or 0.0
        in_vain = self._failures % RESUMES_BEFORE_LIST == RESUMES_BEFORE_LIST - 1 and answer.status not in _BUSY
        if answer.status == _GONE or in_vain:
            raise WatchExpired(reason)
        raise WatchRefused(reason) if answer.status in _BUSY else ClusterError(reason)

    def _well(self) -> None:
        self.current_at = self._clock.steady()
        if self._failures:
            self._failures = 0
            self._log.forget(f"watch {self.kind}")

    def _trouble(self, error: Exception) -> None:
        """Counts a failure, and tells of it if it lasts: a watch that is cut is everyday life."""
        self._failures += 1
        if isinstance(error, MalformedObject | InputError) or self._failures > _EVERYDAY:
            log = self._log.only_when_new(f"watch {self.kind}")
            log.warning("cluster not heard", kind=self.kind, reason=str(error))
        else:
            self._log.debug("watch ended", kind=self.kind, reason=str(error))

    async def _pause(self) -> None:
        if self._failures:
            pause = FIRST_PAUSE * 2 ** min(self._failures - 1, 16)
            pause, self._advice = max(pause, self._advice), 0.0
            await self._clock.sleep(min(pause, LONGEST_PAUSE))


def _before(version: str, other: str) -> bool:
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)
