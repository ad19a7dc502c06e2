"""Volumes of one driver: where each is attached, and how many more each node can take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from resettle.model.fleet import Fleet, NodeSet
from resettle.model.stock import Stock

UNLIMITED = 1 << 30


class Slots:
    """Attachments of one driver, while pods and their volumes move."""

    def __init__(self, fleet: Fleet, limits: Mapping[str, int]) -> None:
        self._fleet = fleet
        self._free = Stock(fleet, [limits.get(node.name, UNLIMITED) for node in fleet])
        self._on: dict[str, Counter[str]] = {}
        self._where: dict[str, set[str]] = {}

    def attach(self, node: str, handles: Iterable[str]) -> None:
        """Attaches volumes to a node for one more pod."""
        there = self._on.setdefault(node, Counter())
        for handle in handles:
            there[handle] += 1
            if there[handle] == 1:
                self._where.setdefault(handle, set()).add(node)
                self._change(node, -1)

    def detach(self, node: str, handles: Iterable[str]) -> None:
        """Lets go of them; the last pod that uses a volume takes it along."""
        there = self._on[node]
        for handle in handles:
            there[handle] -= 1
            if not there[handle]:
                del there[handle]
                self._where[handle].discard(node)
                self._change(node, 1)

    def open_to(self, handles: set[str], home: str, brought: set[str]) -> NodeSet:
        """Nodes that can attach these, once the pod at home has taken along what it brought."""
        nodes = self._free.at_least(len(handles))
        special = {home}.union(*(self._where.get(handle, ()) for handle in handles))
        for name in special:
            single = self._fleet.only(name)
            if single:
                fits = self._fits(name, handles, brought if name == home else set())
                nodes = nodes | single if fits else nodes & ~single
        return nodes

    def _fits(self, node: str, handles: set[str], brought: set[str]) -> bool:
        there = self._on.get(node, Counter())
        freed = {handle for handle in brought if there[handle] == 1}
        new = sum(handle not in there or handle in freed for handle in handles)
        return not new or self._free.left[self._fleet.position[node]] + len(freed) >= new

    def _change(self, node: str, by: int) -> None:
        if node in self._fleet.position:
            self._free.change(self._fleet.position[node], by)
