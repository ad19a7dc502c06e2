"""Deployments, ReplicaSets and StatefulSets.

A Deployment has one ReplicaSet for each template. The new one has as many pods as are ready so far
and `maxSurge` more; the old ones together have as many as are missing, and pods that are not ready
go first. Pods of a StatefulSet have fixed names and claims of their own. A name can be used again
once its last pod is gone. Unless the set says `Parallel`, a pod is created when all before it are
ready, and pods are deleted from the end, one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import ceil
from typing import Any

from resettle.testing.builders import Object, merge_objects
from resettle.testing.controllers.observed import ObservedCluster
from resettle.testing.controllers.writes import (
    Later,
    Put,
    Write,
    change,
    controller_reference,
    delete_object,
    format_time,
    free_name,
    is_active,
    is_ready,
    is_terminating,
    new_pod,
    phase,
    status_of,
    template_hash,
)

HASH = "pod-template-hash"


def deployments(observed: ObservedCluster) -> Iterator[Write | Later]:
    """The ReplicaSets that are missing, their sizes, and what is so."""
    for owner in observed.all("Deployment"):
        template = owner["spec"]["template"]
        mark = template_hash(template)
        sets = observed.owned_by(owner, "ReplicaSet")
        new = next(
            (
                replica_set
                for replica_set in sets
                if replica_set["metadata"]["labels"].get(HASH) == mark
            ),
            None,
        )
        old = [replica_set for replica_set in sets if replica_set is not new]
        if new is None:
            size = 0 if any(_size(old_set) for old_set in old) else _desired_replicas(owner)
            yield Put(_replica_set(owner, mark, size))
            continue
        yield from _resize(owner, new, old, observed)
        yield from status_of(owner, _deployment_status(owner, new, sets, observed))


def _resize(
    owner: Object, new: Object, old: list[Object], observed: ObservedCluster
) -> Iterator[Write]:
    wanted, serving = _desired_replicas(owner), sum(map(is_ready, _pods(new, observed)))
    left = sum(map(_size, old))
    size, keep = wanted, max(min(left, wanted - serving), 0)
    if _recreates(owner) and (left or any(observed.owned_by(old_set) for old_set in old)):
        size, keep = 0, 0
    elif left:
        size = min(wanted, max(_size(new), serving + _surge(owner)))
    if _size(new) != size:
        yield change(new, {"spec": {"replicas": size}})
    for old_set in sorted(old, key=lambda old_set: old_set["metadata"]["name"]):
        share = min(_size(old_set), sum(map(is_ready, _pods(old_set, observed))), keep)
        keep -= share
        if _size(old_set) != share:
            yield change(old_set, {"spec": {"replicas": share}})


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
            "ownerReferences": controller_reference(owner),
        },
        "spec": {
            "replicas": size,
            "selector": merge_objects(spec.get("selector") or {}, {"matchLabels": {HASH: mark}}),
            "template": merge_objects(spec["template"], {"metadata": {"labels": {HASH: mark}}}),
        },
    }


def _desired_replicas(owner: Object) -> int:
    return int(owner["spec"].get("replicas", 1))


def _size(replica_set: Object) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def _pods(replica_set: Object, observed: ObservedCluster) -> list[Object]:
    return [pod for pod in observed.owned_by(replica_set) if is_active(pod)]


def _recreates(owner: Object) -> bool:
    return (owner["spec"].get("strategy") or {}).get("type") == "Recreate"


def _surge(owner: Object) -> int:
    rolling = (owner["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    return max(portion(rolling.get("maxSurge", "25%"), _desired_replicas(owner)), 1)


def portion(amount: Any, whole: int) -> int:
    """`3`, or `25%` of the whole rounded up."""
    text = str(amount)
    return ceil(int(text[:-1]) * whole / 100) if text.endswith("%") else int(text)


def _deployment_status(
    owner: Object, new: Object, sets: list[Object], observed: ObservedCluster
) -> Object:
    pods = [pod for replica_set in sets for pod in _pods(replica_set, observed)]
    serving = sum(map(is_ready, pods))
    return {
        "replicas": len(pods),
        "updatedReplicas": len(_pods(new, observed)),
        "readyReplicas": serving,
        "availableReplicas": serving,
        "unavailableReplicas": max(_desired_replicas(owner) - serving, 0),
        "observedGeneration": owner["metadata"].get("generation", 1),
    }


_COST = "controller.kubernetes.io/pod-deletion-cost"


def replica_sets(observed: ObservedCluster) -> Iterator[Write | Later]:
    """The pods that are missing, and the deletion of those that are too many, and what is so."""
    for kind in ("ReplicaSet", "ReplicationController"):
        for owner in observed.all(kind):
            pods = [pod for pod in observed.owned_by(owner) if is_active(pod)]
            wanted = int(owner["spec"].get("replicas", 1))
            yield from _create_pods(owner, wanted - len(pods), observed)
            yield from _delete_surplus(pods, len(pods) - wanted, observed)
            yield from status_of(owner, _replica_set_status(owner, pods))


def _create_pods(owner: Object, count: int, observed: ObservedCluster) -> Iterator[Write]:
    taken = {pod["metadata"]["name"] for pod in observed.owned_by(owner)}
    for _ in range(count):
        name = free_name(owner, taken, observed)
        taken.add(name)
        yield Put(new_pod(owner, name, observed))


def _delete_surplus(pods: list[Object], count: int, observed: ObservedCluster) -> Iterator[Write]:
    if count <= 0:
        return
    company = Counter(pod["spec"].get("nodeName", "") for pod in pods)
    for pod in sorted(pods, key=lambda pod: _deletion_order(pod, company))[:count]:
        yield from delete_object(pod, observed.now)


def _deletion_order(pod: Object, company: Counter[str]) -> tuple[Any, ...]:
    """What is given up first: waiting, not ready, cheap, one of many on its node, young."""
    node, meta = pod["spec"].get("nodeName", ""), pod["metadata"]
    cost = int((meta.get("annotations") or {}).get(_COST, 0))
    age = meta.get("creationTimestamp", "")
    place = (bool(node), phase(pod) == "Running", is_ready(pod), cost, -company[node])
    return (*place, _backwards(age), meta["name"])


def _backwards(text: str) -> tuple[int, ...]:
    """A key that puts the later of two times first."""
    return tuple(-ord(letter) for letter in text)


def _replica_set_status(owner: Object, pods: list[Object]) -> Object:
    serving = sum(map(is_ready, pods))
    return {
        "replicas": len(pods),
        "readyReplicas": serving,
        "availableReplicas": serving,
        "observedGeneration": owner["metadata"].get("generation", 1),
    }


REVISION = "controller-revision-hash"


def stateful_sets(observed: ObservedCluster) -> Iterator[Write | Later]:
    """Claims and pods that are missing, and the deletion of those that are too many or outdated."""
    for owner in observed.all("StatefulSet"):
        mine = {pod["metadata"]["name"]: pod for pod in observed.owned_by(owner)}
        wanted = int(owner["spec"].get("replicas", 1))
        names = [f"{owner['metadata']['name']}-{i}" for i in range(wanted)]
        yield from _changes(owner, names, mine, observed)
        yield from status_of(owner, _stateful_set_status(owner, mine))


def _changes(
    owner: Object, names: list[str], mine: dict[str, Object], observed: ObservedCluster
) -> Iterator[Write]:
    together = owner["spec"].get("podManagementPolicy") == "Parallel"
    for number, name in enumerate(names):
        yield from _claims(owner, name, observed)
        pod = mine.get(name)
        if pod is None:
            yield Put(_pod(owner, name, number, observed))
        elif phase(pod) in ("Succeeded", "Failed") and not is_terminating(pod):
            yield from delete_object(pod, observed.now)
        if not together and (pod is None or not is_ready(pod) or is_terminating(pod)):
            return
    extra = sorted((name for name in mine if name not in names), key=_number, reverse=True)
    for name in extra if together else extra[:1]:
        if not is_terminating(mine[name]):
            yield from delete_object(mine[name], observed.now)
    if extra or any(is_terminating(pod) or not is_ready(pod) for pod in mine.values()):
        return
    revision = template_hash(owner["spec"]["template"])
    for name in reversed(names):
        if name in mine and mine[name]["metadata"]["labels"].get(REVISION) != revision:
            yield from delete_object(mine[name], observed.now)
            return


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _pod(owner: Object, name: str, number: int, observed: ObservedCluster) -> Object:
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(number),
        REVISION: template_hash(owner["spec"]["template"]),
    }
    kept = (owner["spec"]["template"]["spec"].get("volumes")) or []
    mounted = [
        {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}}
        for claim in _claim_names(owner)
    ]
    spec = {"hostname": name, "volumes": [*kept, *mounted]} if mounted else {"hostname": name}
    return new_pod(owner, name, observed, labels=labels, spec=spec)


def _claim_names(owner: Object) -> list[str]:
    return [claim["metadata"]["name"] for claim in owner["spec"].get("volumeClaimTemplates") or ()]


def _claims(owner: Object, name: str, observed: ObservedCluster) -> Iterator[Write]:
    """The claims of one pod that are not there yet; they outlive the pod, and the set."""
    space = owner["metadata"].get("namespace", "default")
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        called = f"{template['metadata']['name']}-{name}"
        if observed.get("PersistentVolumeClaim", called, space) is None:
            yield Put(
                merge_objects(
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
                            "creationTimestamp": format_time(observed.now),
                        }
                    },
                )
            )


def _stateful_set_status(owner: Object, mine: dict[str, Object]) -> Object:
    serving = sum(is_ready(pod) and not is_terminating(pod) for pod in mine.values())
    return {
        "replicas": len(mine),
        "readyReplicas": serving,
        "availableReplicas": serving,
        "currentReplicas": len(mine),
        "observedGeneration": owner["metadata"].get("generation", 1),
    }
