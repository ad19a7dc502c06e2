"""StatefulSets: pods with names that come back, each with claims of its own.

A name is free again only once its last bearer is gone. Unless the set says `Parallel`, a pod comes
when all before it serve, and pods go from the end, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from resettle.testing.life.births import hashed, leaving, newborn, phase, ready
from resettle.testing.life.moments import told_as
from resettle.testing.life.sight import Sight
from resettle.testing.life.writes import Later, Put, Write, farewell, status_of
from resettle.testing.objects import Object, merged

REVISION = "controller-revision-hash"


def stateful_sets(seen: Sight) -> Iterator[Write | Later]:
    """Claims and pods that are missing, farewells to those that are too many or outdated."""
    for owner in seen.all("StatefulSet"):
        mine = {pod["metadata"]["name"]: pod for pod in seen.owned_by(owner)}
        wanted = int(owner["spec"].get("replicas", 1))
        names = [f"{owner['metadata']['name']}-{i}" for i in range(wanted)]
        yield from _changes(owner, names, mine, seen)
        yield from status_of(owner, _status(owner, mine))


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


def _status(owner: Object, mine: dict[str, Object]) -> Object:
    serving = sum(ready(pod) and not leaving(pod) for pod in mine.values())
    return {
        "replicas": len(mine),
        "readyReplicas": serving,
        "availableReplicas": serving,
        "currentReplicas": len(mine),
        "observedGeneration": owner["metadata"].get("generation", 1),
    }
