"""LowNodeUtilization and HighNodeUtilization of `resettle/v1`: no move without effect.

A pod moves only onto a destination that stays within its limits with it. A node that is
over loses no more pods than it must, and only pods that use what is short there; a node to be
drained loses all its pods or none. Where the usage of single pods is unknown, few pods leave a node
and few arrive at one before usage is measured again, and the youngest pods leave last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from resettle.framework.admission import NO_BETTER_NODE
from resettle.framework.draft import Draft
from resettle.framework.verdict import Limit, Refusal, Stopped, Verdict
from resettle.framework.view import View
from resettle.model.node_index import NodeSet
from resettle.model.objects import Node
from resettle.model.pod import Demand, Pod, by_priority
from resettle.placement.capacity import FreeResource
from resettle.plugins._common import LIMIT_REACHED
from resettle.plugins.node_utilization.upstream import NO_ROOM, Balance, SourceNode

Cost = Mapping[str, int]
_NOTHING_LEFT = -1
_ENDING_LIMITS = (Limit.TOTAL, Limit.NODE, Limit.NODES)


class Destinations:
    """What each node that should take pods can still take, in nano units."""

    def __init__(self, nodes: Iterable[Node], balance: Balance, view: View) -> None:
        self._position = view.node_index.position
        self._nodes: NodeSet = 0
        left = {name: [_NOTHING_LEFT] * len(self._position) for name in balance.resources}
        for node in nodes:
            self._nodes |= view.node_index.only(node.name)
            for name, row in left.items():
                room = balance.limit(node, name) - balance.usage_of(node, name)
                row[self._position[node.name]] = room
        self._stocks = {name: FreeResource(view.node_index, row) for name, row in left.items()}

    def with_room_for(self, cost: Cost) -> NodeSet:
        """Destinations that stay within their limits with this much more."""
        nodes = self._nodes
        for name, amount in cost.items():
            if amount > 0:
                nodes &= self._stocks[name].at_least(amount)
        return nodes

    def take(self, node: str, cost: Cost) -> None:
        """Add a pod's usage to a node."""
        for name, amount in cost.items():
            self._stocks[name].add(self._position[node], -amount)


class LoadReliever:
    """Moves pods from the sources to the destinations of one plugin run."""

    def __init__(
        self, balance: Balance, destinations: Iterable[Node], view: View, draft: Draft
    ) -> None:
        self._balance = balance
        self._view = view
        self._draft = draft
        self._nowhere: set[Demand] = set()
        self._destinations = Destinations(destinations, balance, view)

    def relieve(
        self,
        sources: Iterable[SourceNode],
        concerns: Callable[[Pod], bool],
        because: Callable[[SourceNode], str],
        per_node: int | None,
    ) -> Stopped | None:
        """Move pods off each source until it is within its limits."""
        for source in sources:
            if self._relieve_source(source, concerns, because, per_node):
                return LIMIT_REACHED
        return None if self._balance.has_room else NO_ROOM

    def relieve_blind(
        self,
        sources: Iterable[SourceNode],
        concerns: Callable[[Pod], bool],
        because: Callable[[SourceNode], str],
        per_node: int,
    ) -> Stopped | None:
        """Move `per_node` pods off each source, where the usage of single pods is unknown.

        No destination gets more than `per_node` either: similar pods may differ much in usage.
        """
        if not self._balance.has_room:
            return NO_ROOM
        node_index, pod_locations = self._view.node_index, self._view.projection.pod_locations
        better = self._destinations.with_room_for({})
        came: Counter[str] = Counter()
        for source in sources:
            left = per_node
            for pod in self._in_turn(source, concerns, _oldest_of_equals):
                if not left:
                    break
                verdict = self._draft.propose(pod, because=because(source), onto=better)
                if verdict.limit is Limit.TOTAL:
                    return LIMIT_REACHED
                if verdict.limit in (Limit.NODE, Limit.NODES):
                    break
                if verdict.is_leaving:
                    left -= 1
                    destination = pod_locations.current_node(pod)
                    came[destination] += 1
                    if came[destination] >= per_node:
                        better &= ~node_index.only(destination)
        return None

    def _relieve_source(
        self,
        source: SourceNode,
        concerns: Callable[[Pod], bool],
        because: Callable[[SourceNode], str],
        per_node: int | None,
    ) -> bool:
        """Move pods off one source; True if the cycle takes no more moves."""
        waiting = self._waiting(source, concerns)
        moved = 0
        while source.is_over and self._balance.has_room:
            batch = self._smallest_batch(source, waiting, because)
            if not batch:
                break
            for pod, cost in batch.items():
                del waiting[pod]
                if per_node is not None and moved >= per_node:
                    return False
                verdict = self._propose(source, pod, cost, because(source))
                if verdict.limit is Limit.TOTAL:
                    return True
                if verdict.limit is not None and verdict.limit is not Limit.NAMESPACE:
                    return False
                moved += verdict.is_leaving
        return False

    def _waiting(self, source: SourceNode, concerns: Callable[[Pod], bool]) -> dict[Pod, Cost]:
        """Pods that could be moved off a source, the least important first, and what they use."""
        waiting = {}
        for pod in self._in_turn(source, concerns):
            cost = self._balance.cost(pod)
            if cost is not None:
                waiting[pod] = cost
            elif problem := self._balance.usage.pod_problem(pod):
                self._draft.note(pod, "usage-unknown", problem.says)
        return waiting

    def _in_turn(
        self,
        source: SourceNode,
        concerns: Callable[[Pod], bool],
        order: Callable[[Pod], Any] = by_priority,
    ) -> list[Pod]:
        """Pods that could be moved off a source, the least important first."""
        draft = self._draft
        pods = [
            pod
            for pod in self._view.active_on(source.node)
            if concerns(pod) and not draft.is_terminating(pod)
        ]
        return draft.sort(draft.presort(pods), order)

    def _smallest_batch(
        self, source: SourceNode, waiting: dict[Pod, Cost], because: Callable[[SourceNode], str]
    ) -> dict[Pod, Cost]:
        """The first pods that bring the source within its limits; none that is not needed."""
        chosen: dict[Pod, Cost] = {}
        state = source.usage_copy()
        for pod, cost in list(waiting.items()):
            if not state.is_over:
                break
            if not self._draft.semantics.bystanders_moved and not state.is_relieved_by(cost):
                says = f"uses none of the resources that {source.node.name} is short of"
                self._draft.note(pod, "no-relief", says)
                continue
            refusal = self._objection(pod, cost)
            if refusal is not None and refusal.limit in _ENDING_LIMITS:
                # The proposal will reach this limit too, and end the turn of this node or of all.
                return chosen or {pod: cost}
            if refusal is not None:
                better = self._destinations.with_room_for(cost)
                self._draft.decline(pod, refusal, because=because(source), onto=better)
                del waiting[pod]
                continue
            chosen[pod] = cost
            state.shift(cost, -1)
        if not state.is_over:
            for pod, cost in reversed(list(chosen.items())):
                state.shift(cost, 1)
                if state.is_over:
                    state.shift(cost, -1)
                else:
                    del chosen[pod]
        return chosen

    def _objection(self, pod: Pod, cost: Cost) -> Refusal | None:
        demand, plain = pod.spec.demand, self._view.projection.has_simple_constraints(pod)
        if plain and demand in self._nowhere:
            return NO_BETTER_NODE
        refusal = self._draft.objection(pod, self._destinations.with_room_for(cost))
        if plain and refusal is NO_BETTER_NODE:
            # Destinations only fill up, so there will be none for such a pod later either.
            self._nowhere.add(demand)
        return refusal

    def _propose(
        self, source: SourceNode, pod: Pod, cost: Cost, because: str, *, packing: bool = False
    ) -> Verdict:
        better = self._destinations.with_room_for(cost)
        verdict = self._draft.propose(pod, because=because, onto=better, packing=packing)
        if verdict.is_leaving:
            source.without(cost)
            self._destinations.take(self._view.projection.pod_locations.current_node(pod), cost)
        return verdict

    def drain(
        self,
        sources: Iterable[SourceNode],
        concerns: Callable[[Pod], bool],
        because: Callable[[SourceNode], str],
    ) -> Stopped | None:
        """Move all pods off each source where all of them can go."""
        for source in sources:
            if not self._balance.has_room:
                return NO_ROOM
            for pod, cost in self._all_or_none(source, concerns, because).items():
                limit = self._propose(source, pod, cost, because(source), packing=True).limit
                if limit is Limit.TOTAL:
                    return LIMIT_REACHED
                if limit is not None:
                    break
        return None if self._balance.has_room else NO_ROOM

    def _all_or_none(
        self,
        source: SourceNode,
        concerns: Callable[[Pod], bool],
        because: Callable[[SourceNode], str],
    ) -> dict[Pod, Cost]:
        """The pods that must leave for the node to be empty; none if one of them cannot."""
        draft, projection = self._draft, self._view.projection
        waiting = self._waiting(source, lambda pod: _must_leave(pod) and concerns(pod))
        tried: list[Pod] = []
        stays: tuple[Pod, Refusal] | None = None
        for pod, cost in waiting.items():
            better = self._destinations.with_room_for(cost)
            refusal = draft.objection(pod, better, packing=True)
            if refusal is not None and refusal.limit is None:
                stays = pod, refusal
                break
            target = projection.highest_scored_node(
                pod, projection.safe_nodes(pod) & better or projection.safe_nodes(pod)
            )
            projection.move(pod, target)
            self._destinations.take(target, cost)
            tried.append(pod)
        for pod in reversed(tried):
            self._destinations.take(
                projection.pod_locations.current_node(pod),
                {name: -n for name, n in waiting[pod].items()},
            )
            projection.undo_move(pod)
        if stays is None:
            return waiting
        pod, refusal = stays
        draft.note(
            source.node, "not-emptied", f"{pod.key} cannot leave, so no pod is moved off this node"
        )
        better = self._destinations.with_room_for(waiting[pod])
        draft.decline(pod, refusal, because=because(source), onto=better)
        return {}


def _oldest_of_equals(pod: Pod) -> tuple[Any, ...]:
    """Least important first, and of equal pods the oldest."""
    return (*by_priority(pod), pod.seniority())


def _must_leave(pod: Pod) -> bool:
    """Whether a node counts as empty only without the pod."""
    template = pod.template
    return not (template.owned_by(("DaemonSet",)) or template.mirror or template.static)
