"""What pods on a node request together, and how that changes as they come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import attrgetter

from resettle.model.pod import Demand, Pod
from resettle.model.quantity import NANO

_demand_of = attrgetter("template.spec.demand")


def requested_by(pods: Iterable[Pod]) -> dict[str, int]:
    """What these pods ask for together, in nano units, `pods` being their number."""
    # Pods of one demand are counted first and multiplied then: a node meets few distinct ones.
    demands: Counter[Demand] = Counter(map(_demand_of, pods))
    used: dict[str, int] = {"pods": sum(demands.values()) * NANO}
    for demand, times in demands.items():
        for name, amount in demand.requests.items():
            if name != "pods" and amount:
                used[name] = used.get(name, 0) + amount * times
    return used


def requests_after(
    before: Mapping[str, int], came: Iterable[Pod], left: Iterable[Pod]
) -> dict[str, int]:
    """What is requested once some pods have come and others left."""
    used = dict(before)
    for pods, sign in ((came, 1), (left, -1)):
        for name, amount in requested_by(pods).items():
            used[name] = used.get(name, 0) + sign * amount
    return {name: amount for name, amount in used.items() if amount or name == "pods"}
