"""The books of a cycle: what has been admitted, and what limits and budgets still allow.

One set of books serves all profiles. Limits are checked in the order total, nodes, node, namespace;
budgets last, as the API server would: a plan that overlooked them could not equal its run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

from msgspec import structs

from resettle.framework.plan import Move, Spent
from resettle.framework.verdict import Limit, Refusal
from resettle.model.node import Budget
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.policy.document import Limits

NOT_SERVING = ("Pending", "Succeeded", "Failed")
_NO_LIMITS = Limits()


class Books:
    """Admitted moves, and counts against the limits."""

    def __init__(self, limits: Limits, snapshot: Snapshot) -> None:
        self._limits = limits
        self._unlimited = limits == _NO_LIMITS
        self._snapshot = snapshot
        self._most_pods, self._pods_where = _most_pods(limits, len(snapshot.population))
        self._most_nodes, self._nodes_where = _most_nodes(limits, len(snapshot.nodes))
        self._total = 0
        self._per_node: dict[str, int] = {}
        self._per_namespace: dict[str, int] = {}
        self._spent: dict[Budget, int] = {}
        self._leaving: set[Pod] = set()
        self.moves: list[Move] = []
        if snapshot.moving:
            for pod in snapshot.pods:
                if pod.uid in snapshot.moving:
                    self.count(pod)

    def admitted(self, pod: Pod) -> bool:
        """Whether a move of the pod stands in the plan."""
        return pod in self._leaving

    def seen(self, pod: Pod) -> Pod:
        """The pod as the rest of the cycle sees it: terminating once it is admitted."""
        return structs.replace(pod, terminating=True) if pod in self._leaving else pod

    def admit(self, move: Move) -> None:
        """Enters a move, and spends what it costs."""
        pod = move.pod
        self.moves.append(move)
        self._leaving.add(pod)
        if move.lands_on:
            self._snapshot.outlook.move(pod, move.lands_on)
        self.count(pod)
        for budget in self._debited(pod):
            self._spent[budget] = self._spent.get(budget, 0) + 1

    def count(self, pod: Pod) -> None:
        """Counts a pod towards the limits."""
        self._total += 1
        self._per_namespace[pod.namespace] = self._per_namespace.get(pod.namespace, 0) + 1
        if pod.node:
            self._per_node[pod.node] = self._per_node.get(pod.node, 0) + 1

    def over_limit(self, pod: Pod) -> Refusal | None:
        """The first limit that one more move of this pod would break."""
        return None if self._unlimited else next(self.over_limits(pod), None)

    def over_limits(self, pod: Pod) -> Iterator[Refusal]:
        """Every limit that one more move of this pod would break."""
        limits, most, left = self._limits, self._most_nodes, self._per_node
        if self._most_pods is not None and self._total >= self._most_pods:
            yield _limit_reached(Limit.TOTAL, self._pods_where, self._most_pods)
        if most is not None and len(left) >= most and pod.node and pod.node not in left:
            many = "1 node" if most == 1 else f"{most} nodes"
            yield _limit_reached(Limit.NODES, self._nodes_where, many)
        if limits.node is not None and pod.node and left.get(pod.node, 0) >= limits.node:
            yield _limit_reached(Limit.NODE, f"node {pod.node}", limits.node)
        count = self._per_namespace.get(pod.namespace, 0)
        if limits.namespace is not None and count >= limits.namespace:
            yield _limit_reached(Limit.NAMESPACE, f"namespace {pod.namespace}", limits.namespace)

    @property
    def spent(self) -> tuple[Spent, ...]:
        """How much of each limit is used; of one for each node or namespace, by the busiest."""
        used = (
            (Limit.TOTAL, self._pods_where, self._total, self._most_pods),
            (Limit.NODES, self._nodes_where, len(self._per_node), self._most_nodes),
            (Limit.NODE, *_busiest("node", self._per_node), self._limits.node),
            (Limit.NAMESPACE, *_busiest("namespace", self._per_namespace), self._limits.namespace),
        )
        return tuple(
            Spent(limit, where, count, most)
            for limit, where, count, most in used
            if most is not None
        )

    def over_budget(self, pod: Pod) -> Refusal | None:
        """The refusal that the API server would answer with on behalf of a budget."""
        covering = self._covering(pod)
        if not covering:
            return None
        if len(covering) > 1:
            names = ", ".join(budget.key for budget in covering)
            return Refusal(
                "several-budgets",
                "is covered by several budgets ({budgets}), which evictions do not support",
                "budget",
                {"budgets": names},
            )
        for budget in self._debited(pod):
            if not budget.up_to_date:
                return Refusal(
                    "budget-not-ready",
                    "the status of budget {budget} lags behind its spec",
                    "budget",
                    {"budget": budget.key},
                )
            if budget.disruptions_allowed - self._spent.get(budget, 0) <= 0:
                return Refusal(
                    "budget",
                    "budget {budget} allows no more disruptions now",
                    "budget",
                    {"budget": budget.key},
                )
        return None

    def _covering(self, pod: Pod) -> tuple[Budget, ...]:
        """Budgets the API server would look at; it asks none for pods that do not serve."""
        covering = self._snapshot.budgets_of(pod)
        if covering and (pod.terminating or pod.state.phase in NOT_SERVING):
            return ()
        return covering

    def _debited(self, pod: Pod) -> tuple[Budget, ...]:
        """Budgets that pay for the move; a pod that is not ready may be free of charge."""
        covering = self._covering(pod)
        if not covering or pod.state.ready:
            return covering
        return tuple(
            budget
            for budget in covering
            if not budget.always_allow_unhealthy
            and not budget.current_healthy >= budget.desired_healthy > 0
        )


def _busiest(kind: str, counts: Mapping[str, int]) -> tuple[str, int]:
    name, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    return (f"{kind} {name}" if name else f"each {kind}"), count


def share(percent: float | None, whole: int) -> int | None:
    """So much of the whole, rounded up and at least one; None of no percentage."""
    if percent is None:
        return None
    # A hair less than the product, lest a share that is a whole number is rounded up beyond it.
    return max(1, ceil(percent * whole / 100 - 1e-9))


def _most_pods(limits: Limits, pods: int) -> tuple[int | None, str]:
    """How many pods the cycle may move, and where that comes from."""
    part = share(limits.percent_of_pods, pods)
    if part is None or (limits.total is not None and limits.total <= part):
        return limits.total, "this cycle"
    return part, f"this cycle ({limits.percent_of_pods:g}% of {pods} pods)"


def _most_nodes(limits: Limits, nodes: int) -> tuple[int | None, str]:
    """How many nodes pods may leave, and where that comes from."""
    part = share(limits.percent_of_nodes, nodes)
    return part, f"this cycle ({limits.percent_of_nodes or 0:g}% of {nodes})"


def _limit_reached(limit: Limit, where: str, count: int | str) -> Refusal:
    return Refusal(
        f"limit-{limit}",
        "the limit of {count} for {where} is reached",
        "limits",
        {"count": count, "where": where},
        limit,
    )
