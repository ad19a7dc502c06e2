"""The objects of the server as a test and its in-process controllers read and write them.

Every method may be called from any thread. Objects are stored without the checks that a client
meets, and returned as copies. They are kept without apiVersion and kind; events are kept as the
core group writes them, and renamed where the group `events.k8s.io` has other field names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from resettle.errors import InputError
from resettle.model.selectors import parse_selector
from resettle.testing.api_server.objects.custom_kinds import register_kinds, withdraw_kinds
from resettle.testing.api_server.objects.defaults import add_metadata
from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.objects.patches import merge_patch
from resettle.testing.api_server.storage.revisions import Revision as Recorded
from resettle.testing.api_server.storage.revisions import Storage, StoredObject, deep_copy
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


def with_kind(resource: Resource, obj: Object) -> Object:
    """A stored object as it is seen here."""
    if is_renamed(resource):
        obj = {_EVENT.get(key, key): value for key, value in obj.items()}
    return {"kind": resource.kind, "apiVersion": resource.api_version, **obj}


def without_kind(resource: Resource, obj: Object) -> Object:
    """An object that was sent here, as it is kept."""
    bare = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    if is_renamed(resource):
        bare = {_CORE_EVENT.get(key, key): value for key, value in bare.items()}
    return bare


def encode_object(resource: Resource, entry: StoredObject) -> bytes:
    """The entry as one object on its own."""
    if is_renamed(resource):
        return msgspec.json.encode(with_kind(resource, entry.object))
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
    return head.encode() + entry.body[1:]


def encode_list_item(resource: Resource, entry: StoredObject) -> bytes:
    """The entry as an item of a list, where only custom resources repeat their kind."""
    if resource.custom:
        return encode_object(resource, entry)
    if is_renamed(resource):
        item = with_kind(resource, entry.object)
        return msgspec.json.encode({k: v for k, v in item.items() if k not in _HEAD})
    return entry.body


_HEAD = ("kind", "apiVersion")

_SPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class ObjectChange(NamedTuple):
    """An object came (no `old`), changed, or went (no `new`)."""

    old: Object | None
    new: Object | None


class Store:
    """The objects, by kind, name and namespace; a kind is `Pod`, or `Widget.example.com`."""

    def __init__(self, storage: Storage, objects: Iterable[Object] = ()) -> None:
        self._storage = storage
        with storage.transaction():
            for name in _SPACES:
                self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            # Kinds come before the objects that are of them.
            for obj in sorted(objects, key=lambda obj: obj["kind"] != "CustomResourceDefinition"):
                self.put(obj)

    def get(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        """The object, or None if there is none."""
        resource = self._storage.catalogue.of_kind(kind)
        with self._storage.transaction():
            return _object_or_none(resource, self._find(resource, name, namespace))

    def list(self, kind: str, *, namespace: str = "", labels: str = "") -> list[Object]:
        """All objects of the kind, or those of a namespace, or with labels such as `app=web`."""
        resource, selector = self._storage.catalogue.of_kind(kind), parse_selector(labels)
        with self._storage.transaction():
            return [
                with_kind(resource, entry.copy())
                for entry in self._storage.entries(resource)
                if namespace in ("", entry.meta.get("namespace"))
                and selector.matches(entry.meta.get("labels") or {})
            ]

    def put(self, obj: Object) -> Object:
        """Keeps the object, in place of one of its name if there is one; a namespace comes along.

        A uid, a creation time and whatever else every object has are filled in.
        """
        resource = self._storage.catalogue.of_object(obj)
        with self._storage.transaction():
            bare = deep_copy(without_kind(resource, obj))
            if not (bare.get("metadata") or {}).get("name"):
                raise InputError(f"a {resource.kind} without a name was put; set `metadata.name`")
            made = add_metadata(self._storage, resource, bare)
            if resource.namespaced:
                self._ensure_namespace(made["metadata"]["namespace"])
            entry = self._storage.write(resource, made)
            register_kinds(self._storage, resource, entry)
            return with_kind(resource, entry.copy())

    def merge(
        self, kind: str, name: str, patch: Object, namespace: str = "default"
    ) -> Object | None:
        """The object after a merge patch, its status included; None if there is no such object."""
        resource = self._storage.catalogue.of_kind(kind)
        with self._storage.transaction():
            entry = self._find(resource, name, namespace)
            if entry is None:
                return None
            changed = self._storage.write(resource, merge_patch(entry.copy(), deep_copy(patch)))
            return _object_or_none(resource, changed)

    def delete(self, kind: str, name: str, namespace: str = "default") -> bool:
        """Removes the object at once, as a kubelet does in the end; whether there was one."""
        resource = self._storage.catalogue.of_kind(kind)
        with self._storage.transaction():
            entry = self._find(resource, name, namespace)
            if entry is None:
                return False
            self._storage.remove(resource, entry)
            withdraw_kinds(self._storage, resource, entry)
            return True

    def subscribe(self, kind: str, callback: Callable[[ObjectChange], None]) -> Callable[[], None]:
        """Calls back with every change of the kind from now on; the answer ends that.

        The call comes in the thread that made the change, before the client has its answer, so a
        controller that writes to the store from it has had its say by then.
        """
        resource = self._storage.catalogue.of_kind(kind)

        def listener(change: Recorded) -> None:
            callback(
                ObjectChange(
                    _object_or_none(resource, change.old), _object_or_none(resource, change.new)
                )
            )

        listeners = self._storage.listeners.setdefault(resource.bucket, [])
        with self._storage.transaction():
            listeners.append(listener)

        def end() -> None:
            with self._storage.transaction():
                if listener in listeners:
                    listeners.remove(listener)

        return end

    @property
    def version(self) -> int:
        """The resourceVersion of the last change."""
        return self._storage.version

    def compact(self) -> None:
        """Forgets what changed when: older versions and tokens answer 410. Open watches go on."""
        self._storage.compact()

    def bookmark(self) -> None:
        """Has every watch that takes bookmarks send one."""
        self._storage.bookmark()

    def _find(self, resource: Resource, name: str, namespace: str) -> StoredObject | None:
        return self._storage.find(resource, namespace if resource.namespaced else "", name)

    def _ensure_namespace(self, namespace: str) -> None:
        spaces = self._storage.catalogue.of_kind("Namespace")
        if self._storage.find(spaces, "", namespace) is None:
            self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})


def _object_or_none(resource: Resource, entry: StoredObject | None) -> Object | None:
    return None if entry is None else with_kind(resource, entry.copy())
