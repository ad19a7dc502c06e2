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
from resettle.testing.controllers.observed import ObservedCluster, controller_of
from resettle.testing.controllers.replicas import portion
from resettle.testing.controllers.writes import (
    Later,
    Write,
    change,
    format_time,
    is_ready,
    is_terminating,
    parse_time,
)

DISRUPTION_TIMEOUT = timedelta(minutes=2)
"""How long an evicted pod is taken to be as good as gone, though it has not begun to leave."""
_SCALED = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})


class PodCounts(Struct, frozen=True):
    """What a budget's pods amount to."""

    expected: int
    desired: int
    known: bool = True
    """Whether every owner could be asked."""


def budgets(observed: ObservedCluster) -> Iterator[Write | Later]:
    """The statuses that are not as they should be."""
    for budget in observed.all("PodDisruptionBudget"):
        pods = selected_pods(budget, observed)
        disrupted, later = _still_leaving(budget, pods, observed)
        if later is not None:
            yield later
        yield from _update_status(budget, _status(budget, pods, disrupted, observed))


def selected_pods(budget: Object, observed: ObservedCluster) -> list[Object]:
    """The pods of the budget's namespace that its selector selects."""
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return []
    chosen = msgspec.convert(selector, LabelSelector).compile()
    if chosen is None:
        return []
    alike = observed.pods_alike(budget["metadata"].get("namespace", "default"))
    return [pod for labels, pods in alike.items() if chosen.matches(dict(labels)) for pod in pods]


def count_pods(budget: Object, pods: list[Object], observed: ObservedCluster) -> PodCounts:
    """How many pods there should be, and how many of them have to serve."""
    spec = budget.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is None and not str(least).endswith("%"):
        return PodCounts(len(pods), int(least or 0) if least is not None else 0)
    expected = _wanted_by_owners(pods, observed)
    if expected is None:
        return PodCounts(0, 0, known=False)
    if most is not None:
        return PodCounts(expected, max(expected - portion(most, expected), 0))
    return PodCounts(expected, portion(least, expected))


def _wanted_by_owners(pods: list[Object], observed: ObservedCluster) -> int | None:
    """How many pods the owners want in all; None if one of them has no number to tell."""
    sizes: dict[str, int] = {}
    for pod in pods:
        reference = controller_of(pod)
        if reference is None:
            continue
        space = pod["metadata"]["namespace"]
        owner = _owner(reference, space, observed)
        above = controller_of(owner) if owner else None
        if owner and above and above["kind"] == "Deployment":
            owner = _owner(above, space, observed) or owner
        if owner is None:
            return None
        sizes[owner["metadata"]["uid"]] = int(owner["spec"].get("replicas", 1))
    return sum(sizes.values())


def _owner(reference: Object, namespace: str, observed: ObservedCluster) -> Object | None:
    if reference["kind"] not in _SCALED | {"Deployment"}:
        return None
    owner = observed.get(reference["kind"], reference["name"], namespace)
    return owner if owner and owner["metadata"]["uid"] == reference["uid"] else None


def _still_leaving(
    budget: Object, pods: list[Object], observed: ObservedCluster
) -> tuple[dict[str, str], Later | None]:
    """Evicted pods that have yet to begin to leave, and when the first of them is given up on."""
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    kept: dict[str, str] = {}
    for name, since in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
        pod = by_name.get(name)
        if (
            pod is not None
            and not is_terminating(pod)
            and parse_time(since) + DISRUPTION_TIMEOUT > observed.now
        ):
            kept[name] = since
    ends = [parse_time(since) + DISRUPTION_TIMEOUT for since in kept.values()]
    return kept, Later(min(ends)) if ends else None


def _status(
    budget: Object, pods: list[Object], disrupted: dict[str, str], observed: ObservedCluster
) -> Object:
    count = count_pods(budget, pods, observed)
    healthy = sum(
        is_ready(pod) and not is_terminating(pod) and pod["metadata"]["name"] not in disrupted
        for pod in pods
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
        "conditions": _conditions(budget, count, allowed, generation, observed),
    }


def _conditions(
    budget: Object, count: PodCounts, allowed: int, generation: int, observed: ObservedCluster
) -> list[Object]:
    status = "True" if allowed else "False"
    reason = "SufficientPods" if allowed else "InsufficientPods"
    if not count.known:
        reason = "SyncFailed"
    before = (budget.get("status") or {}).get("conditions") or ()
    same: Object = next(
        (condition for condition in before if condition["type"] == "DisruptionAllowed"), {}
    )
    kept = same.get("status") == status and same.get("reason") == reason
    return [
        *(condition for condition in before if condition["type"] != "DisruptionAllowed"),
        {
            "type": "DisruptionAllowed",
            "status": status,
            "reason": reason,
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": same["lastTransitionTime"] if kept else format_time(observed.now),
        },
    ]


def _update_status(budget: Object, status: Object) -> Iterator[Write]:
    """The change to this status; a merge takes names off a map only where they are null."""
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
