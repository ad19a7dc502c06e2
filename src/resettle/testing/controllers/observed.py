"""What the controllers see: objects by kind, owner and key, kept current by a watch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property

from resettle.model import kinds
from resettle.testing.api_server.storage.store import ObjectChange, Store
from resettle.testing.builders import NOW, Object

KINDS = (*kinds.KINDS, "DaemonSet")
"""Kinds that the controllers read."""

Labels = tuple[tuple[str, str], ...]


class ObservedCluster:
    """The objects by kind and by `namespace/name`, and the time.

    `serial` differs between two observations if anything has changed; names of new pods are
    drawn by it.
    """

    def __init__(
        self, objects: Mapping[str, Mapping[str, Object]], now: datetime, serial: int = 0
    ) -> None:
        self._objects = objects
        self.now = now
        self.serial = serial

    def all(self, kind: str) -> list[Object]:
        """The objects of a kind, in the order of their names."""
        held = self._objects.get(kind, {})
        return [held[key] for key in sorted(held)]

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """The object of this name."""
        return self._objects.get(kind, {}).get(f"{namespace}/{name}")

    @cached_property
    def pods(self) -> list[Object]:
        """All pods, in order."""
        return self.all("Pod")

    @cached_property
    def _owned(self) -> dict[str, dict[str, list[Object]]]:
        owned: dict[str, dict[str, list[Object]]] = {}
        for kind in ("Pod", "ReplicaSet"):
            by_owner = owned.setdefault(kind, {})
            for obj in self.pods if kind == "Pod" else self.all(kind):
                if owner := controller_of(obj):
                    by_owner.setdefault(owner["uid"], []).append(obj)
        return owned

    def owned_by(self, owner: Object, kind: str = "Pod") -> list[Object]:
        """What this object controls, in order."""
        return self._owned[kind].get(owner["metadata"]["uid"], [])

    def pods_alike(self, namespace: str) -> Mapping[Labels, list[Object]]:
        """The pods of a namespace, those with the same labels together."""
        return self._alike.get(namespace, {})

    @cached_property
    def _alike(self) -> dict[str, dict[Labels, list[Object]]]:
        alike: dict[str, dict[Labels, list[Object]]] = {}
        for pod in self.pods:
            meta = pod["metadata"]
            labels = tuple(sorted((meta.get("labels") or {}).items()))
            alike.setdefault(meta["namespace"], {}).setdefault(labels, []).append(pod)
        return alike

    @cached_property
    def uids(self) -> frozenset[str]:
        """Of everything that can own something."""
        return frozenset(
            obj["metadata"]["uid"] for kind in KINDS for obj in self._objects.get(kind, {}).values()
        )


def controller_of(obj: Object) -> Object | None:
    """The owner reference of the controller of the object."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def key_of(obj: Object) -> str:
    """`namespace/name` of an object."""
    meta = obj["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def observe(objects: Iterable[Object], now: datetime = NOW, serial: int = 0) -> ObservedCluster:
    """These objects as controllers see them; an object without a uid gets one."""
    held: dict[str, dict[str, Object]] = {}
    for obj in objects:
        meta = {"uid": f"uid-{obj['kind']}-{obj['metadata']['name']}", **obj["metadata"]}
        held.setdefault(obj["kind"], {})[key_of(obj)] = {**obj, "metadata": meta}
    return ObservedCluster(held, now, serial)


class ClusterCache:
    """The objects of a store, by kind and name."""

    def __init__(self, store: Store) -> None:
        self._held: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
        self._serial = 0
        self._last: ObservedCluster | None = None
        self._ends = [store.subscribe(kind, self._handler_for(kind)) for kind in KINDS]
        for kind in KINDS:
            for obj in store.list(kind):
                self._held[kind][key_of(obj)] = obj

    def _handler_for(self, kind: str) -> Callable[[ObjectChange], None]:
        def note(change: ObjectChange) -> None:
            self._serial += 1
            if change.new is not None:
                self._held[kind][key_of(change.new)] = change.new
            elif change.old is not None:
                self._held[kind].pop(key_of(change.old), None)

        return note

    def observe(self, now: datetime) -> ObservedCluster:
        """The objects at this time; the same value as long as nothing changes."""
        last = self._last
        if last is None or (last.now, last.serial) != (now, self._serial):
            held = {kind: dict(objects) for kind, objects in self._held.items()}
            last = self._last = ObservedCluster(held, now, self._serial)
        return last

    def close(self) -> None:
        """End the subscriptions."""
        for end in self._ends:
            end()
