"""Pods of one description, counted by node and by the domains of a topology, as a plan moves them.

    Tally    pods that some selector selects     node -> count
      └── Domains   the same over one label      value -> count, and for each count its nodes

Where each node is a domain of its own there are thousands of them, so nodes are kept by the count
of their domain: "all domains with at most two" is an OR of three bitmaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from resettle.model.fleet import Fleet, NodeSet
from resettle.model.pod import Template


class Tally:
    """Pods of the templates that `counts` admits, by node."""

    def __init__(
        self,
        counts: Callable[[Template], bool],
        places: Iterable[str],
        fleet: Fleet,
        staying_only: bool = False,
    ) -> None:
        self.counts = counts
        self.staying_only = staying_only
        """Whether pods on their way out are left out of it."""
        self.per_node: dict[str, int] = {}
        for node in places:
            self.per_node[node] = self.per_node.get(node, 0) + 1
        self._fleet = fleet
        self._views: dict[tuple[str, NodeSet], Domains] = {}

    def over(self, topology_key: str, among: NodeSet | None = None) -> Domains:
        """The count over the domains of a label, on these nodes only or on all."""
        nodes = self._fleet.everyone if among is None else among
        view = self._views.get((topology_key, nodes))
        if view is None:
            view = self._views[topology_key, nodes] = Domains(
                self._fleet, topology_key, nodes, self.per_node
            )
        return view

    def groups(self, nodes: NodeSet, without: str) -> Iterator[tuple[int, NodeSet]]:
        """The nodes by how many such pods each has, once one has left a node."""
        left = self._fleet.only(without) & nodes
        if left:
            yield self.per_node.get(without, 0) - 1, left
        for count, there in self._by_count.items():
            if here := nodes & there & ~left:
                yield count, here

    @cached_property
    def _by_count(self) -> dict[int, NodeSet]:
        """The nodes that have just so many, those with none included."""
        by_count: dict[int, NodeSet] = {0: self._fleet.everyone}
        for node, count in self.per_node.items():
            single = self._fleet.only(node)
            by_count[0] &= ~single
            by_count[count] = by_count.get(count, 0) | single
        return by_count

    def shift(self, source: str, target: str) -> None:
        """One such pod is moved from a node to another."""
        by_count = self.__dict__.get("_by_count")
        for node, by in ((source, -1), (target, 1)):
            before = self.per_node.get(node, 0)
            self.per_node[node] = before + by
            if by_count is not None:
                single = self._fleet.only(node)
                by_count[before] = by_count.get(before, 0) & ~single
                by_count[before + by] = by_count.get(before + by, 0) | single
            for view in self._views.values():
                view.add(node, by)


class Domains:
    """Counts by domain; a domain is counted if one of the nodes that matter is in it."""

    def __init__(
        self, fleet: Fleet, topology_key: str, among: NodeSet, per_node: dict[str, int]
    ) -> None:
        self._among = among
        self._singles = fleet.singles
        self._values = fleet.values_of(topology_key)
        self._nodes = fleet.domains(topology_key)
        self.having: NodeSet = fleet.having(topology_key)
        self.number = len(fleet.values_within(topology_key, among))
        self.counted: NodeSet = fleet.domains_within(topology_key, among)
        """Nodes of all domains that are counted."""
        self._counts: dict[str, int] = {}
        for node, count in per_node.items():
            if count and self._singles.get(node, 0) & among and node in self._values:
                value = self._values[node]
                self._counts[value] = self._counts.get(value, 0) + count
        by_count: dict[int, NodeSet] = {}
        for value, count in self._counts.items():
            by_count[count] = by_count.get(count, 0) | self._nodes[value]
        rest = self.counted
        for nodes in by_count.values():
            rest &= ~nodes
        self._levels = {0: rest, **by_count} if rest else by_count

    def add(self, node: str, by: int) -> None:
        """Counts pods that come to a node, or leave it."""
        value = self._values.get(node)
        if value is None or not self._singles.get(node, 0) & self._among:
            return
        before = self._counts.get(value, 0)
        after = self._counts[value] = before + by
        nodes = self._nodes[value]
        rest = self._levels[before] & ~nodes
        if rest:
            self._levels[before] = rest
        else:
            del self._levels[before]
        self._levels[after] = self._levels.get(after, 0) | nodes

    def counted_at(self, node: str) -> int | None:
        """How many are in the domain of this node; None where it does not matter."""
        value = self._values.get(node)
        if value is None or not self._singles.get(node, 0) & self._among:
            return None
        return self._counts.get(value, 0)

    def count(self, value: str) -> int:
        """How many are in one domain."""
        return self._counts.get(value, 0)

    def value_at(self, node: str) -> str | None:
        """The domain of this node; None where it does not matter."""
        return None if self.counted_at(node) is None else self._values[node]

    def around(self, node: str) -> NodeSet:
        """All nodes of the domain that the node is in."""
        value = self._values.get(node)
        return 0 if value is None else self._nodes[value]

    @property
    def least(self) -> int:
        """The count of the smallest domain."""
        return min(self._levels, default=0)

    @property
    def most(self) -> int:
        """The count of the largest."""
        return max(self._levels, default=0)

    def up_to(self, count: int) -> NodeSet:
        """Nodes whose domain has at most so many."""
        chosen = 0
        for level, nodes in self._levels.items():
            if level <= count:
                chosen |= nodes
        return chosen

    def exactly(self, count: int) -> NodeSet:
        """Nodes whose domain has just so many."""
        return self._levels.get(count, 0)

    @property
    def levels(self) -> list[int]:
        """The counts that occur, largest first."""
        return sorted(self._levels, reverse=True)

    def occupied(self) -> NodeSet:
        """Nodes whose domain has at least one."""
        chosen = 0
        for level, nodes in self._levels.items():
            if level > 0:
                chosen |= nodes
        return chosen

    def occupied_without(self, node: str) -> NodeSet:
        """The same once one pod on this node is gone."""
        chosen = self.occupied()
        return chosen & ~self.around(node) if self.counted_at(node) == 1 else chosen
