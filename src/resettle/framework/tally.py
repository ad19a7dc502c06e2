"""Pods counted as limits count them: all together, by node, by namespace."""

from __future__ import annotations

from collections import Counter

from resettle.model.pod import Pod


class Tally:
    """How many pods, and where from; a pod without a node is of none."""

    def __init__(self) -> None:
        self.total = 0
        self.nodes: Counter[str] = Counter()
        self.namespaces: Counter[str] = Counter()

    def add(self, pod: Pod, times: int = 1) -> None:
        """Counts a pod; minus one time takes it back."""
        self.total += times
        self.namespaces[pod.namespace] += times
        if pod.node:
            self.nodes[pod.node] += times
