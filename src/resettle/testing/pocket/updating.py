"""Changing objects: whole, or their status alone.

The status subresource leaves what is wanted as it is, and the other way round. An update that
changes nothing gets no new version.
"""

from __future__ import annotations

from typing import Any

from resettle.testing.objects import Object
from resettle.testing.pocket.creating import addressed
from resettle.testing.pocket.deleting import finished
from resettle.testing.pocket.kinds import Resource
from resettle.testing.pocket.ledger import Entry, Ledger
from resettle.testing.pocket.refusals import conflict, invalid, not_found, stale
from resettle.testing.pocket.registering import registered, sound

_FIXED = (
    *("name", "namespace", "uid", "creationTimestamp", "generateName", "selfLink", "generation"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
_NEEDS_VERSION = frozenset({"PodDisruptionBudget", "Lease", "CustomResourceDefinition"})
_LOOSE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")


def existing(ledger: Ledger, resource: Resource, namespace: str, name: str) -> Entry:
    """The entry, or a refusal if there is none."""
    found = ledger.find(resource, namespace, name)
    if found is None:
        raise not_found(resource, name)
    return found


def update(
    ledger: Ledger, resource: Resource, old: Entry, sent: Object, part: str, *, dry: bool = False
) -> Entry:
    """The entry with what was sent in place of what was there."""
    name = old.meta["name"]
    obj = addressed(resource, old.meta.get("namespace", ""), name, sent)
    version = obj["metadata"].get("resourceVersion", "")
    if not version and (resource.custom or resource.kind in _NEEDS_VERSION):
        says = "Invalid value: 0: must be specified for an update"
        raise invalid(resource, name, [("metadata.resourceVersion", says)], plural=True)
    if version and version != old.meta["resourceVersion"]:
        raise stale(resource, name)
    uid = obj["metadata"].get("uid", "")
    if uid and uid != old.meta["uid"]:
        raise conflict(
            resource,
            name,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
            f"{old.meta['uid']}",
        )
    return rewritten(ledger, resource, old, _mixed(resource, old, obj, part), dry=dry)


def rewritten(
    ledger: Ledger, resource: Resource, old: Entry, obj: Object, *, dry: bool = False
) -> Entry:
    """The entry with this object in its place, unless nothing differs."""
    meta = {k: v for k, v in obj["metadata"].items() if k not in _FIXED}
    meta |= {key: old.meta[key] for key in _FIXED if key in old.meta}
    meta["resourceVersion"] = old.meta["resourceVersion"]
    obj = {**obj, "metadata": meta}
    if obj == old.object:
        return old
    if resource.kind == "Pod":
        _check_pod(resource, old.object, obj)
    sound(resource, obj)
    if resource.generation and _wanted(resource, obj) != _wanted(resource, old.object):
        meta["generation"] = meta.get("generation", 0) + 1
    if finished(obj):
        return ledger.remove(resource, ledger.write(resource, obj, dry=dry), dry=dry)
    entry = ledger.write(resource, obj, dry=dry)
    if not dry:
        registered(ledger, resource, entry)
    return entry


def _mixed(resource: Resource, old: Entry, sent: Object, part: str) -> Object:
    """What was sent, for its part of the object, and what was there for the rest."""
    if part == "status":
        metadata = old.meta if resource.custom else sent["metadata"]
        return _with_status({**old.object, "metadata": metadata}, sent.get("status"))
    if resource.has_status:
        return _with_status(sent, old.object.get("status"))
    return sent


def _with_status(obj: Object, status: Any) -> Object:
    rest = {key: value for key, value in obj.items() if key != "status"}
    return rest if status is None else {**rest, "status": status}


def _wanted(resource: Resource, obj: Object) -> Object:
    """The part of an object whose changes its generation counts."""
    if resource.custom:
        aside = ("metadata", "status") if resource.has_status else ("metadata",)
        return {key: value for key, value in obj.items() if key not in aside}
    wanted: Object = obj.get("spec") or {}
    return wanted


def _check_pod(resource: Resource, old: Object, new: Object) -> None:
    if _settled(old) != _settled(new):
        says = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
            "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds`"
        )
        raise invalid(resource, new["metadata"]["name"], [("spec", says)])


def _settled(pod: Object) -> Object:
    """The part of a pod's spec that cannot be changed once it is there."""
    spec = {k: v for k, v in (pod.get("spec") or {}).items() if k not in _LOOSE}
    for group in ("containers", "initContainers"):
        if spec.get(group):
            spec[group] = [{k: v for k, v in it.items() if k != "image"} for it in spec[group]]
    return spec
