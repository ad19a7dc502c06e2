"""What changed when, for watches and for lists of the past."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from resettle.testing.pocket.ledger import Entry

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
