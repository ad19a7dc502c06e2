"""Limits of a cycle and disruption budgets: what is used of them, and what they refuse.

Limits are checked in the order total, nodes, node, namespace; budgets after them, as the API server
would: a plan that left budgets out could not equal its run. One set of counts serves all profiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import ceil

from msgspec import structs

from resettle.framework.plan import Spent
from resettle.framework.verdict import Limit, Refusal
from resettle.model.objects import Budget
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.policy.document import Limits

LIMITS, BUDGET = "limits", "budget"
"""What a refusal names as its source."""
NOT_SERVING = ("Pending", "Succeeded", "Failed")
_NO_LIMITS = Limits()


class LimitCounts:
    """Pods counted as limits count them: all together, by node, by namespace."""

    def __init__(self) -> None:
        self.total = 0
        self.nodes: Counter[str] = Counter()
        self.namespaces: Counter[str] = Counter()

    def add(self, pod: Pod, times: int = 1) -> None:
        """Count a pod; minus one time takes it back. A pod without a node counts for no node."""
        self.total += times
        self.namespaces[pod.namespace] += times
        if pod.node:
            self.nodes[pod.node] += times


class CycleLimits:
    """How many pods have left, and which limit of the policy refuses one more."""

    def __init__(self, limits: Limits, pods: int, nodes: int) -> None:
        self._limits = limits
        self._unlimited = limits == _NO_LIMITS
        self._most_pods, self._pods_where = _most_pods(limits, pods)
        self._most_nodes, self._nodes_where = _most_nodes(limits, nodes)
        self._counts = LimitCounts()
        self._awaited = LimitCounts()
        """Those of the counted that left in an earlier round, and that the plan has not come to."""

    def count(self, pod: Pod) -> None:
        """Count a pod that leaves."""
        self._counts.add(pod)

    def count_awaited(self, pod: Pod) -> None:
        """Count a pod that left in an earlier round, and that the plan has not come to yet."""
        self._counts.add(pod)
        self._awaited.add(pod)

    def end_awaiting(self, pod: Pod) -> None:
        """Note that the plan has come to a pod that left in an earlier round."""
        self._awaited.add(pod, -1)

    def refusal(self, pod: Pod) -> Refusal | None:
        """The first limit that one more move of this pod would exceed.

        A refusal names its limit, at which a plugin may stop, only if the limit is reached without
        the moves from an earlier round which this plan has not come to yet: a plugin that stopped
        sooner would not come to them, and would plan as if those pods had stayed.
        """
        if self._unlimited:
            return None
        because_of_awaited = None
        for refusal in self.refusals(pod):
            if not self._is_open_without_awaited(refusal.limit, pod):
                return refusal
            because_of_awaited = because_of_awaited or structs.replace(refusal, limit=None)
        return because_of_awaited

    def refusals(self, pod: Pod) -> Iterator[Refusal]:
        """Every limit that one more move of this pod would exceed."""
        limits, counts = self._limits, self._counts
        if self._most_pods is not None and counts.total >= self._most_pods:
            yield _limit_reached(Limit.TOTAL, self._pods_where, self._most_pods)
        most, nodes = self._most_nodes, counts.nodes
        if most is not None and len(nodes) >= most and pod.node and pod.node not in nodes:
            many = "1 node" if most == 1 else f"{most} nodes"
            yield _limit_reached(Limit.NODES, self._nodes_where, many)
        if limits.node is not None and pod.node and nodes[pod.node] >= limits.node:
            yield _limit_reached(Limit.NODE, f"node {pod.node}", limits.node)
        count = counts.namespaces[pod.namespace]
        if limits.namespace is not None and count >= limits.namespace:
            yield _limit_reached(Limit.NAMESPACE, f"namespace {pod.namespace}", limits.namespace)

    def _is_open_without_awaited(self, limit: Limit | None, pod: Pod) -> bool:
        """Whether a limit that is reached would not be, were the awaited pods not counted."""
        counts, awaited = self._counts, self._awaited
        if not awaited.total:
            return False
        match limit:
            case Limit.TOTAL:
                count, most = counts.total - awaited.total, self._most_pods
            case Limit.NODES:
                count, most = len(counts.nodes - awaited.nodes), self._most_nodes
            case Limit.NODE:
                count, most = counts.nodes[pod.node] - awaited.nodes[pod.node], self._limits.node
            case _:
                count = counts.namespaces[pod.namespace] - awaited.namespaces[pod.namespace]
                most = self._limits.namespace
        return most is not None and count < most

    @property
    def spent(self) -> tuple[Spent, ...]:
        """How much of each limit is used; of one for each node or namespace, by the busiest."""
        counts = self._counts
        used = (
            (Limit.TOTAL, self._pods_where, counts.total, self._most_pods),
            (Limit.NODES, self._nodes_where, len(counts.nodes), self._most_nodes),
            (Limit.NODE, *_busiest("node", counts.nodes), self._limits.node),
            (Limit.NAMESPACE, *_busiest("namespace", counts.namespaces), self._limits.namespace),
        )
        return tuple(
            Spent(limit, where, count, most)
            for limit, where, count, most in used
            if most is not None
        )


class DisruptionBudgets:
    """What the plan takes from disruption budgets, and what the API server refuses for them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._budgets_of = snapshot.budgets_of
        self._spent: dict[Budget, int] = {}

    def spend(self, pod: Pod) -> None:
        """Take a disruption from each budget that pays for the pod's eviction."""
        for budget in _paying(pod, self._covering(pod)):
            self._spent[budget] = self._spent.get(budget, 0) + 1

    def refusal(self, pod: Pod) -> Refusal | None:
        """The refusal that the API server would answer with on behalf of a budget."""
        covering = self._covering(pod)
        if not covering:
            return None
        if len(covering) > 1:
            names = ", ".join(budget.key for budget in covering)
            return Refusal(
                "several-budgets",
                "is covered by several budgets ({budgets}), which evictions do not support",
                BUDGET,
                {"budgets": names},
            )
        for budget in _paying(pod, covering):
            if not budget.up_to_date:
                return Refusal(
                    "budget-not-ready",
                    "lags behind its spec",
                    BUDGET,
                    {"budget": budget.key},
                    subject="the status of budget {budget}",
                )
            if budget.disruptions_allowed - self._spent.get(budget, 0) <= 0:
                return Refusal(
                    "budget",
                    "allows no more disruptions now",
                    BUDGET,
                    {"budget": budget.key},
                    subject="budget {budget}",
                )
        return None

    def _covering(self, pod: Pod) -> tuple[Budget, ...]:
        """Budgets that the API server asks about the pod; none for a pod that does not serve."""
        covering = self._budgets_of(pod)
        if covering and (pod.terminating or pod.state.phase in NOT_SERVING):
            return ()
        return covering


def _paying(pod: Pod, covering: tuple[Budget, ...]) -> tuple[Budget, ...]:
    """Budgets that pay for the eviction; a pod that is not ready may cost nothing."""
    if not covering or pod.state.ready:
        return covering
    return tuple(
        budget
        for budget in covering
        if not budget.always_allow_unhealthy
        and not budget.current_healthy >= budget.desired_healthy > 0
    )


def share(percent: float | None, whole: int) -> int | None:
    """This percentage of the whole, rounded up and at least one; None without a percentage."""
    if percent is None:
        return None
    # Slightly less than the product, so that a share that is a whole number is not rounded up.
    return max(1, ceil(percent * whole / 100 - 1e-9))


def _most_pods(limits: Limits, pods: int) -> tuple[int | None, str]:
    """How many pods the cycle may move, and where that number comes from."""
    part = share(limits.percent_of_pods, pods)
    if part is None or (limits.total is not None and limits.total <= part):
        return limits.total, "this cycle"
    return part, f"this cycle ({limits.percent_of_pods:g}% of {pods} pods)"


def _most_nodes(limits: Limits, nodes: int) -> tuple[int | None, str]:
    """How many nodes pods may leave, and where that number comes from."""
    part = share(limits.percent_of_nodes, nodes)
    return part, f"this cycle ({limits.percent_of_nodes or 0:g}% of {nodes})"


def _busiest(kind: str, counts: Mapping[str, int]) -> tuple[str, int]:
    name, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    return (f"{kind} {name}" if name else f"each {kind}"), count


def _limit_reached(limit: Limit, where: str, count: int | str) -> Refusal:
    return Refusal(
        f"limit-{limit}",
        "is reached",
        LIMITS,
        {"count": count, "where": where},
        limit,
        subject="the limit of {count} for {where}",
    )
