"""Where a pod may be by the node's state, its labels and its taints alone."""

from __future__ import annotations

from tests.oracle.selectors import Object, labels_of, number, some_term_matches

HARD = ("NoSchedule", "NoExecute")
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def refusal(pod: Object, node: Object) -> str | None:
    """Why the node itself keeps the pod out."""
    if not ready(node):
        return "the node is not ready"
    if node["spec"].get("unschedulable") and not tolerated(pod, CORDON):
        return "the node is cordoned"
    if not suits(pod, node):
        return "the node is none of those that selector and affinity ask for"
    if taint := untolerated(pod, node):
        return f"the taint {taint['key']} is not tolerated"
    return None


def ready(node: Object) -> bool:
    """Whether no Ready condition of the node says otherwise."""
    conditions = node["status"].get("conditions") or ()
    return all(
        condition["status"] == "True" for condition in conditions if condition["type"] == "Ready"
    )


def suits(pod: Object, node: Object) -> bool:
    """Whether the node has what the pod's node selector and required node affinity ask for."""
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels_of(node).get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or some_term_matches(required.get("nodeSelectorTerms"), node)


def untolerated(pod: Object, node: Object) -> Object | None:
    """The first hard taint of the node that the pod does not tolerate."""
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] in HARD and not tolerated(pod, taint):
            first: Object = taint
            return first
    return None


def tolerated(pod: Object, taint: Object) -> bool:
    """Whether some toleration of the pod covers the taint."""
    return any(_covers(toleration, taint) for toleration in pod["spec"].get("tolerations") or ())


def _covers(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    ours, theirs = toleration.get("value") or "", taint.get("value") or ""
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(ours == theirs)
        case "Lt" | "Gt":
            limit, value = number(ours), number(theirs)
            if limit is None or value is None:
                return False
            return value < limit if toleration["operator"] == "Lt" else value > limit
    return False
