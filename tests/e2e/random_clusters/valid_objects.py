"""Random clusters, made such that a real API server takes them.

`acceptable` changes what would be refused, for planner and API server alike. `creatable` then
leaves out what only the server may write and adds what it insists on; nothing of that bears on
where a pod fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.oracle.node_rules import ready
from tests.oracle.resources import amount_of

Object = dict[str, Any]

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
STORAGE_CLASS = "fast"
ROOMY = "roomy.example"
"""A provisioner that can make a volume on every node, and as many as anybody wants."""
OVERHEAD_CLASS = "sandboxed"
NOBODY = "nobody"
"""The scheduler of pods that are where they are."""
HOLD = "example.com/hold"
"""The finalizer of what is being deleted and must not go yet."""


# -- for both sides --------------------------------------------------------------------------------


def acceptable(objects: Iterable[Object]) -> list[Object]:
    """The objects, with what no API server would have let in made such that it does."""
    return [_MENDED.get(it["kind"], _as_it_is)(it) for it in objects]


def _as_it_is(it: Object) -> Object:
    return it


def _tainted_unless_ready(node: Object) -> Object:
    """The node with the taint that the controllers would have put on it."""
    if ready(node):
        return node
    taints = [*(node["spec"].get("taints") or ()), NOT_READY]
    return {**node, "spec": {**node["spec"], "taints": taints}}


def _valid_pod(pod: Object) -> Object:
    spec = dict(pod["spec"])
    if rules := spec.get("topologySpreadConstraints"):
        spec["topologySpreadConstraints"] = _each_once(rules)
    if affinity := spec.get("affinity"):
        spec["affinity"] = {kind: _with_valid_terms(it) for kind, it in affinity.items()}
    if spec.get("resources"):
        spec["resources"] = {"requests": _no_less_than_its_containers(spec)}
    return {**pod, "spec": spec}


def _each_once(rules: list[Object]) -> list[Object]:
    """The rules without a second one for the same topology."""
    first: dict[tuple[str, str], Object] = {}
    for rule in rules:
        first.setdefault((rule["topologyKey"], rule["whenUnsatisfiable"]), rule)
    return [_with_valid_keys(rule) for rule in first.values()]


def _with_valid_terms(wishes: Object) -> Object:
    """The affinity of one kind; what it says of nodes is valid as it is."""
    return {
        how: [_with_valid_keys(it) for it in terms] if isinstance(terms, list) else terms
        for how, terms in wishes.items()
    }


def _with_valid_keys(term: Object) -> Object:
    """The term or rule with only those label keys that narrow a selector which has them not."""
    if "podAffinityTerm" in term:
        return {**term, "podAffinityTerm": _with_valid_keys(term["podAffinityTerm"])}
    selector = term.get("labelSelector") or {}
    said = {row["key"] for row in selector.get("matchExpressions") or ()}
    said.update(selector.get("matchLabels") or ())
    bare = term.get("labelSelector") is None
    narrowing: Object = {
        name: [key for key in term[name] if not bare and key not in said]
        for name in ("matchLabelKeys", "mismatchLabelKeys")
        if name in term
    }
    return {**term, **narrowing}


def _no_less_than_its_containers(spec: Object) -> dict[str, str]:
    """What the pod as a whole asks for, raised to what its containers ask for together."""
    asked: dict[str, str] = dict(spec["resources"]["requests"])
    for resource, amount in asked.items():
        parts = [it["resources"]["requests"].get(resource, "0") for it in spec["containers"]]
        parts += [
            it["resources"]["requests"].get(resource, "0") for it in spec.get("initContainers", ())
        ]
        total = sum(map(amount_of, parts))
        if total > amount_of(amount):
            asked[resource] = f"{int(total * 1000)}m"
    return asked


_MENDED = {"Node": _tainted_unless_ready, "Pod": _valid_pod}


# -- for the API server ----------------------------------------------------------------------------


def creatable(it: Object) -> Object:
    """The object as somebody would post it."""
    kept = {"name", "namespace", "labels", "annotations"}
    meta = {key: value for key, value in it["metadata"].items() if key in kept}
    if it["metadata"].get("deletionTimestamp"):
        meta["finalizers"] = [HOLD]
    made = {**it, "metadata": meta}
    shape = _SHAPES.get(it["kind"])
    return shape(made) if shape else made


def _posted_pod(pod: Object) -> Object:
    spec = {**pod["spec"], "schedulerName": NOBODY, "automountServiceAccountToken": False}
    spec.pop("priority", None)
    if spec.get("nodeName"):
        # A gate holds back a pod that has no node yet, so one that has a node has none.
        spec.pop("schedulingGates", None)
    if "overhead" in spec:
        spec["runtimeClassName"] = OVERHEAD_CLASS
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [_with_limits(it) for it in spec[name]]
    spec["volumes"] = [_with_size(it) for it in spec.get("volumes") or ()]
    bare = {key: value for key, value in pod.items() if key != "status"}
    return {**bare, "spec": spec}


def _with_limits(container: Object) -> Object:
    """The container with limits for what cannot be had on credit."""
    requests = container["resources"]["requests"]
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    return {**container, "resources": {"requests": requests, "limits": limits}}


def _with_size(volume: Object) -> Object:
    """The volume, and the claim that is made for it with a size."""
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


_SHAPES = {
    "Pod": _posted_pod,
    "PersistentVolumeClaim": _posted_claim,
    "PersistentVolume": _posted_volume,
}


def probe_of(pod: Object, scheduler: str) -> Object:
    """A replacement of the pod that asks this scheduler for a node."""
    posted = creatable(pod)
    spec = {**posted["spec"], "schedulerName": scheduler}
    spec.pop("nodeName", None)
    if gates := pod["spec"].get("schedulingGates"):
        spec["schedulingGates"] = gates
    meta = {**posted["metadata"], "name": f"{pod['metadata']['name']}-probe"}
    meta.pop("finalizers", None)
    return {**posted, "metadata": meta, "spec": spec}
