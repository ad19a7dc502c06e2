"""Binding a pod to a node, as the scheduler does: once."""

from __future__ import annotations

from resettle.testing.objects import Object
from resettle.testing.pocket.kinds import Resource
from resettle.testing.pocket.ledger import Ledger
from resettle.testing.pocket.refusals import conflict, success, unexpected
from resettle.testing.pocket.shapes import Binding, fits
from resettle.testing.pocket.updating import existing


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
