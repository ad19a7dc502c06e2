"""The store of one kind: the version of each object, and the changes since the last snapshot.

The objects themselves are in the last snapshot only. Versions are kept by namespace, then by name,
because both strings exist already as parts of the objects: a key of its own for each of 150,000
pods would take more memory than all that is kept here. Objects of kinds that plugins declare are in
`CustomObjects`, because a snapshot has them only as a tuple.

A fingerprint lets an operator compare a store with the API server. It is the digest of these lines,
sorted as bytes, each with a newline at its end:

    namespace/name resourceVersion
    namespace/name resourceVersion uid node phase      for a pod

Objects without a namespace begin with the `/`; what a pod does not have yet is left empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from resettle.kube.watch.events import Version
from resettle.model.changes import Change
from resettle.model.pod import Pod

V = TypeVar("V")
ByNamespace = dict[str, dict[str, V]]
"""A value for each object, by namespace and name; objects without a namespace are under ``."""
OnChange = Callable[[Any, Any], None]
"""Called with an object before and after a change; None where there is none."""


class ListResult(Struct):
    """The result of a list: the version of every object, and the objects that have changed."""

    version: str
    versions: ByNamespace[Version]
    """The versions of all objects."""
    put: ByNamespace[Any]
    """Objects whose version differs from the one in the store."""


class ObjectStore:
    """One kind as of the last watch event; `from_snapshot` finds an object of the last snapshot."""

    def __init__(
        self, from_snapshot: Callable[[str, str], Any | None], on_change: OnChange
    ) -> None:
        self._from_snapshot = from_snapshot
        self._on_change = on_change
        self.versions: ByNamespace[Version] = {}
        self._pending: ByNamespace[Any | None] = {}

    def get(self, namespace: str, name: str) -> Any | None:
        """The object as of the last watch event."""
        pending = self._pending.get(namespace)
        if pending is not None and name in pending:
            return pending[name]
        return self._from_snapshot(namespace, name)

    def put(self, namespace: str, name: str, version: Version, thing: Any) -> None:
        """Store an object; if no field that we read has changed, only its version is new."""
        versions = self.versions.setdefault(namespace, {})
        if versions.get(name) != version:
            versions[name] = version
            self._change(namespace, name, thing)

    def drop(self, namespace: str, name: str) -> None:
        """Remove an object, if it is there."""
        versions = self.versions.get(namespace)
        if versions is not None and versions.pop(name, None) is not None:
            if not versions:
                del self.versions[namespace]
            self._change(namespace, name, None)

    def replace(self, listing: ListResult) -> None:
        """Take over a list: remove objects that are not on it, replace those that differ."""
        before, self.versions = self.versions, listing.versions
        if not before and not self._pending:
            self._pending = listing.put
            for things in listing.put.values():
                for thing in things.values():
                    self._on_change(None, thing)
            return
        for namespace, name in _missing(before, listing.versions):
            self._change(namespace, name, None)
        for namespace, things in listing.put.items():
            for name, thing in things.items():
                self._change(namespace, name, thing)

    def take_changes(self) -> ByNamespace[Any | None]:
        """The changes since the last call; None for objects that were deleted."""
        pending, self._pending = self._pending, {}
        return pending

    def _change(self, namespace: str, name: str, thing: Any | None) -> None:
        before = self.get(namespace, name)
        if not _same(before, thing):
            self._pending.setdefault(namespace, {})[name] = thing
            self._on_change(before, thing)


def to_change(taken: ByNamespace[Any | None]) -> Change[Any]:
    """The changes in the form that `Snapshot.next` takes."""
    put, gone = [], []
    for namespace, things in taken.items():
        for name, thing in things.items():
            if thing is None:
                gone.append(f"{namespace}/{name}" if namespace else name)
            else:
                put.append(thing)
    return Change(tuple(put), frozenset(gone))


def _missing(
    before: ByNamespace[Version], after: ByNamespace[Version]
) -> Iterator[tuple[str, str]]:
    for namespace, versions in before.items():
        there = after.get(namespace, {})
        for name in versions:
            if name not in there:
                yield namespace, name


def _same(before: Any | None, after: Any | None) -> bool:
    """Whether no field that we read differs: a node's heartbeat changes nothing.

    Cheap for pods, because equal pods share one template and one state.
    """
    if before is None or after is None:
        return before is after
    return structs.astuple(before) == structs.astuple(after)


class CustomObjects:
    """All objects of one kind that a plugin declares, as of the last snapshot."""

    def __init__(self) -> None:
        self._things: ByNamespace[Any] = {}

    def get(self, namespace: str, name: str) -> Any | None:
        """The object of this name, if there is one."""
        return self._things.get(namespace, {}).get(name)

    def apply(self, taken: ByNamespace[Any | None]) -> tuple[Any, ...]:
        """Apply changes, None for a deleted object, and return all objects sorted."""
        for namespace, things in taken.items():
            here = self._things.setdefault(namespace, {})
            for name, thing in things.items():
                if thing is None:
                    here.pop(name, None)
                else:
                    here[name] = thing
        everything = (thing for things in self._things.values() for thing in things.values())
        return tuple(sorted(everything, key=msgspec.json.encode))


class Fingerprint(Struct, frozen=True):
    """How many objects a store has, and a digest of their versions."""

    objects: int
    digest: str


def fingerprint(store: ObjectStore) -> Fingerprint:
    """The fingerprint of a store as of the last watch event."""
    lines = sorted(_lines(store))
    return Fingerprint(len(lines), sha256(b"".join(lines)).hexdigest())


def _lines(store: ObjectStore) -> Iterator[bytes]:
    for namespace, versions in store.versions.items():
        for name, version in versions.items():
            item = store.get(namespace, name)
            yield f"{namespace}/{name} {version}{_pod_part(item)}\n".encode()


def _pod_part(item: Any) -> str:
    return f" {item.uid} {item.node} {item.state.phase}" if isinstance(item, Pod) else ""
