"""How much is free on each node, and which nodes have enough.

For each resource the nodes are ranked by what they have free; the nodes with enough for a request
are then a prefix of the ranking, and the bitmaps of all prefixes are kept. One lookup answers for
thousands of nodes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

from resettle.model.fleet import Fleet, NodeSet
from resettle.model.node import Node
from resettle.model.pod import Demand
from resettle.model.quantity import NANO, counted, milli


class Room:
    """What each node has left of each resource, in thousandths."""

    def __init__(self, fleet: Fleet, used: Callable[[Node], Mapping[str, int]]) -> None:
        self._fleet = fleet
        self._used = used
        self._ranked: dict[str, tuple[list[int], list[NodeSet]]] = {}
        self._enough: dict[Demand, NodeSet] = {}

    def enough_for(self, demand: Demand) -> NodeSet:
        """Nodes with room for all that is requested, and for one more pod."""
        chosen = self._enough.get(demand)
        if chosen is None:
            chosen = self._fleet.everyone
            for _, nodes in self.with_enough(demand):
                chosen &= nodes
            self._enough[demand] = chosen
        return chosen

    def with_enough(self, demand: Demand) -> Iterator[tuple[str, NodeSet]]:
        """For each resource that matters the nodes with enough of it."""
        yield "pods", self._with("pods", max(1, milli(demand.requests.get("pods", 0))))
        for name, amount in demand.requests.items():
            yield name, self._with(name, milli(amount))

    def lacking(self, demand: Demand, name: str) -> dict[str, int]:
        """How much of each resource a node has too little of, in the resource's own unit."""
        at = self._fleet.position[name]
        node = self._fleet.nodes[at]
        found: dict[str, int] = {}
        for resource, needed in ({"pods": NANO} | demand.requests).items():
            offer = self._fleet.offers(resource)[at] or 0
            free = offer - counted(resource, self._used(node).get(resource, 0))
            if free < counted(resource, needed):
                found[resource] = counted(resource, needed) - free
        return found

    def _with(self, resource: str, needed: int) -> NodeSet:
        ranking = self._ranked.get(resource)
        if ranking is None:
            ranking = self._ranked[resource] = self._rank(resource)
        shortfalls, prefixes = ranking
        return prefixes[bisect_right(shortfalls, -needed)]

    def _rank(self, resource: str) -> tuple[list[int], list[NodeSet]]:
        """Negated free amounts, ascending, and the set of the first k nodes for each k.

        Free is a difference of two amounts, each rounded up in the resource's own unit.
        """
        used, scale = self._used, 1 if resource == "cpu" else 1000
        free = [
            0 if offer is None else (offer - counted(resource, used(node).get(resource, 0))) * scale
            for node, offer in zip(self._fleet, self._fleet.offers(resource), strict=True)
        ]
        ranked = sorted(range(len(free)), key=free.__getitem__, reverse=True)
        singles = list(self._fleet.singles.values())
        prefixes = [0]
        for at in ranked:
            prefixes.append(prefixes[-1] | singles[at])
        return [-free[at] for at in ranked], prefixes
