"""Random clusters, changed so that a real API server accepts them.

`valid_objects` changes what would be refused, for planner and API server alike. `creatable_object`
then removes fields that only the server writes and adds fields that it requires; none of them
changes where a pod fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.oracle.node_rules import ready
from tests.oracle.resources import amount_of

Object = dict[str, Any]

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
STORAGE_CLASS = "fast"
PROVISIONER = "any-node.example"
"""A provisioner that can create any number of volumes on every node."""
OVERHEAD_CLASS = "sandboxed"
NO_SCHEDULER = "none"
"""`schedulerName` of pods that no scheduler should place."""
FINALIZER = "example.com/hold"
"""The finalizer of objects that are being deleted and must stay for now."""


# -- for both sides --------------------------------------------------------------------------------


def valid_objects(objects: Iterable[Object]) -> list[Object]:
    """The objects, with changes where an API server would refuse them."""
    return [_CORRECTIONS.get(obj["kind"], _identity)(obj) for obj in objects]


def _identity(obj: Object) -> Object:
    return obj


def _tainted_unless_ready(node: Object) -> Object:
    """The node, with the taint that the node controller gives a node that is not ready."""
    if ready(node):
        return node
    taints = [*(node["spec"].get("taints") or ()), NOT_READY]
    return {**node, "spec": {**node["spec"], "taints": taints}}


def _valid_pod(pod: Object) -> Object:
    spec = dict(pod["spec"])
    if rules := spec.get("topologySpreadConstraints"):
        spec["topologySpreadConstraints"] = _without_duplicates(rules)
    if affinity := spec.get("affinity"):
        spec["affinity"] = {kind: _with_valid_terms(terms) for kind, terms in affinity.items()}
    if spec.get("resources"):
        spec["resources"] = {"requests": _no_less_than_its_containers(spec)}
    return {**pod, "spec": spec}


def _without_duplicates(rules: list[Object]) -> list[Object]:
    """The constraints without duplicates of one topology key and `whenUnsatisfiable`."""
    first: dict[tuple[str, str], Object] = {}
    for rule in rules:
        first.setdefault((rule["topologyKey"], rule["whenUnsatisfiable"]), rule)
    return [_with_valid_keys(rule) for rule in first.values()]


def _with_valid_terms(affinity: Object) -> Object:
    """The affinity of one kind with valid terms; node affinity is valid already."""
    return {
        how: [_with_valid_keys(term) for term in terms] if isinstance(terms, list) else terms
        for how, terms in affinity.items()
    }


def _with_valid_keys(term: Object) -> Object:
    """The term or constraint without label keys that its selector has already."""
    if "podAffinityTerm" in term:
        return {**term, "podAffinityTerm": _with_valid_keys(term["podAffinityTerm"])}
    selector = term.get("labelSelector") or {}
    selector_keys = {row["key"] for row in selector.get("matchExpressions") or ()}
    selector_keys.update(selector.get("matchLabels") or ())
    bare = term.get("labelSelector") is None
    label_keys: Object = {
        name: [key for key in term[name] if not bare and key not in selector_keys]
        for name in ("matchLabelKeys", "mismatchLabelKeys")
        if name in term
    }
    return {**term, **label_keys}


def _no_less_than_its_containers(spec: Object) -> dict[str, str]:
    """The requests of the pod, raised to the sum of its containers."""
    requests: dict[str, str] = dict(spec["resources"]["requests"])
    for resource, amount in requests.items():
        parts = [
            container["resources"]["requests"].get(resource, "0")
            for container in spec["containers"]
        ]
        parts += [
            container["resources"]["requests"].get(resource, "0")
            for container in spec.get("initContainers", ())
        ]
        total = sum(map(amount_of, parts))
        if total > amount_of(amount):
            requests[resource] = f"{int(total * 1000)}m"
    return requests


_CORRECTIONS = {"Node": _tainted_unless_ready, "Pod": _valid_pod}


# -- for the API server ----------------------------------------------------------------------------


def creatable_object(obj: Object) -> Object:
    """The object as a client would create it."""
    kept = {"name", "namespace", "labels", "annotations"}
    meta = {key: value for key, value in obj["metadata"].items() if key in kept}
    if obj["metadata"].get("deletionTimestamp"):
        meta["finalizers"] = [FINALIZER]
    created = {**obj, "metadata": meta}
    convert = _CREATABLE.get(obj["kind"])
    return convert(created) if convert else created


def _posted_pod(pod: Object) -> Object:
    spec = {**pod["spec"], "schedulerName": NO_SCHEDULER, "automountServiceAccountToken": False}
    spec.pop("priority", None)
    if spec.get("nodeName"):
        # Scheduling gates are allowed only on pods without a node.
        spec.pop("schedulingGates", None)
    if "overhead" in spec:
        spec["runtimeClassName"] = OVERHEAD_CLASS
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [_with_limits(container) for container in spec[name]]
    spec["volumes"] = [_with_size(volume) for volume in spec.get("volumes") or ()]
    bare = {key: value for key, value in pod.items() if key != "status"}
    return {**bare, "spec": spec}


def _with_limits(container: Object) -> Object:
    """The container with limits for extended resources, which cannot be overcommitted."""
    requests = container["resources"]["requests"]
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    return {**container, "resources": {"requests": requests, "limits": limits}}


def _with_size(volume: Object) -> Object:
    """The volume; the template of an ephemeral claim gets a size."""
    if "ephemeral" not in volume:
        return volume
    template = _posted_claim(volume["ephemeral"]["volumeClaimTemplate"])
    return {**volume, "ephemeral": {"volumeClaimTemplate": template}}


def _posted_claim(claim: Object) -> Object:
    spec = {**claim["spec"], "resources": {"requests": {"storage": "1Gi"}}}
    return {**claim, "spec": spec}


def _posted_volume(volume: Object) -> Object:
    spec = {**volume["spec"], "storageClassName": STORAGE_CLASS}
    if "csi" not in spec:
        spec["nfs"] = {"server": "127.0.0.1", "path": "/"}
    return {**volume, "spec": spec}


_CREATABLE = {
    "Pod": _posted_pod,
    "PersistentVolumeClaim": _posted_claim,
    "PersistentVolume": _posted_volume,
}


def probe_of(pod: Object, scheduler: str) -> Object:
    """A replacement of the pod for this scheduler, without a node."""
    posted = creatable_object(pod)
    spec = {**posted["spec"], "schedulerName": scheduler}
    spec.pop("nodeName", None)
    if gates := pod["spec"].get("schedulingGates"):
        spec["schedulingGates"] = gates
    meta = {**posted["metadata"], "name": f"{pod['metadata']['name']}-probe"}
    meta.pop("finalizers", None)
    return {**posted, "metadata": meta, "spec": spec}
