"""All objects of the server, a counter of resource versions, and the history of changes.

Every write happens in a `transaction`. Transactions of different threads follow one another; the
changes of a transaction are delivered to subscribers when it ends, in order, before the next one
begins. A subscriber may write: those changes are delivered after the one it received.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import attrgetter
from threading import RLock
from typing import Any, NamedTuple

import msgspec

from resettle.testing.api_server.objects.kinds import Catalogue, Resource
from resettle.testing.builders import Object

KEPT = 20_000
"""Changes remembered of each kind, before the older half is forgotten."""


class Revision(NamedTuple):
    """An entry came (no old one), changed, or went (no new one)."""

    version: int
    key: str
    old: StoredObject | None
    new: StoredObject | None


class Compacted(LookupError):
    """A version was asked for that has been compacted away."""


class History:
    """Changes by bucket, oldest first, back to the last compaction."""

    def __init__(self) -> None:
        self.compacted = 0
        self._changes: dict[str, list[Revision]] = {}

    def record(self, bucket: str, change: Revision) -> None:
        """Remembers a change."""
        changes = self._changes.setdefault(bucket, [])
        changes.append(change)
        if len(changes) > KEPT:
            self.compact(changes[KEPT // 2].version)

    def since(self, bucket: str, version: int) -> list[Revision]:
        """What changed after this version."""
        if version < self.compacted:
            raise Compacted(version)
        changes = self._changes.get(bucket, [])
        return changes[bisect_right(changes, version, key=attrgetter("version")) :]

    def entries_at(
        self, bucket: str, held: dict[str, StoredObject], version: int
    ) -> dict[str, StoredObject]:
        """The entries as they were at this version; the same mapping if nothing has changed."""
        changes = self.since(bucket, version)
        if not changes:
            return held
        past = dict(held)
        for change in reversed(changes):
            if change.old is None:
                past.pop(change.key, None)
            else:
                past[change.key] = change.old
        return past

    def compact(self, version: int) -> None:
        """Forgets all changes up to this version."""
        self.compacted = max(self.compacted, version)
        for bucket, changes in self._changes.items():
            kept = bisect_right(changes, self.compacted, key=attrgetter("version"))
            self._changes[bucket] = changes[kept:]


Clock = Callable[[], datetime]
Listener = Callable[[Revision], None]


class StoredObject:
    """An object at one version; it never changes, and its bytes are made once."""

    __slots__ = ("_body", "key", "object", "version")

    def __init__(self, key: str, obj: Object, version: int) -> None:
        self.key = key
        self.object = obj
        """Without apiVersion and kind, which belong to the place it is asked for at."""
        self.version = version
        self._body = b""

    @property
    def body(self) -> bytes:
        """The object as JSON."""
        if not self._body:
            self._body = msgspec.json.encode(self.object)
        return self._body

    @property
    def meta(self) -> Object:
        """Its metadata."""
        metadata: Object = self.object["metadata"]
        return metadata

    def copy(self) -> Object:
        """The object, for someone who may change it."""
        made: Object = msgspec.json.decode(self.body)
        return made


def key_of(namespace: str, name: str) -> str:
    """The place of an object within its bucket."""
    return f"{namespace}/{name}"


class Storage:
    """The stored objects, their history, and the subscribers."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.catalogue = Catalogue()
        self.history = History()
        self.version = 0
        self.bookmarks = 0
        """How often watches were asked to send a bookmark."""
        self.wakers: set[Callable[[], None]] = set()
        self.followers: set[Callable[[], None]] = set()
        """Called before a compaction, so that open watches read what they have not sent yet."""
        self.listeners: dict[str, list[Listener]] = {}
        self._buckets: dict[str, dict[str, StoredObject]] = {}
        self._order: dict[str, list[str]] = {}
        self._lock = RLock()
        self._depth = 0
        self._undelivered: deque[tuple[str, Revision]] = deque()

    def now(self) -> str:
        """The time, as the API writes it."""
        return self.format_time(self.clock())

    @staticmethod
    def format_time(instant: datetime) -> str:
        """An instant, as the API writes it."""
        return instant.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    # -- transactions ---------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """The storage to oneself, until the block ends."""
        with self._lock:
            self._depth += 1
            try:
                yield
            finally:
                # A transaction that ends in a refusal may have changed something all the same.
                try:
                    if self._depth == 1:
                        self._notify()
                finally:
                    self._depth -= 1

    def _notify(self) -> None:
        news = bool(self._undelivered)
        while self._undelivered:
            bucket, change = self._undelivered.popleft()
            for listener in tuple(self.listeners.get(bucket, ())):
                listener(change)
        if news:
            self.wake()

    def wake(self) -> None:
        """Make watches look for new changes."""
        for waker in tuple(self.wakers):
            waker()

    # -- reading --------------------------------------------------------------------------------

    def find(self, resource: Resource, namespace: str, name: str) -> StoredObject | None:
        """The entry of this name."""
        return self._buckets.get(resource.bucket, {}).get(key_of(namespace, name))

    def entries(self, resource: Resource, version: int | None = None) -> list[StoredObject]:
        """All entries in the order of their keys, as they are now or as they were."""
        bucket = resource.bucket
        held = self._buckets.get(bucket, {})
        if version is not None and version < self.version:
            past = self.history.entries_at(bucket, held, version)
            if past is not held:
                return [past[key] for key in sorted(past)]
        order = self._order.get(bucket)
        if order is None:
            order = self._order[bucket] = sorted(held)
        return [held[key] for key in order]

    # -- writing, in a transaction --------------------------------------------------------------

    def write(self, resource: Resource, obj: Object, *, dry: bool = False) -> StoredObject:
        """The object as an entry with a version of its own; a dry one is kept nowhere."""
        meta = obj["metadata"]
        key = key_of(meta.get("namespace", ""), meta["name"])
        version = self.version + 1
        entry = StoredObject(
            key, {**obj, "metadata": {**meta, "resourceVersion": str(version)}}, version
        )
        if not dry:
            bucket = self._buckets.setdefault(resource.bucket, {})
            old = bucket.get(key)
            bucket[key] = entry
            self._enter(resource, Revision(version, key, old, entry))
        return entry

    def remove(self, resource: Resource, entry: StoredObject, *, dry: bool = False) -> StoredObject:
        """The entry as it was last, with the version of its end."""
        version = self.version + 1
        meta = {**entry.meta, "resourceVersion": str(version)}
        last = StoredObject(entry.key, {**entry.object, "metadata": meta}, version)
        if not dry:
            del self._buckets[resource.bucket][entry.key]
            self._enter(resource, Revision(version, entry.key, entry, None))
        return last

    def _enter(self, resource: Resource, change: Revision) -> None:
        self.version = change.version
        if change.old is None or change.new is None:
            self._order.pop(resource.bucket, None)
        self.history.record(resource.bucket, change)
        self._undelivered.append((resource.bucket, change))

    def compact(self) -> None:
        """Forget the history; older versions cannot be read any more."""
        with self.transaction():
            for follower in tuple(self.followers):
                follower()
            self.history.compact(self.version)
        self.wake()

    def bookmark(self) -> None:
        """Has watchers that take bookmarks send one."""
        with self.transaction():
            self.bookmarks += 1
        self.wake()


def deep_copy(obj: Any) -> Any:
    """A deep copy of plain data."""
    return msgspec.json.decode(msgspec.json.encode(obj))
