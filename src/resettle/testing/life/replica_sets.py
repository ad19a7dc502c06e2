"""ReplicaSets: as many pods as wanted, whoever takes one away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from resettle.testing.life.births import active, free_name, newborn, phase, ready
from resettle.testing.life.sight import Sight
from resettle.testing.life.writes import Later, Put, Write, farewell, status_of
from resettle.testing.objects import Object

_COST = "controller.kubernetes.io/pod-deletion-cost"


def replica_sets(seen: Sight) -> Iterator[Write | Later]:
    """The pods that are missing, farewells to those that are too many, and what is so."""
    for kind in ("ReplicaSet", "ReplicationController"):
        for owner in seen.all(kind):
            pods = [pod for pod in seen.owned_by(owner) if active(pod)]
            wanted = int(owner["spec"].get("replicas", 1))
            yield from _made(owner, wanted - len(pods), seen)
            yield from _too_many(pods, len(pods) - wanted, seen)
            yield from status_of(owner, _status(owner, pods))


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


def _status(owner: Object, pods: list[Object]) -> Object:
    serving = sum(map(ready, pods))
    return {
        "replicas": len(pods),
        "readyReplicas": serving,
        "availableReplicas": serving,
        "observedGeneration": owner["metadata"].get("generation", 1),
    }
