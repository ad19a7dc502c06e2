"""Deleting objects: at once, after a pod's grace period, or when the last finalizer is removed.

A pod bound to a node gets a deletionTimestamp and waits for its kubelet; in a test that is the code
that deletes it with no grace period, or calls `store.delete`. There is no garbage collector here:
dependents of an object stay. The objects of a namespace are deleted with it.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec import Struct

from resettle.testing.api_server.objects.custom_kinds import withdraw_kinds
from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.status import bad_options, bad_request, conflict
from resettle.testing.api_server.storage.revisions import Storage, StoredObject
from resettle.testing.builders import Object

_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


class Preconditions(Struct, frozen=True, rename="camel"):
    """Which object, or which version of it, is meant."""

    uid: str | None = None
    resource_version: str | None = None


class RequestedDeletion(Struct, frozen=True, kw_only=True, rename="camel"):
    """How to delete."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: tuple[str, ...] | None = None


def delete_options(document: object) -> RequestedDeletion:
    """The options as a request has them."""
    try:
        options = msgspec.convert(document, RequestedDeletion)
    except msgspec.ValidationError as error:
        raise bad_request(f"the delete options cannot be read: {error}") from None
    if options.propagation_policy not in (None, "Background", *_FINALIZERS):
        known = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        says = f'Unsupported value: "{options.propagation_policy}": {known}'
        raise bad_options("propagationPolicy", says, "DeleteOptions")
    return options


class DeleteResult(Struct, frozen=True):
    """What became of the object."""

    entry: StoredObject
    gone: bool


def delete(
    storage: Storage,
    resource: Resource,
    entry: StoredObject,
    options: RequestedDeletion,
    *,
    dry: bool = False,
) -> DeleteResult:
    """The object gone, or on its way."""
    check_preconditions(resource, entry, options)
    grace = _grace(resource, entry, options)
    holding = list(entry.meta.get("finalizers") or ())
    if (policy := options.propagation_policy) and _FINALIZERS.get(policy, "") not in ("", *holding):
        holding.append(_FINALIZERS[policy])
    if resource.kind == "Namespace" and not holding:
        return _delete_namespace(storage, resource, entry, dry=dry)
    if not grace and not holding:
        last = storage.remove(resource, entry, dry=dry)
        if not dry:
            withdraw_kinds(storage, resource, entry)
        return DeleteResult(last, gone=True)
    if _is_terminating(entry, grace):
        return DeleteResult(entry, gone=False)
    marked = _mark_terminating(storage, resource, entry, grace, holding)
    return DeleteResult(storage.write(resource, marked, dry=dry), gone=False)


def is_deletable(obj: Object) -> bool:
    """Whether nothing keeps an object that was to be deleted."""
    meta = obj["metadata"]
    return meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers")


def check_preconditions(
    resource: Resource, entry: StoredObject, options: RequestedDeletion
) -> None:
    """Refuses if another object, or another version of it, was meant."""
    meant = options.preconditions or Preconditions()
    rows = (
        ("UID", meant.uid, entry.meta["uid"], "deleted and then recreated"),
        ("ResourceVersion", meant.resource_version, entry.meta["resourceVersion"], "modified"),
    )
    for what, wanted, actual, happened in rows:
        if wanted is not None and wanted != actual:
            why = (
                f"the {what} in the precondition ({wanted}) does not match the {what} in record "
                f"({actual}). The object might have been {happened}"
            )
            raise conflict(resource, entry.meta["name"], why, kind=resource.kind)


def _grace(resource: Resource, entry: StoredObject, options: RequestedDeletion) -> int:
    """How many seconds the object has left to tidy up."""
    if resource.kind != "Pod":
        return 0
    spec, status = entry.object.get("spec") or {}, entry.object.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.grace_period_seconds
    if grace is None:
        if entry.meta.get("deletionTimestamp"):
            return int(entry.meta.get("deletionGracePeriodSeconds") or 0)
        grace = int(spec.get("terminationGracePeriodSeconds", 30))
    return grace if grace >= 0 else 1


def _is_terminating(entry: StoredObject, grace: int) -> bool:
    """Whether it is on its way, and would not be there any sooner."""
    if not entry.meta.get("deletionTimestamp"):
        return False
    return grace >= int(entry.meta.get("deletionGracePeriodSeconds") or 0)


def _mark_terminating(
    storage: Storage, resource: Resource, entry: StoredObject, grace: int, finalizers: list[str]
) -> Object:
    end = storage.clock() + timedelta(seconds=grace)
    meta = {
        **entry.meta,
        "deletionTimestamp": storage.format_time(end),
        "deletionGracePeriodSeconds": grace,
    }
    if finalizers:
        meta["finalizers"] = finalizers
    if resource.generation:
        meta["generation"] = meta.get("generation", 0) + 1
    return {**entry.object, "metadata": meta}


def _delete_namespace(
    storage: Storage, spaces: Resource, entry: StoredObject, *, dry: bool
) -> DeleteResult:
    """Delete the namespace and all its objects; return it as it was when termination began."""
    marked = _mark_terminating(storage, spaces, entry, 0, [])
    ending = {**marked, "status": {"phase": "Terminating"}}
    last = storage.write(spaces, ending, dry=dry)
    if not dry:
        for resource in storage.catalogue:
            for each in storage.entries(resource) if resource.namespaced else ():
                if each.meta.get("namespace") == entry.meta["name"]:
                    storage.remove(resource, each)
        storage.remove(spaces, last)
    return DeleteResult(last, gone=False)
