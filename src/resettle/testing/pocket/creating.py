"""Creating objects, with the checks of the real server that a client can trip over."""

from __future__ import annotations

import re

from resettle.testing.objects import Object
from resettle.testing.pocket.defaults import completed, filled, suffix_for
from resettle.testing.pocket.kinds import Resource
from resettle.testing.pocket.ledger import Entry, Ledger
from resettle.testing.pocket.refusals import (
    already_exists,
    bad_request,
    forbidden,
    invalid,
    not_found,
    unexpected,
)
from resettle.testing.pocket.registering import registered, sound
from resettle.testing.pocket.shapes import shaped
from resettle.testing.pocket.views import stored

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


def create(
    ledger: Ledger, resource: Resource, namespace: str, sent: Object, *, dry: bool = False
) -> Entry:
    """The new object."""
    obj = addressed(resource, namespace, "", sent)
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise unexpected("resourceVersion should not be set on objects to be created")
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _free_name(ledger, resource, namespace, meta["generateName"])
    _check_name(resource, meta.get("name", ""))
    if resource.namespaced:
        _check_namespace(ledger, resource, namespace, meta["name"])
    if ledger.find(resource, namespace, meta["name"]) is not None:
        raise already_exists(resource, meta["name"])
    for given in ("uid", "creationTimestamp", "deletionTimestamp", "generation", "selfLink"):
        meta.pop(given, None)
    sound(resource, obj)
    obj = completed(ledger, resource, filled(resource, obj))
    if resource.kind == "PodDisruptionBudget":
        del obj["status"]["observedGeneration"]
    if resource.kind == "Pod":
        obj = _admitted(ledger, resource, obj)
    entry = ledger.write(resource, obj, dry=dry)
    if not dry:
        registered(ledger, resource, entry)
    return entry


def addressed(resource: Resource, namespace: str, name: str, sent: Object) -> Object:
    """The object as it is kept, if it is of the kind and place it was sent to."""
    if not isinstance(sent.get("metadata") or {}, dict):
        raise bad_request("the body is not an object of the API")
    if sent.get("kind", resource.kind) != resource.kind:
        raise bad_request(
            f"the kind in the data ({sent['kind']}) does not match the expected kind "
            f"({resource.kind})"
        )
    if sent.get("apiVersion", resource.api_version) != resource.api_version:
        raise bad_request(
            f"the API version in the data ({sent['apiVersion']}) does not match the expected API "
            f"version ({resource.api_version})"
        )
    obj = stored(resource, sent)
    meta = obj["metadata"] = dict(obj.get("metadata") or {})
    shaped(resource, obj)
    if not resource.custom:
        for part in ("labels", "annotations", "ownerReferences", "finalizers"):
            if not meta.get(part, True):
                del meta[part]
    if name and meta.setdefault("name", name) != name:
        raise bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )
    if resource.namespaced:
        if meta.setdefault("namespace", namespace) != namespace:
            raise bad_request(
                f"the namespace of the provided object does not match the namespace sent on the "
                f"request ({meta['namespace']} and {namespace})"
            )
    else:
        meta.pop("namespace", None)
    return obj


def _free_name(ledger: Ledger, resource: Resource, namespace: str, prefix: str) -> str:
    number = ledger.version
    while ledger.find(resource, namespace, name := prefix + suffix_for(number)) is not None:
        number += 1
    return name


def _check_name(resource: Resource, name: str) -> None:
    if not name:
        says = "Required value: name or generateName is required"
        raise invalid(resource, name, [("metadata.name", says)])
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        says = f'Invalid value: "{name}": a name is made of lower case letters, digits, `-` and `.`'
        raise invalid(resource, name, [("metadata.name", says)])


def _check_namespace(ledger: Ledger, resource: Resource, namespace: str, name: str) -> None:
    spaces = ledger.catalogue.named("Namespace")
    found = ledger.find(spaces, "", namespace)
    if found is None:
        raise not_found(spaces, namespace)
    if found.meta.get("deletionTimestamp"):
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        raise forbidden(resource, name, why)


def _admitted(ledger: Ledger, resource: Resource, pod: Object) -> Object:
    """The pod with the priority its class stands for."""
    spec, name = dict(pod["spec"]), pod["metadata"]["name"]
    if not spec.get("containers"):
        raise invalid(resource, name, [("spec.containers", "Required value")])
    classes = ledger.catalogue.named("PriorityClass")
    wanted = spec.get("priorityClassName", "")
    known = ledger.entries(classes)
    if not wanted:
        general = [it for it in known if it.object.get("globalDefault")]
        wanted = general[0].meta["name"] if general else ""
    values = _SYSTEM_PRIORITIES | {it.meta["name"]: it.object.get("value", 0) for it in known}
    if wanted and wanted not in values:
        raise forbidden(resource, name, f"no PriorityClass with name {wanted} was found")
    priority = values.get(wanted, 0)
    if spec.get("priority", priority) != priority:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
        raise forbidden(resource, name, why)
    spec["priority"] = priority
    if wanted:
        spec["priorityClassName"] = wanted
    return {**pod, "spec": spec}
