"""How much of one thing each node has left, while a plan takes some here and gives some back there.

"Which nodes have at least so much?" is a bitmap, kept for every amount that was asked about. When
what a node has left changes, only the bitmaps between the old amount and the new one lose or gain
that node.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from resettle.model.fleet import Fleet, NodeSet


class Stock:
    """What is left of one resource, by the position of the node in the fleet."""

    def __init__(self, fleet: Fleet, left: list[int]) -> None:
        self._singles = fleet.bits
        self.left = left
        self._amounts: list[int] = []
        self._enough: dict[int, NodeSet] = {}

    def at_least(self, amount: int) -> NodeSet:
        """Nodes that have this much left."""
        enough = self._enough.get(amount)
        if enough is None:
            bits = bytearray(len(self.left) // 8 + 1)
            for at, left in enumerate(self.left):
                if left >= amount:
                    bits[at >> 3] |= 1 << (at & 7)
            enough = self._enough[amount] = int.from_bytes(bits, "little")
            insort(self._amounts, amount)
        return enough

    def change(self, at: int, by: int) -> None:
        """Gives back to a node what left it, or takes from it what came."""
        before = self.left[at]
        after = self.left[at] = before + by
        low, high = (before, after) if before < after else (after, before)
        single = self._singles[at]
        for amount in self._amounts[bisect_right(self._amounts, low) :]:
            if amount > high:
                break
            self._enough[amount] ^= single
