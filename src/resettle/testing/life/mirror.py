"""A store as controllers look at it: kept up to date by what changes, never listed anew."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from resettle.testing.life.sight import KINDS, Sight, key_of
from resettle.testing.objects import Object
from resettle.testing.pocket.store import Change, Store


class Mirror:
    """The objects of a store, by kind and name."""

    def __init__(self, store: Store) -> None:
        self._held: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
        self._serial = 0
        self._sight: Sight | None = None
        self._ends = [store.subscribe(kind, self._noted(kind)) for kind in KINDS]
        for kind in KINDS:
            for obj in store.list(kind):
                self._held[kind][key_of(obj)] = obj

    def _noted(self, kind: str) -> Callable[[Change], None]:
        def note(change: Change) -> None:
            self._serial += 1
            if change.new is not None:
                self._held[kind][key_of(change.new)] = change.new
            elif change.old is not None:
                self._held[kind].pop(key_of(change.old), None)

        return note

    def sight(self, now: datetime) -> Sight:
        """All of it at this time; the same sight while nothing changes."""
        last = self._sight
        if last is None or (last.now, last.serial) != (now, self._serial):
            held = {kind: dict(objects) for kind, objects in self._held.items()}
            last = self._sight = Sight(held, now, self._serial)
        return last

    def close(self) -> None:
        """Looks no more."""
        for end in self._ends:
            end()
