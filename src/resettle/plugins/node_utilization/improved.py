"""Moving load so that every move counts: what LowNodeUtilization and HighNodeUtilization do better.

A pod moves only onto a destination that stays within its limits with it. An overfull node gives
away no more pods than it must, and only pods that use what is short there; a node that is to be
emptied gives away all its pods or none. Where nobody knows what a pod uses, few leave a node and
few come to one before all are looked at again, and whoever has just come is the last to leave.
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
from resettle.placement.capacity import Stock
from resettle.plugins._common import LIMIT_REACHED
from resettle.plugins.node_utilization.upstream import NO_ROOM, Balance, Source

Cost = Mapping[str, int]
_NOTHING_LEFT = -1
_ENDING = (Limit.TOTAL, Limit.NODE, Limit.NODES)


class Destinations:
    """What each node that should take pods can still take, in nano units."""

    def __init__(self, nodes: Iterable[Node], balance: Balance, view: View) -> None:
        self._position = view.fleet.position
        self._nodes: NodeSet = 0
        left = {name: [_NOTHING_LEFT] * len(self._position) for name in balance.resources}
        for node in nodes:
            self._nodes |= view.fleet.only(node.name)
            for name, row in left.items():
                room = balance.allowed(node, name) - balance.used(node, name)
                row[self._position[node.name]] = room
        self._stocks = {name: Stock(view.fleet, row) for name, row in left.items()}

    def with_room_for(self, cost: Cost) -> NodeSet:
        """Destinations that stay within their limits with this much more."""
        nodes = self._nodes
        for name, amount in cost.items():
            if amount > 0:
                nodes &= self._stocks[name].at_least(amount)
        return nodes

    def take(self, node: str, cost: Cost) -> None:
        """Puts a pod's use on a node."""
        for name, amount in cost.items():
            self._stocks[name].change(self._position[node], -amount)


class Relief:
    """One plugin's turn: sources, destinations, and what has been moved between them."""

    def __init__(
        self, balance: Balance, destinations: Iterable[Node], view: View, draft: Draft
    ) -> None:
        self._balance = balance
        self._view = view
        self._draft = draft
        self._nowhere: set[Demand] = set()
        self._destinations = Destinations(destinations, balance, view)

    def lighten(
        self,
        sources: Iterable[Source],
        concerns: Callable[[Pod], bool],
        because: Callable[[Source], str],
        per_node: int | None,
    ) -> Stopped | None:
        """Moves pods off each source until it is within its limits."""
        for source in sources:
            if self._lighten(source, concerns, because, per_node):
                return LIMIT_REACHED
        return None if self._balance.has_room else NO_ROOM

    def ease(
        self,
        sources: Iterable[Source],
        concerns: Callable[[Pod], bool],
        because: Callable[[Source], str],
        per_node: int,
    ) -> Stopped | None:
        """Moves so many pods off each source, where nobody knows what a single pod uses.

        And so many onto each destination: two pods that are much alike may be worlds apart.
        """
        if not self._balance.has_room:
            return NO_ROOM
        fleet, residents = self._view.fleet, self._view.projection.residents
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
                if verdict.gone:
                    left -= 1
                    home = residents.home(pod)
                    came[home] += 1
                    if came[home] >= per_node:
                        better &= ~fleet.only(home)
        return None

    def _lighten(
        self,
        source: Source,
        concerns: Callable[[Pod], bool],
        because: Callable[[Source], str],
        per_node: int | None,
    ) -> bool:
        """Whether the cycle takes no more moves."""
        waiting = self._waiting(source, concerns)
        moved = 0
        while source.overfull and self._balance.has_room:
            batch = self._needed(source, waiting, because)
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
                moved += verdict.gone
        return False

    def _waiting(self, source: Source, concerns: Callable[[Pod], bool]) -> dict[Pod, Cost]:
        """Pods that could be moved off a source, the least important first, and what they use."""
        found = {}
        for pod in self._in_turn(source, concerns):
            cost = self._balance.cost(pod)
            if cost is not None:
                found[pod] = cost
            elif doubt := self._balance.usage.pod_doubt(pod):
                self._draft.note(pod, "usage-unknown", doubt.says)
        return found

    def _in_turn(
        self,
        source: Source,
        concerns: Callable[[Pod], bool],
        order: Callable[[Pod], Any] = by_priority,
    ) -> list[Pod]:
        """Pods that could be moved off a source, the least important first."""
        draft = self._draft
        pods = [
            pod
            for pod in self._view.active_on(source.node)
            if concerns(pod) and not draft.terminating(pod)
        ]
        return draft.ordered(draft.walked(pods), order)

    def _needed(
        self, source: Source, waiting: dict[Pod, Cost], because: Callable[[Source], str]
    ) -> dict[Pod, Cost]:
        """The first pods whose going brings the source within its limits, none of them in vain."""
        chosen: dict[Pod, Cost] = {}
        state = source.use()
        for pod, cost in list(waiting.items()):
            if not state.overfull:
                break
            if not self._draft.semantics.bystanders_moved and not state.relieved_by(cost):
                says = f"uses nothing of what {source.node.name} has too little of"
                self._draft.note(pod, "no-relief", says)
                continue
            refusal = self._objection(pod, cost)
            if refusal is not None and refusal.limit in _ENDING:
                # The proposal will meet the limit too, and end the turn for this node or for all.
                return chosen or {pod: cost}
            if refusal is not None:
                better = self._destinations.with_room_for(cost)
                self._draft.decline(pod, refusal, because=because(source), onto=better)
                del waiting[pod]
                continue
            chosen[pod] = cost
            state.shift(cost, -1)
        if not state.overfull:
            for pod, cost in reversed(list(chosen.items())):
                state.shift(cost, 1)
                if state.overfull:
                    state.shift(cost, -1)
                else:
                    del chosen[pod]
        return chosen

    def _objection(self, pod: Pod, cost: Cost) -> Refusal | None:
        demand, plain = pod.spec.demand, self._view.projection.plain(pod)
        if plain and demand in self._nowhere:
            return NO_BETTER_NODE
        refusal = self._draft.objection(pod, self._destinations.with_room_for(cost))
        if plain and refusal is NO_BETTER_NODE:
            # Destinations only fill up, so there will be none for such a pod later either.
            self._nowhere.add(demand)
        return refusal

    def _propose(
        self, source: Source, pod: Pod, cost: Cost, because: str, *, packing: bool = False
    ) -> Verdict:
        better = self._destinations.with_room_for(cost)
        verdict = self._draft.propose(pod, because=because, onto=better, packing=packing)
        if verdict.gone:
            source.without(cost)
            self._destinations.take(self._view.projection.residents.home(pod), cost)
        return verdict

    def empty(
        self,
        sources: Iterable[Source],
        concerns: Callable[[Pod], bool],
        because: Callable[[Source], str],
    ) -> Stopped | None:
        """Moves all pods off each source, where all of them can go."""
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
        source: Source,
        concerns: Callable[[Pod], bool],
        because: Callable[[Source], str],
    ) -> dict[Pod, Cost]:
        """The pods that must go for the node to be empty; none if one of them cannot."""
        draft, outlook = self._draft, self._view.projection
        waiting = self._waiting(source, lambda pod: _must_leave(pod) and concerns(pod))
        tried: list[Pod] = []
        stays: tuple[Pod, Refusal] | None = None
        for pod, cost in waiting.items():
            better = self._destinations.with_room_for(cost)
            refusal = draft.objection(pod, better, packing=True)
            if refusal is not None and refusal.limit is None:
                stays = pod, refusal
                break
            target = outlook.likeliest(pod, outlook.places(pod) & better or outlook.places(pod))
            outlook.move(pod, target)
            self._destinations.take(target, cost)
            tried.append(pod)
        for pod in reversed(tried):
            self._destinations.take(
                outlook.residents.home(pod), {name: -n for name, n in waiting[pod].items()}
            )
            outlook.take_back(pod)
        if stays is None:
            return waiting
        pod, refusal = stays
        draft.note(source.node, "not-emptied", f"{pod.key} cannot leave, so nobody does")
        better = self._destinations.with_room_for(waiting[pod])
        draft.decline(pod, refusal, because=because(source), onto=better)
        return {}


def _oldest_of_equals(pod: Pod) -> tuple[Any, ...]:
    """Least important first, and of equals who has been left alone the longest."""
    return (*by_priority(pod), pod.seniority())


def _must_leave(pod: Pod) -> bool:
    """Whether a node counts as empty only without the pod."""
    template = pod.template
    return not (template.owned_by(("DaemonSet",)) or template.mirror or template.static)
