"""What a controller returns: writes (`Put`, `Merge`, `Delete`), or when to call it again (`Later`).

A controller is a function from the observed objects to these. It asks only for the difference
between the actual and the desired state, so that a second call on the same cluster returns
nothing. Builders of new pods and helpers for times are here too.
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
from resettle.testing.builders import Object, merge_objects
from resettle.testing.controllers.observed import ObservedCluster


def format_time(instant: datetime, seconds: float = 0) -> str:
    """An instant, or so many seconds after it, as the API writes it."""
    later = instant.astimezone(UTC) + timedelta(seconds=seconds)
    return later.isoformat(timespec="seconds").replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """The instant that the API wrote."""
    return datetime.fromisoformat(text)


def annotated_duration(annotations: dict[str, str] | None, name: str) -> timedelta | None:
    """The duration in an annotation, if it is there."""
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


class Delete(Struct, frozen=True):
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


Write = Put | Merge | Delete
Controller = Callable[[ObservedCluster], Iterator[Write | Later]]


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


def delete_object(obj: Object, now: datetime) -> Iterator[Write]:
    """The deletion of an object: pods on a node have their grace, anything else goes at once."""
    meta, spec = obj["metadata"], obj.get("spec") or {}
    finished = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    grace = int(spec.get("terminationGracePeriodSeconds", 30))
    if obj["kind"] != "Pod" or not spec.get("nodeName") or finished or not grace:
        yield Delete(obj["kind"], f"{meta.get('namespace', '')}/{meta['name']}")
    elif not meta.get("deletionTimestamp"):
        leave = {"deletionTimestamp": format_time(now, grace), "deletionGracePeriodSeconds": grace}
        yield change(obj, {"metadata": leave})


_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def controller_reference(owner: Object) -> list[Object]:
    """The reference by which an object knows its controller."""
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"]}
    return [{**reference, "uid": meta["uid"], "controller": True, "blockOwnerDeletion": True}]


def letters(count: int, *parts: object) -> str:
    """So many letters that differ if any of the parts differs."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:count])


def template_hash(template: Any) -> str:
    """The hash of a pod template, a label of its pods."""
    return letters(9, msgspec.json.encode(template, order="sorted").decode())


def free_name(owner: Object, taken: Collection[str], observed: ObservedCluster) -> str:
    """A name after the owner's that is not taken and was not used before."""
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    attempt = 0
    while (free := f"{name}-{letters(5, uid, observed.serial, attempt)}") in taken:
        attempt += 1
    return free


def new_pod(
    owner: Object,
    name: str,
    observed: ObservedCluster,
    *,
    labels: Object | None = None,
    spec: Object | None = None,
) -> Object:
    """A pod of the owner's template, waiting for a node."""
    template, meta = owner["spec"]["template"], owner["metadata"]
    pattern = template.get("metadata") or {}
    made_of: Object = merge_objects(template["spec"], spec or {})
    made_of.setdefault("schedulerName", "default-scheduler")
    made_of.setdefault("terminationGracePeriodSeconds", 30)
    made_of.setdefault("priority", _priority(made_of, observed))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta.get("namespace", "default"),
            "generateName": f"{meta['name']}-",
            "labels": {**(pattern.get("labels") or {}), **(labels or {})},
            "annotations": dict(pattern.get("annotations") or {}),
            "ownerReferences": controller_reference(owner),
            "creationTimestamp": format_time(observed.now),
        },
        "spec": made_of,
        "status": {"phase": "Pending", "qosClass": _quality(made_of)},
    }


def _priority(spec: Object, observed: ObservedCluster) -> int:
    classes = observed.all("PriorityClass")
    wanted = spec.get("priorityClassName")
    for priority_class in classes:
        if priority_class["metadata"]["name"] == wanted or (
            not wanted and priority_class.get("globalDefault")
        ):
            return int(priority_class["value"])
    system = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
    return system.get(wanted or "", 0)


def _quality(spec: Object) -> str:
    """The quality-of-service class."""
    given = [container.get("resources") or {} for container in spec.get("containers") or ()]
    if not any(resources.get("requests") or resources.get("limits") for resources in given):
        return "BestEffort"
    sure = all(
        limit and (resources.get("requests") or {}).get(what, limit) == limit
        for resources in given
        for what in ("cpu", "memory")
        for limit in [(resources.get("limits") or {}).get(what)]
    )
    return "Guaranteed" if sure else "Burstable"


def is_ready(pod: Object) -> bool:
    """Whether a pod serves."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def is_terminating(pod: Object) -> bool:
    """Whether a pod is on its way out."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def phase(pod: Object) -> str:
    """How far a pod has come."""
    return str((pod.get("status") or {}).get("phase", "Pending"))


def is_active(pod: Object) -> bool:
    """Whether a controller counts on the pod: it has not finished and is not leaving."""
    return not is_terminating(pod) and phase(pod) not in ("Succeeded", "Failed")
