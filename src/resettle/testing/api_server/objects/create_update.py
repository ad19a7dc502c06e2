"""Creating and updating objects, with the checks of a real API server that a client can meet.

An update of the status subresource leaves the rest as it is, and the other way round. An update
that changes nothing gets no new resource version.
"""

from __future__ import annotations

import re
from typing import Any

from resettle.testing.api_server.objects.custom_kinds import check_definition, register_kinds
from resettle.testing.api_server.objects.defaults import add_metadata, apply_defaults, suffix_for
from resettle.testing.api_server.objects.delete import is_deletable
from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.objects.schemas import check_shape
from resettle.testing.api_server.status import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    internal_error,
    invalid,
    not_found,
    stale,
)
from resettle.testing.api_server.storage.revisions import Storage, StoredObject
from resettle.testing.api_server.storage.store import without_kind
from resettle.testing.builders import Object

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


def create(
    storage: Storage, resource: Resource, namespace: str, sent: Object, *, dry: bool = False
) -> StoredObject:
    """The new object."""
    obj = check_address(resource, namespace, "", sent)
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise internal_error("resourceVersion should not be set on objects to be created")
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _free_name(storage, resource, namespace, meta["generateName"])
    _check_name(resource, meta.get("name", ""))
    if resource.namespaced:
        _check_namespace(storage, resource, namespace, meta["name"])
    if storage.find(resource, namespace, meta["name"]) is not None:
        raise already_exists(resource, meta["name"])
    for given in ("uid", "creationTimestamp", "deletionTimestamp", "generation", "selfLink"):
        meta.pop(given, None)
    check_definition(resource, obj)
    obj = add_metadata(storage, resource, apply_defaults(resource, obj))
    if resource.kind == "PodDisruptionBudget":
        del obj["status"]["observedGeneration"]
    if resource.kind == "Pod":
        obj = _with_priority(storage, resource, obj)
    entry = storage.write(resource, obj, dry=dry)
    if not dry:
        register_kinds(storage, resource, entry)
    return entry


def check_address(resource: Resource, namespace: str, name: str, sent: Object) -> Object:
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
    obj = without_kind(resource, sent)
    meta = obj["metadata"] = dict(obj.get("metadata") or {})
    check_shape(resource, obj)
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


def _free_name(storage: Storage, resource: Resource, namespace: str, prefix: str) -> str:
    number = storage.version
    while storage.find(resource, namespace, name := prefix + suffix_for(number)) is not None:
        number += 1
    return name


def _check_name(resource: Resource, name: str) -> None:
    if not name:
        says = "Required value: name or generateName is required"
        raise invalid(resource, name, [("metadata.name", says)])
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        says = f'Invalid value: "{name}": a name is made of lower case letters, digits, `-` and `.`'
        raise invalid(resource, name, [("metadata.name", says)])


def _check_namespace(storage: Storage, resource: Resource, namespace: str, name: str) -> None:
    spaces = storage.catalogue.of_kind("Namespace")
    namespace_entry = storage.find(spaces, "", namespace)
    if namespace_entry is None:
        raise not_found(spaces, namespace)
    if namespace_entry.meta.get("deletionTimestamp"):
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        raise forbidden(resource, name, why)


def _with_priority(storage: Storage, resource: Resource, pod: Object) -> Object:
    """The pod with the priority its class stands for."""
    spec, name = dict(pod["spec"]), pod["metadata"]["name"]
    if not spec.get("containers"):
        raise invalid(resource, name, [("spec.containers", "Required value")])
    classes = storage.catalogue.of_kind("PriorityClass")
    wanted = spec.get("priorityClassName", "")
    known = storage.entries(classes)
    if not wanted:
        general = [entry for entry in known if entry.object.get("globalDefault")]
        wanted = general[0].meta["name"] if general else ""
    values = _SYSTEM_PRIORITIES | {
        entry.meta["name"]: entry.object.get("value", 0) for entry in known
    }
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


_FIXED = (
    *("name", "namespace", "uid", "creationTimestamp", "generateName", "selfLink", "generation"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
_NEEDS_VERSION = frozenset({"PodDisruptionBudget", "Lease", "CustomResourceDefinition"})
_LOOSE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")


def get_existing(storage: Storage, resource: Resource, namespace: str, name: str) -> StoredObject:
    """The entry, or a refusal if there is none."""
    entry = storage.find(resource, namespace, name)
    if entry is None:
        raise not_found(resource, name)
    return entry


def update(
    storage: Storage,
    resource: Resource,
    old: StoredObject,
    sent: Object,
    part: str,
    *,
    dry: bool = False,
) -> StoredObject:
    """The entry with what was sent in place of what was there."""
    name = old.meta["name"]
    obj = check_address(resource, old.meta.get("namespace", ""), name, sent)
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
    return replace_object(storage, resource, old, _combine_parts(resource, old, obj, part), dry=dry)


def replace_object(
    storage: Storage, resource: Resource, old: StoredObject, obj: Object, *, dry: bool = False
) -> StoredObject:
    """The entry with this object in its place, unless nothing differs."""
    meta = {k: v for k, v in obj["metadata"].items() if k not in _FIXED}
    meta |= {key: old.meta[key] for key in _FIXED if key in old.meta}
    meta["resourceVersion"] = old.meta["resourceVersion"]
    obj = {**obj, "metadata": meta}
    if obj == old.object:
        return old
    if resource.kind == "Pod":
        _check_pod(resource, old.object, obj)
    check_definition(resource, obj)
    if resource.generation and _desired_state(resource, obj) != _desired_state(
        resource, old.object
    ):
        meta["generation"] = meta.get("generation", 0) + 1
    if is_deletable(obj):
        return storage.remove(resource, storage.write(resource, obj, dry=dry), dry=dry)
    entry = storage.write(resource, obj, dry=dry)
    if not dry:
        register_kinds(storage, resource, entry)
    return entry


def _combine_parts(resource: Resource, old: StoredObject, sent: Object, part: str) -> Object:
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


def _desired_state(resource: Resource, obj: Object) -> Object:
    """The part of an object whose changes its generation counts."""
    if resource.custom:
        aside = ("metadata", "status") if resource.has_status else ("metadata",)
        return {key: value for key, value in obj.items() if key not in aside}
    wanted: Object = obj.get("spec") or {}
    return wanted


def _check_pod(resource: Resource, old: Object, new: Object) -> None:
    if _immutable_spec(old) != _immutable_spec(new):
        says = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
            "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds`"
        )
        raise invalid(resource, new["metadata"]["name"], [("spec", says)])


def _immutable_spec(pod: Object) -> Object:
    """The part of a pod's spec that cannot be changed once it is there."""
    spec = {k: v for k, v in (pod.get("spec") or {}).items() if k not in _LOOSE}
    for group in ("containers", "initContainers"):
        if spec.get(group):
            spec[group] = [
                {k: v for k, v in container.items() if k != "image"} for container in spec[group]
            ]
    return spec
