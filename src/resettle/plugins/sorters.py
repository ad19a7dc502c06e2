"""Sorters: PrioritySort, AgeSort, UtilizationSort and DeletionCostSort say which pods go first.

Each serves `presort` (the order in which a strategy looks at pods) and `sort` (the order in which
it proposes them). Several in one list break each other's ties; pods that are still equal keep the
order the strategy had.
"""

from __future__ import annotations

from typing import Literal

from resettle.framework.plugin import Plugin
from resettle.framework.view import View
from resettle.model.pod import DELETION_COST, Pod, by_priority
from resettle.model.selectors import as_int64
from resettle.policy.args import Args


class AgeArgs(Args, frozen=True, kw_only=True):
    """Arguments of AgeSort."""

    order: Literal["OldestFirst", "YoungestFirst"] = "OldestFirst"
    """Which pods go first."""


class UtilizationArgs(Args, frozen=True, kw_only=True):
    """Arguments of UtilizationSort."""

    resource: str = "cpu"
    """The resource to compare."""
    order: Literal["LargestFirst", "SmallestFirst"] = "LargestFirst"
    """Which pods go first."""


def priority_key(args: Args, view: View, pod: Pod) -> tuple[object, ...]:
    """Lowest priority first, then lowest QoS class, then pods without prefer-no-eviction."""
    return by_priority(pod)


def age_key(args: AgeArgs, view: View, pod: Pod) -> float:
    """Oldest or youngest first; a pod without a creation time counts as just created."""
    age = (view.taken_at - (pod.created or view.taken_at)).total_seconds()
    return -age if args.order == "OldestFirst" else age


def utilization_key(args: UtilizationArgs, view: View, pod: Pod) -> int:
    """Those first that request the most, or the least, of one resource."""
    amount = pod.spec.requests.get(args.resource, 0)
    return -amount if args.order == "LargestFirst" else amount


def deletion_cost_key(args: Args, view: View, pod: Pod) -> int:
    """Cheapest to delete first, as its `pod-deletion-cost` annotation says; 0 without one."""
    return deletion_cost(pod)


def deletion_cost(pod: Pod) -> int:
    """What the pod's `pod-deletion-cost` annotation says; 0 without one."""
    return as_int64(pod.template.annotations.get(DELETION_COST, "")) or 0


PRIORITY = Plugin(name="PrioritySort", args=Args, presort=priority_key, sort=priority_key)
AGE = Plugin(name="AgeSort", args=AgeArgs, presort=age_key, sort=age_key)
UTILIZATION = Plugin(
    name="UtilizationSort", args=UtilizationArgs, presort=utilization_key, sort=utilization_key
)
DELETION_COST_SORT = Plugin(
    name="DeletionCostSort", args=Args, presort=deletion_cost_key, sort=deletion_cost_key
)
