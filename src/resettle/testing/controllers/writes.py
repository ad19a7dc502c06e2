"""What a controller asks for: something new, something changed, something gone, or more time.

A controller is a function from a sight to these. It asks only for the difference between what is
and what should be, so that a second look at the same cluster asks for nothing.

Times as the API writes them, and lengths of time as people do.

New pods: whose they are, what they are called, and what they start out as.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from resettle.errors import InputError
from resettle.policy.args import parse_duration
from resettle.testing.api_server.storage.store import Store
from resettle.testing.builders import Object, merged
from resettle.testing.controllers.observed import Sight


def told_as(instant: datetime, seconds: float = 0) -> str:
    """An instant, or so many seconds after it, as the API writes it."""
    later = instant.astimezone(UTC) + timedelta(seconds=seconds)
    return later.isoformat(timespec="seconds").replace("+00:00", "Z")


def read_as(text: str) -> datetime:
    """The instant that the API wrote."""
    return datetime.fromisoformat(text)


def span(annotations: dict[str, str] | None, name: str) -> timedelta | None:
    """The length of time an annotation tells, if it is there."""
    text = (annotations or {}).get(name)
    if text is None:
        return None
    length = parse_duration(text)
    if length <= timedelta():
        raise InputError(f"the annotation {name} says `{text}`; write a time such as 30s or 5m")
    return length


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


_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def owned(owner: Object) -> list[Object]:
    """The reference by which an object knows its controller."""
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"]}
    return [{**reference, "uid": meta["uid"], "controller": True, "blockOwnerDeletion": True}]


def letters(count: int, *told: object) -> str:
    """So many letters that differ for all that differs in anything told."""
    digest = hashlib.sha256("/".join(map(str, told)).encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:count])


def hashed(template: Any) -> str:
    """The hash by which pods of this template are told from those of another."""
    return letters(9, msgspec.json.encode(template, order="sorted").decode())


def free_name(owner: Object, taken: Collection[str], seen: Sight) -> str:
    """A name after the owner's that nobody has, and that nobody had."""
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    attempt = 0
    while (free := f"{name}-{letters(5, uid, seen.serial, attempt)}") in taken:
        attempt += 1
    return free


def newborn(
    owner: Object,
    name: str,
    seen: Sight,
    *,
    labels: Object | None = None,
    spec: Object | None = None,
) -> Object:
    """A pod of the owner's template, waiting for a node."""
    template, meta = owner["spec"]["template"], owner["metadata"]
    pattern = template.get("metadata") or {}
    made_of: Object = merged(template["spec"], spec or {})
    made_of.setdefault("schedulerName", "default-scheduler")
    made_of.setdefault("terminationGracePeriodSeconds", 30)
    made_of.setdefault("priority", _priority(made_of, seen))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta.get("namespace", "default"),
            "generateName": f"{meta['name']}-",
            "labels": {**(pattern.get("labels") or {}), **(labels or {})},
            "annotations": dict(pattern.get("annotations") or {}),
            "ownerReferences": owned(owner),
            "creationTimestamp": told_as(seen.now),
        },
        "spec": made_of,
        "status": {"phase": "Pending", "qosClass": _quality(made_of)},
    }


def _priority(spec: Object, seen: Sight) -> int:
    classes = seen.all("PriorityClass")
    wanted = spec.get("priorityClassName")
    for it in classes:
        if it["metadata"]["name"] == wanted or (not wanted and it.get("globalDefault")):
            return int(it["value"])
    system = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
    return system.get(wanted or "", 0)


def _quality(spec: Object) -> str:
    """The quality-of-service class."""
    given = [it.get("resources") or {} for it in spec.get("containers") or ()]
    if not any(it.get("requests") or it.get("limits") for it in given):
        return "BestEffort"
    sure = all(
        limit and (it.get("requests") or {}).get(what, limit) == limit
        for it in given
        for what in ("cpu", "memory")
        for limit in [(it.get("limits") or {}).get(what)]
    )
    return "Guaranteed" if sure else "Burstable"


def ready(pod: Object) -> bool:
    """Whether a pod serves."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)


def leaving(pod: Object) -> bool:
    """Whether a pod is on its way out."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def phase(pod: Object) -> str:
    """How far a pod has come."""
    return str((pod.get("status") or {}).get("phase", "Pending"))


def active(pod: Object) -> bool:
    """Whether a controller counts on the pod: it has not finished and is not leaving."""
    return not leaving(pod) and phase(pod) not in ("Succeeded", "Failed")
