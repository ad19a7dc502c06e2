"""The books of a cycle: what has been admitted, and what limits and budgets still allow.

One set of books serves all profiles. Limits are checked in the order total, nodes, node, namespace;
budgets last, as the API server would: a plan that overlooked them could not equal its run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

from msgspec import structs

from resettle.framework.aftermath import NOTHING_YET, Aftermath
from resettle.framework.plan import Move, Spent
from resettle.framework.tally import Tally
from resettle.framework.verdict import Limit, Refusal
from resettle.model.node import Budget
from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.policy.document import Limits

LIMITS, BUDGET = "limits", "budget"
"""Who refuses in the name of each."""
NOT_SERVING = ("Pending", "Succeeded", "Failed")
_NO_LIMITS = Limits()


class Books:
    """Admitted moves, and counts against the limits."""

    def __init__(
        self, limits: Limits, snapshot: Snapshot, aftermath: Aftermath = NOTHING_YET
    ) -> None:
        self._aftermath = aftermath
        self.redrawn = aftermath is not NOTHING_YET
        """Whether there was an earlier plan from the same snapshot."""
        self._limits = limits
        self._unlimited = limits == _NO_LIMITS
        self._snapshot = snapshot
        self._most_pods, self._pods_where = _most_pods(limits, len(snapshot.population))
        self._most_nodes, self._nodes_where = _most_nodes(limits, len(snapshot.nodes))
        self._left = Tally()
        self._ahead = Tally()
        """Those of them that left after an earlier plan, and that the draft has yet to meet."""
        self._spent: dict[Budget, int] = {}
        self._leaving: set[Pod] = set()
        self.moves: list[Move] = []
        if snapshot.moving:
            for pod in snapshot.pods:
                if pod.uid in snapshot.moving:
                    self.count(pod)
        for move in aftermath.made.values():
            self._spend(move.pod)
            self._ahead.add(move.pod)

    def admitted(self, pod: Pod) -> bool:
        """Whether a move of the pod stands in the plan."""
        return pod in self._leaving

    def seen(self, pod: Pod) -> Pod:
        """The pod as the rest of the cycle sees it: terminating once it is admitted."""
        return structs.replace(pod, terminating=True) if pod in self._leaving else pod

    def admit(self, move: Move) -> None:
        """Enters a move, and spends what it costs."""
        self.moves.append(move)
        self._spend(move.pod)
        self._leave(move)

    def left_before(self, pod: Pod) -> bool:
        """Whether the pod has left after an earlier plan of this cycle."""
        return pod.uid in self._aftermath.made or pod.uid in self._aftermath.left

    def meet(self, pod: Pod) -> bool:
        """Whether the draft meets a pod that left before; from now on it looks so."""
        made = self._aftermath.made.get(pod.uid)
        if made is None or pod in self._leaving:
            return False
        self._leave(made)
        self._ahead.add(pod, -1)
        return True

    def declined(self, pod: Pod) -> Refusal | None:
        """What was said when the pod was asked to leave after an earlier plan of this cycle."""
        return self._aftermath.declined.get(pod.uid)

    def _leave(self, move: Move) -> None:
        self._leaving.add(move.pod)
        if move.lands_on:
            self._snapshot.outlook.move(move.pod, move.lands_on)

    def _spend(self, pod: Pod) -> None:
        self.count(pod)
        for budget in self._debited(pod, self._covering(pod)):
            self._spent[budget] = self._spent.get(budget, 0) + 1

    def count(self, pod: Pod) -> None:
        """Counts a pod towards the limits."""
        self._left.add(pod)

    def over_limit(self, pod: Pod) -> Refusal | None:
        """The first limit that one more move of this pod would break.

        What is full only because of pods that the draft has yet to meet is no limit to stop at: a
        plugin that broke off here would never come to them, and reckon as if they had stayed.
        """
        if self._unlimited:
            return None
        promised = None
        for refusal in self.over_limits(pod):
            if not self._has_room_so_far(refusal.limit, pod):
                return refusal
            promised = promised or structs.replace(refusal, limit=None)
        return promised

    def _has_room_so_far(self, limit: Limit | None, pod: Pod) -> bool:
        """Whether a limit that is reached would not be without the pods yet to be met."""
        left, ahead = self._left, self._ahead
        if not ahead.total:
            return False
        match limit:
            case Limit.TOTAL:
                met, most = left.total - ahead.total, self._most_pods
            case Limit.NODES:
                met, most = len(left.nodes - ahead.nodes), self._most_nodes
            case Limit.NODE:
                met, most = left.nodes[pod.node] - ahead.nodes[pod.node], self._limits.node
            case _:
                met = left.namespaces[pod.namespace] - ahead.namespaces[pod.namespace]
                most = self._limits.namespace
        return most is not None and met < most

    def over_limits(self, pod: Pod) -> Iterator[Refusal]:
        """Every limit that one more move of this pod would break."""
        limits, most, left = self._limits, self._most_nodes, self._left.nodes
        if self._most_pods is not None and self._left.total >= self._most_pods:
            yield _limit_reached(Limit.TOTAL, self._pods_where, self._most_pods)
        if most is not None and len(left) >= most and pod.node and pod.node not in left:
            many = "1 node" if most == 1 else f"{most} nodes"
            yield _limit_reached(Limit.NODES, self._nodes_where, many)
        if limits.node is not None and pod.node and left[pod.node] >= limits.node:
            yield _limit_reached(Limit.NODE, f"node {pod.node}", limits.node)
        count = self._left.namespaces[pod.namespace]
        if limits.namespace is not None and count >= limits.namespace:
            yield _limit_reached(Limit.NAMESPACE, f"namespace {pod.namespace}", limits.namespace)

    @property
    def spent(self) -> tuple[Spent, ...]:
        """How much of each limit is used; of one for each node or namespace, by the busiest."""
        left = self._left
        used = (
            (Limit.TOTAL, self._pods_where, left.total, self._most_pods),
            (Limit.NODES, self._nodes_where, len(left.nodes), self._most_nodes),
            (Limit.NODE, *_busiest("node", left.nodes), self._limits.node),
            (Limit.NAMESPACE, *_busiest("namespace", left.namespaces), self._limits.namespace),
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
                BUDGET,
                {"budgets": names},
            )
        for budget in self._debited(pod, covering):
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
        """Budgets the API server would look at; it asks none for pods that do not serve."""
        covering = self._snapshot.budgets_of(pod)
        if covering and (pod.terminating or pod.state.phase in NOT_SERVING):
            return ()
        return covering

    def _debited(self, pod: Pod, covering: tuple[Budget, ...]) -> tuple[Budget, ...]:
        """Budgets that pay for the move; a pod that is not ready may be free of charge."""
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
        "is reached",
        LIMITS,
        {"count": count, "where": where},
        limit,
        subject="the limit of {count} for {where}",
    )
