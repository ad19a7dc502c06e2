"""Binding a pod to a node, as the scheduler does: once.

The scale subresource: how many replicas are wanted, apart from all else.

Evicting a pod: its budget is asked, debited, and the pod deleted, all in one turn.

finished, pending or leaving      no budget is asked
not ready, and it may go anyway   the budget is not debited
one budget                        has to allow a disruption, and is debited
more than one                     nobody can say; 500
"""

from __future__ import annotations

import msgspec

from resettle.model.selectors import LabelSelector
from resettle.testing.api_server.objects.create_update import existing, rewritten
from resettle.testing.api_server.objects.delete import DeleteOptions, check, delete, delete_options
from resettle.testing.api_server.objects.kinds import Resource
from resettle.testing.api_server.objects.schemas import Binding, Eviction, Scale, fits
from resettle.testing.api_server.status import (
    Declined,
    bad_request,
    bad_scale,
    conflict,
    forbidden,
    stale,
    success,
    unexpected,
)
from resettle.testing.api_server.storage.revisions import Entry, Ledger
from resettle.testing.builders import Object


def bind(
    ledger: Ledger, pods: Resource, namespace: str, name: str, sent: Object, *, dry: bool = False
) -> Object:
    """The `Status` of a pod that now belongs to a node."""
    fits(sent, Binding)
    target = sent.get("target") or {}
    if not target.get("name"):
        raise unexpected("target.name: Required value")
    if target.get("kind") not in (None, "", "Node"):
        kinds = 'supported values: "Node", "<empty>"'
        raise unexpected(f'target.kind: Unsupported value: "{target["kind"]}": {kinds}')
    pod = existing(ledger, pods, namespace, name)
    bound = (pod.object.get("spec") or {}).get("nodeName", "")
    if pod.meta.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise conflict(pods, name, why, kind="pods/binding")
    if bound:
        why = f'pod {name} is already assigned to node "{bound}"'
        raise conflict(pods, name, why, kind="pods/binding")
    obj = pod.copy()
    obj["spec"]["nodeName"] = target["name"]
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": ledger.now()}
    status = obj.setdefault("status", {})
    others = [it for it in status.get("conditions") or () if it["type"] != "PodScheduled"]
    status["conditions"] = [*others, condition]
    ledger.write(pods, obj, dry=dry)
    return success(201)


_META = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(entry: Entry) -> Object:
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


def rescaled(
    ledger: Ledger, resource: Resource, entry: Entry, scale: Object, *, dry: bool = False
) -> Entry:
    """The workload with as many replicas wanted as the scale says."""
    fits(scale, Scale)
    version = (scale.get("metadata") or {}).get("resourceVersion", "")
    if version and version != entry.meta["resourceVersion"]:
        raise stale(resource, entry.meta["name"])
    wanted = (scale.get("spec") or {}).get("replicas", 0)
    if wanted < 0:
        says = f"Invalid value: {wanted}: must be greater than or equal to 0"
        raise bad_scale(entry.meta["name"], says)
    obj = entry.copy()
    obj["spec"] = {**(obj.get("spec") or {}), "replicas": wanted}
    return rewritten(ledger, resource, entry, obj, dry=dry)


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
    ledger: Ledger, pods: Resource, namespace: str, name: str, sent: Object, *, dry: bool = False
) -> Object:
    """The `Status` of a granted eviction."""
    fits(sent, Eviction)
    if sent["metadata"].get("name") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    if sent.get("apiVersion") not in ("policy/v1", "policy/v1beta1", None):
        raise bad_request(f"an Eviction is of `policy/v1`, not of `{sent['apiVersion']}`")
    options = delete_options(sent.get("deleteOptions") or {})
    dry = dry or bool(options.dry_run)
    pod = existing(ledger, pods, namespace, name)
    if not _needs_no_leave(pod):
        # The budget is debited even if another pod turns out to be meant, as by the real server.
        _ask_budget(ledger, pod, dry=dry)
        check(pods, pod, options)
        if not dry:
            pod = _marked(ledger, pods, pod)
            options = _but_for_version(options)
    delete(ledger, pods, pod, options, dry=dry)
    return success(201)


def _needs_no_leave(pod: Entry) -> bool:
    phase = (pod.object.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod.meta.get("deletionTimestamp"))


def _but_for_version(options: DeleteOptions) -> DeleteOptions:
    """The options once the version has been checked: the pod has a newer one since."""
    meant = options.preconditions
    if meant is None:
        return options
    return msgspec.structs.replace(
        options, preconditions=msgspec.structs.replace(meant, resource_version=None)
    )


def _marked(ledger: Ledger, pods: Resource, pod: Entry) -> Entry:
    """The pod with a condition that tells why it goes."""
    obj = pod.copy()
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": ledger.now(),
    }
    status = obj.setdefault("status", {})
    others = [it for it in status.get("conditions") or () if it["type"] != condition["type"]]
    status["conditions"] = [*others, condition]
    return rewritten(ledger, pods, pod, obj)


# -- budgets -------------------------------------------------------------------------------------


def _ask_budget(ledger: Ledger, pod: Entry, *, dry: bool) -> None:
    budgets = ledger.catalogue.named("PodDisruptionBudget")
    found = [it for it in ledger.entries(budgets) if _covers(it, pod)]
    if len(found) > 1:
        raise Declined(500, "", _SEVERAL)
    if found and not _goes_anyway(found[0], pod):
        _debit(ledger, budgets, found[0], pod, dry=dry)


def _covers(budget: Entry, pod: Entry) -> bool:
    selector = (budget.object.get("spec") or {}).get("selector")
    if selector is None or budget.meta["namespace"] != pod.meta["namespace"]:
        return False
    try:
        compiled = msgspec.convert(selector, LabelSelector).compiled()
    except msgspec.ValidationError:
        return False
    return compiled is not None and compiled.matches(pod.meta.get("labels") or {})


def _goes_anyway(budget: Entry, pod: Entry) -> bool:
    """Whether a pod that is not ready may go without the budget being debited."""
    if _is_ready(pod):
        return False
    if (budget.object.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, desired = _count(budget, "currentHealthy"), _count(budget, "desiredHealthy")
    return healthy >= desired > 0


def _is_ready(pod: Entry) -> bool:
    conditions = (pod.object.get("status") or {}).get("conditions") or ()
    return any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)


def _count(budget: Entry, what: str) -> int:
    return int((budget.object.get("status") or {}).get(what) or 0)


def _debit(ledger: Ledger, budgets: Resource, budget: Entry, pod: Entry, *, dry: bool) -> None:
    name = budget.meta["name"]
    if _count(budget, "observedGeneration") < budget.meta.get("generation", 0):
        says = f"The disruption budget {name} is still being processed by the server."
        raise _refused(says, retry_after_seconds=10)
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
        raise _refused(
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**leaving, pod.meta["name"]: ledger.now()}
    if allowed == 1:
        status["conditions"] = _spent(ledger, status)
    rewritten(ledger, budgets, budget, obj, dry=dry)


def _spent(ledger: Ledger, status: Object) -> list[Object]:
    others = [it for it in status.get("conditions") or () if it["type"] != "DisruptionAllowed"]
    told = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": ledger.now(),
    }
    return [*others, told]


def _refused(says: str, *, retry_after_seconds: int = 0) -> Declined:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": says}]}
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return Declined(429, "TooManyRequests", _MESSAGE, details=details)
