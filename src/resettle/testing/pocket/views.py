"""How a stored object looks at the place it is asked for.

Objects are kept without apiVersion and kind. Events are kept as the core group writes them; the
group `events.k8s.io` has other names for the same things.
"""

from __future__ import annotations

import msgspec

from resettle.testing.objects import Object
from resettle.testing.pocket.kinds import Resource
from resettle.testing.pocket.ledger import Entry

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
