"""What a controller asks for: something new, something changed, something gone, or more time.

A controller is a function from a sight to these. It asks only for the difference between what is
and what should be, so that a second look at the same cluster asks for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec import Struct

from resettle.testing.life.moments import told_as
from resettle.testing.life.sight import Sight
from resettle.testing.objects import Object
from resettle.testing.pocket.store import Store


class Put(Struct, frozen=True):
    """A new object."""

    object: Object

    def carry_out(self, store: Store) -> None:
        """Keeps the object."""
        store.put(self.object)


class Merge(Struct, frozen=True):
    """A change of an object that is there."""

    kind: str
    key: str
    patch: Object

    def carry_out(self, store: Store) -> None:
        """Lays the patch over the object."""
        namespace, _, name = self.key.partition("/")
        store.merge(self.kind, name, self.patch, namespace)


class Gone(Struct, frozen=True):
    """The end of an object."""

    kind: str
    key: str

    def carry_out(self, store: Store) -> None:
        """Removes the object."""
        namespace, _, name = self.key.partition("/")
        store.delete(self.kind, name, namespace)


class Later(Struct, frozen=True):
    """Nothing yet, but something at this time."""

    at: datetime


Write = Put | Merge | Gone
Controller = Callable[[Sight], Iterator[Write | Later]]


def change(obj: Object, patch: Object) -> Merge:
    """A change of this object."""
    meta = obj["metadata"]
    return Merge(obj["kind"], f"{meta.get('namespace', '')}/{meta['name']}", patch)


def status_of(obj: Object, status: Object) -> Iterator[Merge]:
    """The change that brings a status about; nothing if it is so already."""
    now = obj.get("status") or {}
    differs = {key: value for key, value in status.items() if now.get(key) != value}
    if differs:
        yield change(obj, {"status": differs})


def farewell(obj: Object, now: datetime) -> Iterator[Write]:
    """The deletion of an object: pods on a node have their grace, anything else goes at once."""
    meta, spec = obj["metadata"], obj.get("spec") or {}
    finished = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    grace = int(spec.get("terminationGracePeriodSeconds", 30))
    if obj["kind"] != "Pod" or not spec.get("nodeName") or finished or not grace:
        yield Gone(obj["kind"], f"{meta.get('namespace', '')}/{meta['name']}")
    elif not meta.get("deletionTimestamp"):
        leave = {"deletionTimestamp": told_as(now, grace), "deletionGracePeriodSeconds": grace}
        yield change(obj, {"metadata": leave})
