"""Disruption budgets from cycle to cycle: what they allow follows how many of their pods run.

The disruption controller would write the new status. Here the difference is reckoned: a covered pod
that finds no node is one healthy pod less, one that comes in at last is one more.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from resettle.model.changes import NOTHING, Change
from resettle.model.node import Budget
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot


def reckoned(snapshot: Snapshot, departed: Iterable[Pod], arrived: Iterable[Pod]) -> Change[Budget]:
    """The budgets whose count of healthy pods differs once these pods have gone and come."""
    gained: dict[str, int] = {}
    for pods, each in ((departed, -1), (arrived, 1)):
        for pod in pods:
            if pod.state.ready and not pod.terminating:
                for budget in snapshot.budgets_of(pod):
                    gained[budget.key] = gained.get(budget.key, 0) + each
    changed = tuple(_with(snapshot.budgets[key], more) for key, more in gained.items() if more)
    return Change(changed) if changed else NOTHING


def _with(budget: Budget, more: int) -> Budget:
    """The budget with so many more healthy pods, or fewer."""
    healthy = max(budget.current_healthy + more, 0)
    # A budget that tells what it desires tells by how much it falls short as well.
    allowed = (
        healthy - budget.desired_healthy
        if budget.desired_healthy
        else (budget.disruptions_allowed + more)
    )
    return structs.replace(budget, current_healthy=healthy, disruptions_allowed=max(allowed, 0))
