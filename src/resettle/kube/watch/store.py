"""What is held of one kind: the version of each object, and what has changed since last asked.

The objects themselves are in the last snapshot, once. By namespace, then by name, since both texts
are there already as part of the objects: a key of its own for each of 150,000 pods would cost more
than all that is kept here.

Objects of a kind that a plugin brought: held here, since a snapshot has them only in a row.

What is held of one kind, in a line that anybody can hold against the API server.

The digest is that of these lines, sorted as bytes, each with a newline at its end:

    namespace/name resourceVersion
    namespace/name resourceVersion uid node phase      of a pod

Things without a namespace begin with the `/`, and what a pod does not have yet is left empty.
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
"""Something for each object, by namespace and name; things without a namespace are under ``."""
OnChange = Callable[[Any, Any], None]


class ListResult(Struct):
    """A finished list, in terms of what it changes."""

    version: str
    versions: ByNamespace[Version]
    """Of every object there is."""
    put: ByNamespace[Any]
    """Objects whose version is not the one held before."""


class ObjectStore:
    """One kind as of the last thing heard; `settled` finds an object of the last snapshot."""

    def __init__(self, settled: Callable[[str, str], Any | None], heard: OnChange) -> None:
        self._from_snapshot = settled
        self._on_change = heard
        self.versions: ByNamespace[Version] = {}
        self._pending: ByNamespace[Any | None] = {}

    def get(self, namespace: str, name: str) -> Any | None:
        """The object, as of the last event heard."""
        pending = self._pending.get(namespace)
        if pending is not None and name in pending:
            return pending[name]
        return self._from_snapshot(namespace, name)

    def put(self, namespace: str, name: str, version: Version, thing: Any) -> None:
        """Holds an object; one that says nothing new to us changes only its version."""
        versions = self.versions.setdefault(namespace, {})
        if versions.get(name) != version:
            versions[name] = version
            self._change(namespace, name, thing)

    def drop(self, namespace: str, name: str) -> None:
        """Lets an object go, if it is held."""
        versions = self.versions.get(namespace)
        if versions is not None and versions.pop(name, None) is not None:
            if not versions:
                del self.versions[namespace]
            self._change(namespace, name, None)

    def replace(self, listing: ListResult) -> None:
        """Holds what a list has: what is no longer on it goes, what differs takes its place."""
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
        """What has changed since this was last asked; None for what is gone."""
        pending, self._pending = self._pending, {}
        return pending

    def _change(self, namespace: str, name: str, thing: Any | None) -> None:
        before = self.get(namespace, name)
        if not _same(before, thing):
            self._pending.setdefault(namespace, {})[name] = thing
            self._on_change(before, thing)


def to_change(taken: ByNamespace[Any | None]) -> Change[Any]:
    """The same in the terms of a snapshot."""
    put, gone = [], []
    for namespace, things in taken.items():
        for name, thing in things.items():
            if thing is None:
                gone.append(f"{namespace}/{name}" if namespace else name)
            else:
                put.append(thing)
    return Change(tuple(put), frozenset(gone))


def _missing(before: ByNamespace[Version], after: ByNamespace[Version]) -> Iterator[tuple[str, str]]:
    for namespace, versions in before.items():
        there = after.get(namespace, {})
        for name in versions:
            if name not in there:
                yield namespace, name


def _same(one: Any | None, other: Any | None) -> bool:
    """Whether nothing we read differs: a node's heartbeat is no news.

    Never deep for pods, whose template and state are one object each for all that are alike.
    """
    if one is None or other is None:
        return one is other
    return structs.astuple(one) == structs.astuple(other)


class CustomObjects:
    """All objects of one such kind, as of the last snapshot."""

    def __init__(self) -> None:
        self._things: ByNamespace[Any] = {}

    def get(self, namespace: str, name: str) -> Any | None:
        """The object of this name, if there is one."""
        return self._things.get(namespace, {}).get(name)

    def apply(self, taken: ByNamespace[Any | None]) -> tuple[Any, ...]:
        """All objects once these have come or changed, or gone where there is None; in order."""
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
    """How many objects are held, and a digest of what they are."""

    objects: int
    digest: str


def fingerprint(shelf: ObjectStore) -> Fingerprint:
    """That of all a shelf holds, as of the last event heard."""
    lines = sorted(_lines(shelf))
    return Fingerprint(len(lines), sha256(b"".join(lines)).hexdigest())


def _lines(shelf: ObjectStore) -> Iterator[bytes]:
    for namespace, versions in shelf.versions.items():
        for name, version in versions.items():
            thing = shelf.get(namespace, name)
            yield f"{namespace}/{name} {version}{_more(thing)}\n".encode()


def _more(thing: Any) -> str:
    return f" {thing.uid} {thing.node} {thing.state.phase}" if isinstance(thing, Pod) else ""
