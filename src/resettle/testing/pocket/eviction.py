"""Evicting a pod: its budget is asked, debited, and the pod deleted, all in one turn.

finished, pending or leaving      no budget is asked
not ready, and it may go anyway   the budget is not debited
one budget                        has to allow a disruption, and is debited
more than one                     nobody can say; 500
"""

from __future__ import annotations

import msgspec

from resettle.model.selector import LabelSelector
from resettle.testing.objects import Object
from resettle.testing.pocket.deleting import DeleteOptions, check, delete, delete_options
from resettle.testing.pocket.kinds import Resource
from resettle.testing.pocket.ledger import Entry, Ledger
from resettle.testing.pocket.refusals import Declined, bad_request, forbidden, success
from resettle.testing.pocket.shapes import Eviction, fits
from resettle.testing.pocket.updating import existing, rewritten

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
