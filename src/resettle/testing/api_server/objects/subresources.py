"""Subresources of pods and workloads: binding, scale and eviction.

A pod is bound once. The scale subresource changes only the number of replicas. An eviction checks
the disruption budget, debits it and deletes the pod in one transaction:

finished, pending or terminating     no budget is checked
not ready, and allowed to go         the budget is not debited
one budget                           has to allow a disruption, and is debited
more than one                        500, as from a real API server
"""

from __future__ import annotations

import msgspec

from resettle.model.selectors import LabelSelector
from resettle.testing.api_server.objects.create_update import get_existing, replace_object
from resettle.testing.api_server.objects.delete import (
    RequestedDeletion,
    check_preconditions,
    delete,
    delete_options,
)
from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.objects.schemas import (
    BindingSchema,
    EvictionSchema,
    ScaleSchema,
    check_schema,
)
from resettle.testing.api_server.status import (
    Declined,
    bad_request,
    bad_scale,
    conflict,
    forbidden,
    internal_error,
    stale,
    success,
)
from resettle.testing.api_server.storage.revisions import Storage, StoredObject
from resettle.testing.builders import Object


def bind(
    storage: Storage, pods: Resource, namespace: str, name: str, sent: Object, *, dry: bool = False
) -> Object:
    """The `Status` of a pod that now belongs to a node."""
    check_schema(sent, BindingSchema)
    target = sent.get("target") or {}
    if not target.get("name"):
        raise internal_error("target.name: Required value")
    if target.get("kind") not in (None, "", "Node"):
        kinds = 'supported values: "Node", "<empty>"'
        raise internal_error(f'target.kind: Unsupported value: "{target["kind"]}": {kinds}')
    pod = get_existing(storage, pods, namespace, name)
    bound = (pod.object.get("spec") or {}).get("nodeName", "")
    if pod.meta.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise conflict(pods, name, why, kind="pods/binding")
    if bound:
        why = f'pod {name} is already assigned to node "{bound}"'
        raise conflict(pods, name, why, kind="pods/binding")
    obj = pod.copy()
    obj["spec"]["nodeName"] = target["name"]
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": storage.now()}
    status = obj.setdefault("status", {})
    others = [
        condition
        for condition in status.get("conditions") or ()
        if condition["type"] != "PodScheduled"
    ]
    status["conditions"] = [*others, condition]
    storage.write(pods, obj, dry=dry)
    return success(201)


_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(entry: StoredObject) -> Object:
    """The scale of a workload."""
    spec, status = entry.object.get("spec") or {}, entry.object.get("status") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: entry.meta[key] for key in _META if key in entry.meta},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {
            "replicas": status.get("replicas", 0),
            "selector": _selector(spec.get("selector")),
        },
    }


def set_scale(
    storage: Storage, resource: Resource, entry: StoredObject, scale: Object, *, dry: bool = False
) -> StoredObject:
    """The workload with as many replicas wanted as the scale says."""
    check_schema(scale, ScaleSchema)
    version = (scale.get("metadata") or {}).get("resourceVersion", "")
    if version and version != entry.meta["resourceVersion"]:
        raise stale(resource, entry.meta["name"])
    wanted = (scale.get("spec") or {}).get("replicas", 0)
    if wanted < 0:
        says = f"Invalid value: {wanted}: must be greater than or equal to 0"
        raise bad_scale(entry.meta["name"], says)
    obj = entry.copy()
    obj["spec"] = {**(obj.get("spec") or {}), "replicas": wanted}
    return replace_object(storage, resource, entry, obj, dry=dry)


def _selector(selector: object) -> str:
    """The selector as a string; a ReplicationController's is a plain mapping."""
    if not isinstance(selector, dict):
        return ""
    if not {"matchLabels", "matchExpressions"} & set(selector):
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for row in selector.get("matchExpressions") or ():
        key, values = row["key"], ",".join(sorted(row.get("values") or ()))
        match row["operator"]:
            case "Exists":
                terms.append(key)
            case "DoesNotExist":
                terms.append(f"!{key}")
            case operator:
                terms.append(f"{key} {operator.lower()} ({values})")
    return ",".join(terms)


_MESSAGE = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = (
    "This pod has more than one PodDisruptionBudget, "
    "which the eviction subresource does not support."
)
_MOST_DISRUPTED = 2000


def evict(
    storage: Storage, pods: Resource, namespace: str, name: str, sent: Object, *, dry: bool = False
) -> Object:
    """The `Status` of a granted eviction."""
    check_schema(sent, EvictionSchema)
    if sent["metadata"].get("name") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    if sent.get("apiVersion") not in ("policy/v1", "policy/v1beta1", None):
        raise bad_request(f"an Eviction is of `policy/v1`, not of `{sent['apiVersion']}`")
    options = delete_options(sent.get("deleteOptions") or {})
    dry = dry or bool(options.dry_run)
    pod = get_existing(storage, pods, namespace, name)
    if not _skips_budgets(pod):
        # The budget is debited even if another pod turns out to be meant, as by the real server.
        _check_budget(storage, pod, dry=dry)
        check_preconditions(pods, pod, options)
        if not dry:
            pod = _add_disruption_target(storage, pods, pod)
            options = _without_version(options)
    delete(storage, pods, pod, options, dry=dry)
    return success(201)


def _skips_budgets(pod: StoredObject) -> bool:
    phase = (pod.object.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod.meta.get("deletionTimestamp"))


def _without_version(options: RequestedDeletion) -> RequestedDeletion:
    """The options once the version has been checked: the pod has a newer one since."""
    meant = options.preconditions
    if meant is None:
        return options
    return msgspec.structs.replace(
        options, preconditions=msgspec.structs.replace(meant, resource_version=None)
    )


def _add_disruption_target(storage: Storage, pods: Resource, pod: StoredObject) -> StoredObject:
    """Add the condition DisruptionTarget, with the reason, to the pod."""
    obj = pod.copy()
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": storage.now(),
    }
    status = obj.setdefault("status", {})
    others = [row for row in status.get("conditions") or () if row["type"] != condition["type"]]
    status["conditions"] = [*others, condition]
    return replace_object(storage, pods, pod, obj)


# -- budgets -------------------------------------------------------------------------------------


def _check_budget(storage: Storage, pod: StoredObject, *, dry: bool) -> None:
    budgets = storage.catalogue.of_kind("PodDisruptionBudget")
    covering = [entry for entry in storage.entries(budgets) if _covers(entry, pod)]
    if len(covering) > 1:
        raise Declined(500, "", _SEVERAL)
    if covering and not _may_skip_budget(covering[0], pod):
        _debit(storage, budgets, covering[0], pod, dry=dry)


def _covers(budget: StoredObject, pod: StoredObject) -> bool:
    selector = (budget.object.get("spec") or {}).get("selector")
    if selector is None or budget.meta["namespace"] != pod.meta["namespace"]:
        return False
    try:
        compiled = msgspec.convert(selector, LabelSelector).compile()
    except msgspec.ValidationError:
        return False
    return compiled is not None and compiled.matches(pod.meta.get("labels") or {})


def _may_skip_budget(budget: StoredObject, pod: StoredObject) -> bool:
    """Whether a pod that is not ready may go without the budget being debited."""
    if _is_ready(pod):
        return False
    if (budget.object.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, desired = _count(budget, "currentHealthy"), _count(budget, "desiredHealthy")
    return healthy >= desired > 0


def _is_ready(pod: StoredObject) -> bool:
    conditions = (pod.object.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def _count(budget: StoredObject, what: str) -> int:
    return int((budget.object.get("status") or {}).get(what) or 0)


def _debit(
    storage: Storage, budgets: Resource, budget: StoredObject, pod: StoredObject, *, dry: bool
) -> None:
    name = budget.meta["name"]
    if _count(budget, "observedGeneration") < budget.meta.get("generation", 0):
        says = f"The disruption budget {name} is still being processed by the server."
        raise _too_many_requests(says, retry_after_seconds=10)
    allowed = _count(budget, "disruptionsAllowed")
    if allowed < 0:
        raise forbidden(budgets, name, "pdb disruptions allowed is negative")
    obj = budget.copy()
    status = obj.setdefault("status", {})
    leaving = status.get("disruptedPods") or {}
    if len(leaving) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(budgets, name, why)
    if allowed == 0:
        desired, healthy = _count(budget, "desiredHealthy"), _count(budget, "currentHealthy")
        raise _too_many_requests(
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**leaving, pod.meta["name"]: storage.now()}
    if allowed == 1:
        status["conditions"] = _without_disruptions(storage, status)
    replace_object(storage, budgets, budget, obj, dry=dry)


def _without_disruptions(storage: Storage, status: Object) -> list[Object]:
    others = [
        condition
        for condition in status.get("conditions") or ()
        if condition["type"] != "DisruptionAllowed"
    ]
    exhausted = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": storage.now(),
    }
    return [*others, exhausted]


def _too_many_requests(says: str, *, retry_after_seconds: int = 0) -> Declined:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": says}]}
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return Declined(429, "TooManyRequests", _MESSAGE, details=details)
