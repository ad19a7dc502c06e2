"""What the server adds to a new object: the parts of the real one's defaults that matter here.

`apply_defaults` is for objects that come over the wire. `add_metadata` is for objects that a test
puts in place as they are: it adds only what every object has.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.storage.revisions import Storage
from resettle.testing.builders import Object

_GRACE_SECONDS = 30
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def uid_for(*parts: object) -> str:
    """A uid that differs if any of the parts differs."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(map(str, parts))))


def suffix_for(number: int) -> str:
    """Five letters that follow a `generateName`; neighbouring numbers look unalike."""
    rest = int(uid_for("suffix", number).replace("-", ""), 16)
    letters = ""
    for _ in range(5):
        rest, place = divmod(rest, len(_ALPHABET))
        letters += _ALPHABET[place]
    return letters


def add_metadata(storage: Storage, resource: Resource, obj: Object) -> Object:
    """The object with the metadata that every stored object has."""
    meta = dict(obj.get("metadata") or {})
    if resource.namespaced:
        meta.setdefault("namespace", "default")
    named = (resource.title, meta.get("namespace", ""), meta["name"], storage.version)
    meta.setdefault("uid", uid_for(*named))
    meta.setdefault("creationTimestamp", storage.now())
    if resource.generation:
        meta.setdefault("generation", 1)
    if resource.kind == "Pod" and meta.get("deletionTimestamp"):
        meta.setdefault("deletionGracePeriodSeconds", _GRACE_SECONDS)
    result = {**obj, "metadata": meta}
    if resource.kind == "PodDisruptionBudget":
        # A budget that a test describes has been looked at by its controller.
        seen = {"observedGeneration": meta["generation"]}
        result["status"] = seen | (obj.get("status") or {})
    if resource.kind == "Namespace":
        result = _namespace(result)
    if resource.kind == "CustomResourceDefinition":
        result = _definition(result)
    return result


def apply_defaults(resource: Resource, obj: Object) -> Object:
    """A new object with its defaults; what only its status subresource may write is taken away."""
    if resource.has_status and resource.kind != "Node":
        obj = {key: value for key, value in obj.items() if key != "status"}
    fill = _FILL.get(resource.kind) if not resource.custom else None
    return fill(obj) if fill else obj


def _over(base: Object, obj: Any) -> Object:
    return {**base, **(obj or {})}


def _spec(**defaults: Any) -> Callable[[Object], Object]:
    def fill(obj: Object) -> Object:
        return {**obj, "spec": _over(defaults, obj.get("spec"))}

    return fill


def _plain(**defaults: Any) -> Callable[[Object], Object]:
    def fill(obj: Object) -> Object:
        return _over(defaults, obj)

    return fill


def _namespace(obj: Object) -> Object:
    meta = obj["metadata"]
    labels = {"kubernetes.io/metadata.name": meta["name"]} | (meta.get("labels") or {})
    return {
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
        **obj,
        "metadata": {**meta, "labels": labels},
    }


def _definition(obj: Object) -> Object:
    conditions = [
        {"type": condition, "status": "True"} for condition in ("NamesAccepted", "Established")
    ]
    names = obj["spec"]["names"]
    return {
        **obj,
        "status": {"conditions": conditions, "acceptedNames": names, "storedVersions": []},
    }


def _pod_spec(spec: Object) -> Object:
    spec = _over(
        {
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "securityContext": {},
        },
        spec,
    )
    for group in ("initContainers", "containers"):
        if spec.get(group):
            spec[group] = [_container(container) for container in spec[group]]
    return spec


def _pod(obj: Object) -> Object:
    spec = _pod_spec(obj.get("spec") or {})
    account = spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", account)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *_default_tolerations(spec)]
    return {**obj, "spec": spec, "status": {"phase": "Pending", "qosClass": _quality(spec)}}


def _default_tolerations(spec: Object) -> Iterator[Object]:
    """Tolerations of nodes in trouble, for pods that say nothing about those."""
    named = {toleration.get("key") for toleration in spec.get("tolerations") or ()}
    for trouble in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{trouble}"
        if not named & {key, None, ""}:
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            yield {**toleration, "tolerationSeconds": 300}


def _container(container: Object) -> Object:
    given = container.get("resources") or {}
    limits, requests = given.get("limits") or {}, given.get("requests") or {}
    resources = {**given, "requests": {**limits, **requests}} if limits else given
    tag = container.get("image", "").rpartition("/")[2].partition(":")[2]
    defaults = {
        "imagePullPolicy": "Always" if tag in ("", "latest") else "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    return {**defaults, **container, "resources": resources}


def _workload(**defaults: Any) -> Callable[[Object], Object]:
    """Defaults of what makes pods from a template, those of the template too."""

    def fill(obj: Object) -> Object:
        spec = _over(defaults, obj.get("spec"))
        template = spec.get("template")
        if isinstance(template, dict) and isinstance(template.get("spec"), dict):
            spec["template"] = {**template, "spec": _pod_spec(template["spec"])}
        return {**obj, "spec": spec, "status": {}}

    return fill


def _quality(spec: Object) -> str:
    """The pod's quality-of-service class."""
    given = [
        container.get("resources") or {}
        for group in ("initContainers", "containers")
        for container in spec.get(group) or ()
    ]
    if not any(resources.get("requests") or resources.get("limits") for resources in given):
        return "BestEffort"
    alike = all(
        (resources.get("limits") or {}).get(what)
        and (resources.get("requests") or {}).get(what) == resources["limits"][what]
        for resources in given
        for what in ("cpu", "memory")
    )
    return "Guaranteed" if alike else "Burstable"


def _budget(obj: Object) -> Object:
    nothing = dict.fromkeys(
        ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0
    )
    return {**obj, "status": nothing}


def _waiting(**defaults: Any) -> Callable[[Object], Object]:
    def fill(obj: Object) -> Object:
        spec = _over(defaults, obj.get("spec"))
        return {**obj, "spec": spec, "status": {"phase": "Pending"}}

    return fill


_ROLLING = {
    "type": "RollingUpdate",
    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
}
_FILL: dict[str, Callable[[Object], Object]] = {
    "Pod": _pod,
    "PodDisruptionBudget": _budget,
    "PersistentVolume": _waiting(volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain"),
    "PersistentVolumeClaim": _waiting(volumeMode="Filesystem"),
    "ReplicationController": _workload(replicas=1),
    "ReplicaSet": _workload(replicas=1),
    "Deployment": _workload(
        replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy=_ROLLING
    ),
    "DaemonSet": _workload(revisionHistoryLimit=10),
    "StatefulSet": _workload(replicas=1, podManagementPolicy="OrderedReady"),
    "Job": _workload(parallelism=1, completions=1, backoffLimit=6),
    "Service": _spec(type="ClusterIP", sessionAffinity="None"),
    "PriorityClass": _plain(preemptionPolicy="PreemptLowerPriority"),
    "StorageClass": _plain(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    "Secret": _plain(type="Opaque"),
}
