"""Deployments: one ReplicaSet for each template; a new one grows while the old ones shrink.

The new one has as many pods as serve so far and a few more (`maxSurge`), the old ones together as
many as are missing from it, if they serve: what does not is given up first.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from resettle.testing.life.births import active, hashed, owned, ready
from resettle.testing.life.sight import Sight
from resettle.testing.life.writes import Later, Put, Write, change, status_of
from resettle.testing.objects import Object, merged

HASH = "pod-template-hash"


def deployments(seen: Sight) -> Iterator[Write | Later]:
    """The ReplicaSets that are missing, their sizes, and what is so."""
    for owner in seen.all("Deployment"):
        template = owner["spec"]["template"]
        mark = hashed(template)
        sets = seen.owned_by(owner, "ReplicaSet")
        new = next((it for it in sets if it["metadata"]["labels"].get(HASH) == mark), None)
        old = [it for it in sets if it is not new]
        if new is None:
            size = 0 if any(_size(it) for it in old) else _wanted(owner)
            yield Put(_replica_set(owner, mark, size))
            continue
        yield from _resized(owner, new, old, seen)
        yield from status_of(owner, _status(owner, new, sets, seen))


def _resized(owner: Object, new: Object, old: list[Object], seen: Sight) -> Iterator[Write]:
    wanted, serving = _wanted(owner), sum(map(ready, _pods(new, seen)))
    left = sum(map(_size, old))
    size, keep = wanted, max(min(left, wanted - serving), 0)
    if _recreates(owner) and (left or any(seen.owned_by(it) for it in old)):
        size, keep = 0, 0
    elif left:
        size = min(wanted, max(_size(new), serving + _surge(owner)))
    if _size(new) != size:
        yield change(new, {"spec": {"replicas": size}})
    for it in sorted(old, key=lambda it: it["metadata"]["name"]):
        share = min(_size(it), sum(map(ready, _pods(it, seen))), keep)
        keep -= share
        if _size(it) != share:
            yield change(it, {"spec": {"replicas": share}})


def _replica_set(owner: Object, mark: str, size: int) -> Object:
    meta, spec = owner["metadata"], owner["spec"]
    labels = {**((spec["template"].get("metadata") or {}).get("labels") or {}), HASH: mark}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name']}-{mark}",
            "namespace": meta.get("namespace", "default"),
            "labels": labels,
            "ownerReferences": owned(owner),
        },
        "spec": {
            "replicas": size,
            "selector": merged(spec.get("selector") or {}, {"matchLabels": {HASH: mark}}),
            "template": merged(spec["template"], {"metadata": {"labels": {HASH: mark}}}),
        },
    }


def _wanted(owner: Object) -> int:
    return int(owner["spec"].get("replicas", 1))


def _size(replica_set: Object) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def _pods(replica_set: Object, seen: Sight) -> list[Object]:
    return [pod for pod in seen.owned_by(replica_set) if active(pod)]


def _recreates(owner: Object) -> bool:
    return (owner["spec"].get("strategy") or {}).get("type") == "Recreate"


def _surge(owner: Object) -> int:
    rolling = (owner["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    return max(portion(rolling.get("maxSurge", "25%"), _wanted(owner)), 1)


def portion(amount: Any, whole: int) -> int:
    """`3`, or `25%` of the whole rounded up."""
    text = str(amount)
    return ceil(int(text[:-1]) * whole / 100) if text.endswith("%") else int(text)


def _status(owner: Object, new: Object, sets: list[Object], seen: Sight) -> Object:
    pods = [pod for it in sets for pod in _pods(it, seen)]
    serving = sum(map(ready, pods))
    return {
        "replicas": len(pods),
        "updatedReplicas": len(_pods(new, seen)),
        "readyReplicas": serving,
        "availableReplicas": serving,
        "unavailableReplicas": max(_wanted(owner) - serving, 0),
        "observedGeneration": owner["metadata"].get("generation", 1),
    }
