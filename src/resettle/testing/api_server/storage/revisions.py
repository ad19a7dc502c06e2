"""Everything the server holds: entries by bucket, one counter of versions, and what changed when.

All writing happens in a `turn`. Turns of different threads follow one another; what a turn has
changed is told to subscribers when it ends, in order, and before anyone else has a turn. A
subscriber may write in its turn: what it changes is told after what it was told of.

What changed when, for watches and for lists of the past.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from resettle.testing.api_server.objects.kinds import Catalogue, Resource
from resettle.testing.builders import Object

if TYPE_CHECKING:
    pass

KEPT = 20_000
"""Changes remembered of each kind, before the older half is forgotten."""


class Change(NamedTuple):
    """An entry came (no old one), changed, or went (no new one)."""

    version: int
    key: str
    old: Entry | None
    new: Entry | None


class Forgotten(LookupError):
    """A version was asked for that has been compacted away."""


class History:
    """Changes by bucket, oldest first, back to the last compaction."""

    def __init__(self) -> None:
        self.compacted = 0
        self._changes: dict[str, list[Change]] = {}

    def record(self, bucket: str, change: Change) -> None:
        """Remembers a change."""
        changes = self._changes.setdefault(bucket, [])
        changes.append(change)
        if len(changes) > KEPT:
            self.compact(changes[KEPT // 2].version)

    def since(self, bucket: str, version: int) -> list[Change]:
        """What changed after this version."""
        if version < self.compacted:
            raise Forgotten(version)
        changes = self._changes.get(bucket, [])
        return changes[bisect_right(changes, version, key=attrgetter("version")) :]

    def undone(self, bucket: str, held: dict[str, Entry], version: int) -> dict[str, Entry]:
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
Listener = Callable[[Change], None]


class Entry:
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
        found: Object = self.object["metadata"]
        return found

    def copy(self) -> Object:
        """The object, for someone who may change it."""
        made: Object = msgspec.json.decode(self.body)
        return made


def key_of(namespace: str, name: str) -> str:
    """The place of an object within its bucket."""
    return f"{namespace}/{name}"


class Ledger:
    """The entries, their history, and who wants to know."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.catalogue = Catalogue()
        self.history = History()
        self.version = 0
        self.bookmarks = 0
        """How often watchers have been told to send a bookmark."""
        self.wakers: set[Callable[[], None]] = set()
        self.followers: set[Callable[[], None]] = set()
        """What open watches do before the past is forgotten: take note of what they have missed."""
        self.listeners: dict[str, list[Listener]] = {}
        self._buckets: dict[str, dict[str, Entry]] = {}
        self._order: dict[str, list[str]] = {}
        self._lock = RLock()
        self._depth = 0
        self._untold: deque[tuple[str, Change]] = deque()

    def now(self) -> str:
        """The time, as the API writes it."""
        return self.written(self.clock())

    @staticmethod
    def written(instant: datetime) -> str:
        """An instant, as the API writes it."""
        return instant.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    # -- turns ----------------------------------------------------------------------------------

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The ledger to oneself, until the block ends."""
        with self._lock:
            self._depth += 1
            try:
                yield
            finally:
                # A turn that ends in a refusal may have changed something all the same.
                try:
                    if self._depth == 1:
                        self._tell()
                finally:
                    self._depth -= 1

    def _tell(self) -> None:
        news = bool(self._untold)
        while self._untold:
            bucket, change = self._untold.popleft()
            for listener in tuple(self.listeners.get(bucket, ())):
                listener(change)
        if news:
            self.wake()

    def wake(self) -> None:
        """Has watchers look for what is new."""
        for waker in tuple(self.wakers):
            waker()

    # -- reading --------------------------------------------------------------------------------

    def find(self, resource: Resource, namespace: str, name: str) -> Entry | None:
        """The entry of this name."""
        return self._buckets.get(resource.bucket, {}).get(key_of(namespace, name))

    def entries(self, resource: Resource, version: int | None = None) -> list[Entry]:
        """All entries in the order of their keys, as they are now or as they were."""
        bucket = resource.bucket
        held = self._buckets.get(bucket, {})
        if version is not None and version < self.version:
            past = self.history.undone(bucket, held, version)
            if past is not held:
                return [past[key] for key in sorted(past)]
        order = self._order.get(bucket)
        if order is None:
            order = self._order[bucket] = sorted(held)
        return [held[key] for key in order]

    # -- writing, in a turn ---------------------------------------------------------------------

    def write(self, resource: Resource, obj: Object, *, dry: bool = False) -> Entry:
        """The object as an entry with a version of its own; a dry one is kept nowhere."""
        meta = obj["metadata"]
        key = key_of(meta.get("namespace", ""), meta["name"])
        version = self.version + 1
        entry = Entry(key, {**obj, "metadata": {**meta, "resourceVersion": str(version)}}, version)
        if not dry:
            bucket = self._buckets.setdefault(resource.bucket, {})
            old = bucket.get(key)
            bucket[key] = entry
            self._enter(resource, Change(version, key, old, entry))
        return entry

    def remove(self, resource: Resource, entry: Entry, *, dry: bool = False) -> Entry:
        """The entry as it was last, with the version of its end."""
        version = self.version + 1
        meta = {**entry.meta, "resourceVersion": str(version)}
        last = Entry(entry.key, {**entry.object, "metadata": meta}, version)
        if not dry:
            del self._buckets[resource.bucket][entry.key]
            self._enter(resource, Change(version, entry.key, entry, None))
        return last

    def _enter(self, resource: Resource, change: Change) -> None:
        self.version = change.version
        if change.old is None or change.new is None:
            self._order.pop(resource.bucket, None)
        self.history.record(resource.bucket, change)
        self._untold.append((resource.bucket, change))

    def compact(self) -> None:
        """Forgets what changed when; older versions are no longer to be had."""
        with self.turn():
            for follower in tuple(self.followers):
                follower()
            self.history.compact(self.version)
        self.wake()

    def bookmark(self) -> None:
        """Has watchers that take bookmarks send one."""
        with self.turn():
            self.bookmarks += 1
        self.wake()


def copied(obj: Any) -> Any:
    """A deep copy of plain data."""
    return msgspec.json.decode(msgspec.json.encode(obj))
