"""New pods: whose they are, what they are called, and what they start out as."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import msgspec

from resettle.testing.life.moments import told_as
from resettle.testing.life.sight import Sight
from resettle.testing.objects import Object, merged

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def owned(owner: Object) -> list[Object]:
    """The reference by which an object knows its controller."""
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"]}
    return [{**reference, "uid": meta["uid"], "controller": True, "blockOwnerDeletion": True}]


def letters(count: int, *told: object) -> str:
    """So many letters that differ for all that differs in anything told."""
    digest = hashlib.sha256("/".join(map(str, told)).encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:count])


def hashed(template: Any) -> str:
    """The hash by which pods of this template are told from those of another."""
    return letters(9, msgspec.json.encode(template, order="sorted").decode())


def free_name(owner: Object, taken: Collection[str], seen: Sight) -> str:
    """A name after the owner's that nobody has, and that nobody had."""
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    attempt = 0
    while (free := f"{name}-{letters(5, uid, seen.serial, attempt)}") in taken:
        attempt += 1
    return free


def newborn(
    owner: Object,
    name: str,
    seen: Sight,
    *,
    labels: Object | None = None,
    spec: Object | None = None,
) -> Object:
    """A pod of the owner's template, waiting for a node."""
    template, meta = owner["spec"]["template"], owner["metadata"]
    pattern = template.get("metadata") or {}
    made_of: Object = merged(template["spec"], spec or {})
    made_of.setdefault("schedulerName", "default-scheduler")
    made_of.setdefault("terminationGracePeriodSeconds", 30)
    made_of.setdefault("priority", _priority(made_of, seen))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta.get("namespace", "default"),
            "generateName": f"{meta['name']}-",
            "labels": {**(pattern.get("labels") or {}), **(labels or {})},
            "annotations": dict(pattern.get("annotations") or {}),
            "ownerReferences": owned(owner),
            "creationTimestamp": told_as(seen.now),
        },
        "spec": made_of,
        "status": {"phase": "Pending", "qosClass": _quality(made_of)},
    }


def _priority(spec: Object, seen: Sight) -> int:
    classes = seen.all("PriorityClass")
    wanted = spec.get("priorityClassName")
    for it in classes:
        if it["metadata"]["name"] == wanted or (not wanted and it.get("globalDefault")):
            return int(it["value"])
    system = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
    return system.get(wanted or "", 0)


def _quality(spec: Object) -> str:
    """The quality-of-service class."""
    given = [it.get("resources") or {} for it in spec.get("containers") or ()]
    if not any(it.get("requests") or it.get("limits") for it in given):
        return "BestEffort"
    sure = all(
        limit and (it.get("requests") or {}).get(what, limit) == limit
        for it in given
        for what in ("cpu", "memory")
        for limit in [(it.get("limits") or {}).get(what)]
    )
    return "Guaranteed" if sure else "Burstable"


def ready(pod: Object) -> bool:
    """Whether a pod serves."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)


def leaving(pod: Object) -> bool:
    """Whether a pod is on its way out."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def phase(pod: Object) -> str:
    """How far a pod has come."""
    return str((pod.get("status") or {}).get("phase", "Pending"))


def active(pod: Object) -> bool:
    """Whether a controller counts on the pod: it has not finished and is not leaving."""
    return not leaving(pod) and phase(pod) not in ("Succeeded", "Failed")
