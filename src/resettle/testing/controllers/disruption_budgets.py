"""Disruption budgets: how many pods they want, how many serve, and how many may go.

| budget               | counts on                        | wants                              |
|----------------------|----------------------------------|------------------------------------|
| `minAvailable: 3`    | the pods that are there          | 3                                  |
| `minAvailable: 50%`  | what the pods' owners want       | half of that, rounded up           |
| `maxUnavailable: 1`  | what the pods' owners want       | all but one                        |
| `maxUnavailable: 30%`| what the pods' owners want       | all but a third, that rounded up   |
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec
from msgspec import Struct

from resettle.model.selectors import LabelSelector
from resettle.testing.builders import Object
from resettle.testing.controllers.observed import Sight, controller_of
from resettle.testing.controllers.replicas import portion
from resettle.testing.controllers.writes import (
    Later,
    Write,
    change,
    leaving,
    read_as,
    ready,
    told_as,
)

PATIENCE = timedelta(minutes=2)
"""How long an evicted pod is taken to be as good as gone, though it has not begun to leave."""
_SCALED = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})


class Counted(Struct, frozen=True):
    """What a budget's pods amount to."""

    expected: int
    desired: int
    known: bool = True
    """Whether every owner could be asked."""


def budgets(seen: Sight) -> Iterator[Write | Later]:
    """The statuses that are not as they should be."""
    for budget in seen.all("PodDisruptionBudget"):
        pods = covered(budget, seen)
        disrupted, later = _still_leaving(budget, pods, seen)
        if later is not None:
            yield later
        yield from _corrected(budget, _status(budget, pods, disrupted, seen))


def covered(budget: Object, seen: Sight) -> list[Object]:
    """The pods of the budget's namespace that its selector selects."""
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return []
    chosen = msgspec.convert(selector, LabelSelector).compiled()
    if chosen is None:
        return []
    alike = seen.pods_alike(budget["metadata"].get("namespace", "default"))
    return [pod for labels, pods in alike.items() if chosen.matches(dict(labels)) for pod in pods]


def counted(budget: Object, pods: list[Object], seen: Sight) -> Counted:
    """How many pods there should be, and how many of them have to serve."""
    spec = budget.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is None and not str(least).endswith("%"):
        return Counted(len(pods), int(least or 0) if least is not None else 0)
    expected = _wanted_by_owners(pods, seen)
    if expected is None:
        return Counted(0, 0, known=False)
    if most is not None:
        return Counted(expected, max(expected - portion(most, expected), 0))
    return Counted(expected, portion(least, expected))


def _wanted_by_owners(pods: list[Object], seen: Sight) -> int | None:
    """How many pods the owners want in all; None if one of them has no number to tell."""
    sizes: dict[str, int] = {}
    for pod in pods:
        reference = controller_of(pod)
        if reference is None:
            continue
        space = pod["metadata"]["namespace"]
        owner = _owner(reference, space, seen)
        above = controller_of(owner) if owner else None
        if owner and above and above["kind"] == "Deployment":
            owner = _owner(above, space, seen) or owner
        if owner is None:
            return None
        sizes[owner["metadata"]["uid"]] = int(owner["spec"].get("replicas", 1))
    return sum(sizes.values())


def _owner(reference: Object, namespace: str, seen: Sight) -> Object | None:
    if reference["kind"] not in _SCALED | {"Deployment"}:
        return None
    found = seen.get(reference["kind"], reference["name"], namespace)
    return found if found and found["metadata"]["uid"] == reference["uid"] else None


def _still_leaving(
    budget: Object, pods: list[Object], seen: Sight
) -> tuple[dict[str, str], Later | None]:
    """Evicted pods that have yet to begin to leave, and when the first of them is given up on."""
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    kept: dict[str, str] = {}
    for name, since in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
        pod = by_name.get(name)
        if pod is not None and not leaving(pod) and read_as(since) + PATIENCE > seen.now:
            kept[name] = since
    ends = [read_as(since) + PATIENCE for since in kept.values()]
    return kept, Later(min(ends)) if ends else None


def _status(budget: Object, pods: list[Object], disrupted: dict[str, str], seen: Sight) -> Object:
    count = counted(budget, pods, seen)
    healthy = sum(
        ready(pod) and not leaving(pod) and pod["metadata"]["name"] not in disrupted for pod in pods
    )
    allowed = max(healthy - count.desired, 0) if count.expected > 0 and count.known else 0
    generation = budget["metadata"].get("generation", 1)
    return {
        "expectedPods": count.expected,
        "desiredHealthy": count.desired,
        "currentHealthy": healthy,
        "disruptionsAllowed": allowed,
        "disruptedPods": disrupted,
        "observedGeneration": generation,
        "conditions": _conditions(budget, count, allowed, generation, seen),
    }


def _conditions(
    budget: Object, count: Counted, allowed: int, generation: int, seen: Sight
) -> list[Object]:
    status = "True" if allowed else "False"
    reason = "SufficientPods" if allowed else "InsufficientPods"
    if not count.known:
        reason = "SyncFailed"
    before = (budget.get("status") or {}).get("conditions") or ()
    same: Object = next((it for it in before if it["type"] == "DisruptionAllowed"), {})
    kept = same.get("status") == status and same.get("reason") == reason
    return [
        *(it for it in before if it["type"] != "DisruptionAllowed"),
        {
            "type": "DisruptionAllowed",
            "status": status,
            "reason": reason,
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": same["lastTransitionTime"] if kept else told_as(seen.now),
        },
    ]


def _corrected(budget: Object, status: Object) -> Iterator[Write]:
    """The change to this status; a merge takes names off a map only where it is told to."""
    now = budget.get("status") or {}
    before = now.get("disruptedPods") or {}
    differs = {
        key: value
        for key, value in status.items()
        if (before if key == "disruptedPods" else now.get(key)) != value
    }
    if "disruptedPods" in differs:
        differs["disruptedPods"] = {**dict.fromkeys(before), **status["disruptedPods"]}
    if differs:
        yield change(budget, {"status": differs})
