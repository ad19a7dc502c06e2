"""Deleting objects: at once, after a pod's grace, or when the last finalizer is gone.

A pod bound to a node gets a deletionTimestamp and waits for its kubelet, which in a test is
whoever deletes it with no grace, or calls `store.delete`. No garbage collector runs here: what an
object owns stays. A namespace is the exception, for without its controller nobody would empty it.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec import Struct

from resettle.testing.api_server.objects.custom_kinds import withdrawn
from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.status import bad_options, bad_request, conflict
from resettle.testing.api_server.storage.revisions import Entry, Ledger
from resettle.testing.builders import Object

_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


class Preconditions(Struct, frozen=True, rename="camel"):
    """Which object, or which version of it, is meant."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """How to delete."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: tuple[str, ...] | None = None


def delete_options(told: object) -> DeleteOptions:
    """The options as a request has them."""
    try:
        options = msgspec.convert(told, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"the delete options cannot be read: {error}") from None
    if options.propagation_policy not in (None, "Background", *_FINALIZERS):
        known = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        says = f'Unsupported value: "{options.propagation_policy}": {known}'
        raise bad_options("propagationPolicy", says, "DeleteOptions")
    return options


class Deleted(Struct, frozen=True):
    """What became of the object."""

    entry: Entry
    gone: bool


def delete(
    ledger: Ledger, resource: Resource, entry: Entry, options: DeleteOptions, *, dry: bool = False
) -> Deleted:
    """The object gone, or on its way."""
    check(resource, entry, options)
    grace = _grace(resource, entry, options)
    holding = list(entry.meta.get("finalizers") or ())
    if (policy := options.propagation_policy) and _FINALIZERS.get(policy, "") not in ("", *holding):
        holding.append(_FINALIZERS[policy])
    if resource.kind == "Namespace" and not holding:
        return _emptied(ledger, resource, entry, dry=dry)
    if not grace and not holding:
        last = ledger.remove(resource, entry, dry=dry)
        if not dry:
            withdrawn(ledger, resource, entry)
        return Deleted(last, gone=True)
    if _already(entry, grace):
        return Deleted(entry, gone=False)
    marked = _marked(ledger, resource, entry, grace, holding)
    return Deleted(ledger.write(resource, marked, dry=dry), gone=False)


def finished(obj: Object) -> bool:
    """Whether nothing keeps an object that was to be deleted."""
    meta = obj["metadata"]
    return meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers")


def check(resource: Resource, entry: Entry, options: DeleteOptions) -> None:
    """Refuses if another object, or another version of it, was meant."""
    meant = options.preconditions or Preconditions()
    rows = (
        ("UID", meant.uid, entry.meta["uid"], "deleted and then recreated"),
        ("ResourceVersion", meant.resource_version, entry.meta["resourceVersion"], "modified"),
    )
    for what, wanted, found, happened in rows:
        if wanted is not None and wanted != found:
            why = (
                f"the {what} in the precondition ({wanted}) does not match the {what} in record "
                f"({found}). The object might have been {happened}"
            )
            raise conflict(resource, entry.meta["name"], why, kind=resource.kind)


def _grace(resource: Resource, entry: Entry, options: DeleteOptions) -> int:
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


def _already(entry: Entry, grace: int) -> bool:
    """Whether it is on its way, and would not be there any sooner."""
    if not entry.meta.get("deletionTimestamp"):
        return False
    return grace >= int(entry.meta.get("deletionGracePeriodSeconds") or 0)


def _marked(
    ledger: Ledger, resource: Resource, entry: Entry, grace: int, finalizers: list[str]
) -> Object:
    end = ledger.clock() + timedelta(seconds=grace)
    meta = {
        **entry.meta,
        "deletionTimestamp": ledger.written(end),
        "deletionGracePeriodSeconds": grace,
    }
    if finalizers:
        meta["finalizers"] = finalizers
    if resource.generation:
        meta["generation"] = meta.get("generation", 0) + 1
    return {**entry.object, "metadata": meta}


def _emptied(ledger: Ledger, spaces: Resource, entry: Entry, *, dry: bool) -> Deleted:
    """The namespace as it was when its end began; with all that was in it, it is gone by now."""
    marked = _marked(ledger, spaces, entry, 0, [])
    ending = {**marked, "status": {"phase": "Terminating"}}
    last = ledger.write(spaces, ending, dry=dry)
    if not dry:
        for resource in ledger.catalogue:
            for each in ledger.entries(resource) if resource.namespaced else ():
                if each.meta.get("namespace") == entry.meta["name"]:
                    ledger.remove(resource, each)
        ledger.remove(spaces, last)
    return Deleted(last, gone=False)
