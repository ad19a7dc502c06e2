"""What pods on a node request together, and how that changes as they come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resettle.model.pod import Pod
from resettle.model.quantity import NANO


def requested_by(pods: Sequence[Pod]) -> dict[str, int]:
    """What these pods ask for together, in nano units, `pods` being their number."""
    used: dict[str, int] = {"pods": len(pods) * NANO}
    for pod in pods:
        for name, amount in pod.template.spec.demand.requests.items():
            if name != "pods" and amount:
                used[name] = used.get(name, 0) + amount
    return used


def requests_after(
    before: Mapping[str, int], came: Sequence[Pod], left: Sequence[Pod]
) -> dict[str, int]:
    """What is requested once some pods have come and others left."""
    used = dict(before)
    for pods, sign in ((came, 1), (left, -1)):
        for name, amount in requested_by(pods).items():
            used[name] = used.get(name, 0) + sign * amount
    return {name: amount for name, amount in used.items() if amount or name == "pods"}
