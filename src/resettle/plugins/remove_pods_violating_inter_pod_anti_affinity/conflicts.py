"""Violations of podAntiAffinity, and the pods whose eviction resolves them.

A conflict is one rule in one domain: the pods that state it, and the pods it selects. Both sides
are counted, never compared in pairs, so a zone with a thousand pods costs no more than a node with
two.
"""

from __future__ import annotations

from collections.abc import Iterable

from resettle.model.pod import Pod


class Conflict:
    """One violated rule in one domain; a pod may state the rule and be selected by it."""

    def __init__(self, why: str, stating: Iterable[Pod], selected: Iterable[Pod]) -> None:
        self.why = why
        self.stating = frozenset(stating)
        self.selected = frozenset(selected)
        self._stating_here = len(self.stating)
        self._selected_here = len(self.selected)

    def against(self, pod: Pod, *, here: bool) -> int:
        """How many pods the pod is in conflict with, counting both directions."""
        states, is_selected = pod in self.stating, pod in self.selected
        count = self._selected_here - (is_selected and here) if states else 0
        return count + (self._stating_here - (states and here) if is_selected else 0)

    def count(self, pod: Pod, by: int) -> None:
        """Let the pod leave (-1) or come back (1)."""
        self._stating_here += by if pod in self.stating else 0
        self._selected_here += by if pod in self.selected else 0


class Conflicts:
    """All conflicts of a cluster, while pods leave one by one."""

    def __init__(self, conflicts: Iterable[Conflict]) -> None:
        self._by_pod: dict[Pod, list[Conflict]] = {}
        self._gone: dict[Pod, None] = {}
        for conflict in conflicts:
            for pod in conflict.stating | conflict.selected:
                if conflict.against(pod, here=True):
                    self._by_pod.setdefault(pod, []).append(conflict)

    @property
    def pods(self) -> Iterable[Pod]:
        """All pods involved, in no order."""
        return self._by_pod

    def why(self, pod: Pod) -> str:
        """The first reason the pod has to go."""
        return self._by_pod[pod][0].why

    def has_own_rule(self, pod: Pod) -> bool:
        """Whether one of the rules is the pod's own."""
        return any(pod in conflict.stating for conflict in self._by_pod[pod])

    def leaving(self, movable: list[Pod]) -> list[Pod]:
        """The pods to evict so that no conflict is left, rather from the front of the list.

        Never more pods than if only pods that state a rule were evicted.
        """
        chosen = self._pods_to_evict(movable)
        stating = self._pods_to_evict([pod for pod in movable if self.has_own_rule(pod)])
        return stating if len(stating) < len(chosen) and self._resolved_by(stating) else chosen

    def _pods_to_evict(self, candidates: list[Pod]) -> list[Pod]:
        for pod in candidates:
            if self._has_conflict(pod):
                self._remove(pod)
        # A pod that has no conflict left may stay, the most important first.
        for pod in reversed(candidates):
            if pod in self._gone and not self._has_conflict(pod):
                self._put_back(pod)
        gone = [pod for pod in candidates if pod in self._gone]
        for pod in gone:
            self._put_back(pod)
        return gone

    def _resolved_by(self, leaving: list[Pod]) -> bool:
        for pod in leaving:
            self._remove(pod)
        settled = not any(self._has_conflict(pod) for pod in self._by_pod if pod not in self._gone)
        for pod in leaving:
            self._put_back(pod)
        return settled

    def _has_conflict(self, pod: Pod) -> bool:
        here = pod not in self._gone
        return any(conflict.against(pod, here=here) for conflict in self._by_pod[pod])

    def _remove(self, pod: Pod) -> None:
        self._gone[pod] = None
        for conflict in self._by_pod[pod]:
            conflict.count(pod, -1)

    def _put_back(self, pod: Pod) -> None:
        del self._gone[pod]
        for conflict in self._by_pod[pod]:
            conflict.count(pod, 1)
