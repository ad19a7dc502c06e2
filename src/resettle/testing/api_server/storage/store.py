"""What a test and its in-process controllers see of the server's objects.

Every method may be called from any thread. What goes in is kept as it is, without the checks that
a client meets; what comes out is a copy.

How a stored object looks at the place it is asked for.

Objects are kept without apiVersion and kind. Events are kept as the core group writes them; the
group `events.k8s.io` has other names for the same things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from resettle.errors import InputError
from resettle.model.selectors import parse_selector
from resettle.testing.api_server.objects.custom_kinds import registered, withdrawn
from resettle.testing.api_server.objects.defaults import completed
from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.objects.patches import merged
from resettle.testing.api_server.storage.revisions import Change as Recorded
from resettle.testing.api_server.storage.revisions import Entry, Ledger, copied
from resettle.testing.builders import Object

_EVENT = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_EVENT = {ours: theirs for theirs, ours in _EVENT.items()}


def is_renamed(resource: Resource) -> bool:
    """Whether the objects have other field names here than where they are kept."""
    return resource.group == "events.k8s.io"


def shown(resource: Resource, obj: Object) -> Object:
    """A stored object as it is seen here."""
    if is_renamed(resource):
        obj = {_EVENT.get(key, key): value for key, value in obj.items()}
    return {"kind": resource.kind, "apiVersion": resource.api_version, **obj}


def stored(resource: Resource, obj: Object) -> Object:
    """An object that was sent here, as it is kept."""
    bare = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    if is_renamed(resource):
        bare = {_CORE_EVENT.get(key, key): value for key, value in bare.items()}
    return bare


def whole(resource: Resource, entry: Entry) -> bytes:
    """The entry as one object on its own."""
    if is_renamed(resource):
        return msgspec.json.encode(shown(resource, entry.object))
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
    return head.encode() + entry.body[1:]


def in_list(resource: Resource, entry: Entry) -> bytes:
    """The entry as an item of a list, where only custom resources repeat their kind."""
    if resource.custom:
        return whole(resource, entry)
    if is_renamed(resource):
        item = shown(resource, entry.object)
        return msgspec.json.encode({k: v for k, v in item.items() if k not in _HEAD})
    return entry.body


_HEAD = ("kind", "apiVersion")

_SPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class Change(NamedTuple):
    """An object came (no `old`), changed, or went (no `new`)."""

    old: Object | None
    new: Object | None


class Store:
    """The objects, by kind, name and namespace; a kind is `Pod`, or `Widget.example.com`."""

    def __init__(self, ledger: Ledger, objects: Iterable[Object] = ()) -> None:
        self._ledger = ledger
        with ledger.turn():
            for name in _SPACES:
                self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            # Kinds come before the objects that are of them.
            for obj in sorted(objects, key=lambda it: it["kind"] != "CustomResourceDefinition"):
                self.put(obj)

    def get(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        """The object, or None if there is none."""
        resource = self._ledger.catalogue.named(kind)
        with self._ledger.turn():
            return _seen(resource, self._found(resource, name, namespace))

    def list(self, kind: str, *, namespace: str = "", labels: str = "") -> list[Object]:
        """All objects of the kind, or those of a namespace, or with labels such as `app=web`."""
        resource, selector = self._ledger.catalogue.named(kind), parse_selector(labels)
        with self._ledger.turn():
            return [
                shown(resource, it.copy())
                for it in self._ledger.entries(resource)
                if namespace in ("", it.meta.get("namespace"))
                and selector.matches(it.meta.get("labels") or {})
            ]

    def put(self, obj: Object) -> Object:
        """Keeps the object, in place of one of its name if there is one; a namespace comes along.

        A uid, a creation time and whatever else every object has are filled in.
        """
        resource = self._ledger.catalogue.of_object(obj)
        with self._ledger.turn():
            bare = copied(stored(resource, obj))
            if not (bare.get("metadata") or {}).get("name"):
                raise InputError(f"a {resource.kind} without a name was put; set `metadata.name`")
            made = completed(self._ledger, resource, bare)
            if resource.namespaced:
                self._settle(made["metadata"]["namespace"])
            entry = self._ledger.write(resource, made)
            registered(self._ledger, resource, entry)
            return shown(resource, entry.copy())

    def merge(
        self, kind: str, name: str, patch: Object, namespace: str = "default"
    ) -> Object | None:
        """The object after a merge patch, its status included; None if there is no such object."""
        resource = self._ledger.catalogue.named(kind)
        with self._ledger.turn():
            entry = self._found(resource, name, namespace)
            if entry is None:
                return None
            changed = self._ledger.write(resource, merged(entry.copy(), copied(patch)))
            return _seen(resource, changed)

    def delete(self, kind: str, name: str, namespace: str = "default") -> bool:
        """Removes the object at once, as a kubelet does in the end; whether there was one."""
        resource = self._ledger.catalogue.named(kind)
        with self._ledger.turn():
            entry = self._found(resource, name, namespace)
            if entry is None:
                return False
            self._ledger.remove(resource, entry)
            withdrawn(self._ledger, resource, entry)
            return True

    def subscribe(self, kind: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Calls back with every change of the kind from now on; the answer ends that.

        The call comes in the thread that made the change, before the client has its answer, so a
        controller that writes to the store from it has had its say by then.
        """
        resource = self._ledger.catalogue.named(kind)

        def listener(change: Recorded) -> None:
            callback(Change(_seen(resource, change.old), _seen(resource, change.new)))

        listeners = self._ledger.listeners.setdefault(resource.bucket, [])
        with self._ledger.turn():
            listeners.append(listener)

        def end() -> None:
            with self._ledger.turn():
                if listener in listeners:
                    listeners.remove(listener)

        return end

    @property
    def version(self) -> int:
        """The resourceVersion of the last change."""
        return self._ledger.version

    def compact(self) -> None:
        """Forgets what changed when: older versions and tokens answer 410. Open watches go on."""
        self._ledger.compact()

    def bookmark(self) -> None:
        """Has every watch that takes bookmarks send one."""
        self._ledger.bookmark()

    def _found(self, resource: Resource, name: str, namespace: str) -> Entry | None:
        return self._ledger.find(resource, namespace if resource.namespaced else "", name)

    def _settle(self, namespace: str) -> None:
        spaces = self._ledger.catalogue.named("Namespace")
        if self._ledger.find(spaces, "", namespace) is None:
            self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})


def _seen(resource: Resource, entry: Entry | None) -> Object | None:
    return None if entry is None else shown(resource, entry.copy())
