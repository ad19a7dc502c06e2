"""Deployments: one ReplicaSet for each template; a new one grows while the old ones shrink.

The new one has as many pods as serve so far and a few more (`maxSurge`), the old ones together as
many as are missing from it, if they serve: what does not is given up first.

ReplicaSets: as many pods as wanted, whoever takes one away.

StatefulSets: pods with names that come back, each with claims of its own.

A name is free again only once its last bearer is gone. Unless the set says `Parallel`, a pod comes
when all before it serve, and pods go from the end, one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import ceil
from typing import Any

from resettle.testing.builders import Object, merged
from resettle.testing.controllers.observed import Sight
from resettle.testing.controllers.writes import (
    Later,
    Put,
    Write,
    active,
    change,
    farewell,
    free_name,
    hashed,
    leaving,
    newborn,
    owned,
    phase,
    ready,
    status_of,
    told_as,
)

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
        yield from status_of(owner, _deployment_status(owner, new, sets, seen))


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


def _deployment_status(owner: Object, new: Object, sets: list[Object], seen: Sight) -> Object:
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


_COST = "controller.kubernetes.io/pod-deletion-cost"


def replica_sets(seen: Sight) -> Iterator[Write | Later]:
    """The pods that are missing, farewells to those that are too many, and what is so."""
    for kind in ("ReplicaSet", "ReplicationController"):
        for owner in seen.all(kind):
            pods = [pod for pod in seen.owned_by(owner) if active(pod)]
            wanted = int(owner["spec"].get("replicas", 1))
            yield from _made(owner, wanted - len(pods), seen)
            yield from _too_many(pods, len(pods) - wanted, seen)
            yield from status_of(owner, _replica_set_status(owner, pods))


def _made(owner: Object, count: int, seen: Sight) -> Iterator[Write]:
    taken = {pod["metadata"]["name"] for pod in seen.owned_by(owner)}
    for _ in range(count):
        name = free_name(owner, taken, seen)
        taken.add(name)
        yield Put(newborn(owner, name, seen))


def _too_many(pods: list[Object], count: int, seen: Sight) -> Iterator[Write]:
    if count <= 0:
        return
    company = Counter(pod["spec"].get("nodeName", "") for pod in pods)
    for pod in sorted(pods, key=lambda pod: _worth(pod, company))[:count]:
        yield from farewell(pod, seen.now)


def _worth(pod: Object, company: Counter[str]) -> tuple[Any, ...]:
    """What is given up first: waiting, not ready, cheap, one of many on its node, young."""
    node, meta = pod["spec"].get("nodeName", ""), pod["metadata"]
    cost = int((meta.get("annotations") or {}).get(_COST, 0))
    age = meta.get("creationTimestamp", "")
    place = (bool(node), phase(pod) == "Running", ready(pod), cost, -company[node])
    return (*place, _backwards(age), meta["name"])


def _backwards(text: str) -> tuple[int, ...]:
    """A key that puts the later of two times first."""
    return tuple(-ord(letter) for letter in text)


def _replica_set_status(owner: Object, pods: list[Object]) -> Object:
    serving = sum(map(ready, pods))
    return {
        "replicas": len(pods),
        "readyReplicas": serving,
        "availableReplicas": serving,
        "observedGeneration": owner["metadata"].get("generation", 1),
    }


REVISION = "controller-revision-hash"


def stateful_sets(seen: Sight) -> Iterator[Write | Later]:
    """Claims and pods that are missing, farewells to those that are too many or outdated."""
    for owner in seen.all("StatefulSet"):
        mine = {pod["metadata"]["name"]: pod for pod in seen.owned_by(owner)}
        wanted = int(owner["spec"].get("replicas", 1))
        names = [f"{owner['metadata']['name']}-{i}" for i in range(wanted)]
        yield from _changes(owner, names, mine, seen)
        yield from status_of(owner, _stateful_set_status(owner, mine))


def _changes(
    owner: Object, names: list[str], mine: dict[str, Object], seen: Sight
) -> Iterator[Write]:
    together = owner["spec"].get("podManagementPolicy") == "Parallel"
    for number, name in enumerate(names):
        yield from _claims(owner, name, seen)
        pod = mine.get(name)
        if pod is None:
            yield Put(_pod(owner, name, number, seen))
        elif phase(pod) in ("Succeeded", "Failed") and not leaving(pod):
            yield from farewell(pod, seen.now)
        if not together and (pod is None or not ready(pod) or leaving(pod)):
            return
    extra = sorted((it for it in mine if it not in names), key=_number, reverse=True)
    for name in extra if together else extra[:1]:
        if not leaving(mine[name]):
            yield from farewell(mine[name], seen.now)
    if extra or any(leaving(pod) or not ready(pod) for pod in mine.values()):
        return
    revision = hashed(owner["spec"]["template"])
    for name in reversed(names):
        if name in mine and mine[name]["metadata"]["labels"].get(REVISION) != revision:
            yield from farewell(mine[name], seen.now)
            return


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _pod(owner: Object, name: str, number: int, seen: Sight) -> Object:
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(number),
        REVISION: hashed(owner["spec"]["template"]),
    }
    kept = (owner["spec"]["template"]["spec"].get("volumes")) or []
    mounted = [
        {"name": it, "persistentVolumeClaim": {"claimName": f"{it}-{name}"}}
        for it in _claim_names(owner)
    ]
    spec = {"hostname": name, "volumes": [*kept, *mounted]} if mounted else {"hostname": name}
    return newborn(owner, name, seen, labels=labels, spec=spec)


def _claim_names(owner: Object) -> list[str]:
    return [it["metadata"]["name"] for it in owner["spec"].get("volumeClaimTemplates") or ()]


def _claims(owner: Object, name: str, seen: Sight) -> Iterator[Write]:
    """The claims of one pod that are not there yet; they outlive the pod, and the set."""
    space = owner["metadata"].get("namespace", "default")
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        called = f"{template['metadata']['name']}-{name}"
        if seen.get("PersistentVolumeClaim", called, space) is None:
            yield Put(
                merged(
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "spec": template.get("spec") or {},
                        "status": {"phase": "Pending"},
                    },
                    {
                        "metadata": {
                            "name": called,
                            "namespace": space,
                            "labels": (template["metadata"].get("labels") or {}),
                            "creationTimestamp": told_as(seen.now),
                        }
                    },
                )
            )


def _stateful_set_status(owner: Object, mine: dict[str, Object]) -> Object:
    serving = sum(ready(pod) and not leaving(pod) for pod in mine.values())
    return {
        "replicas": len(mine),
        "readyReplicas": serving,
        "availableReplicas": serving,
        "currentReplicas": len(mine),
        "observedGeneration": owner["metadata"].get("generation", 1),
    }
