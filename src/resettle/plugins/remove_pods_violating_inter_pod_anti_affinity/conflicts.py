"""Pods that are nearer to each other than one of them allows, and who should go to end it.

A quarrel is one rule in one domain: those who state it, and those it is about. Sides are counted,
never compared in pairs, so a zone with a thousand pods costs no more than a node with two.
"""

from __future__ import annotations

from collections.abc import Iterable

from resettle.model.pod import Pod


class Quarrel:
    """Two sides that should not be together; a pod may be on both."""

    def __init__(self, why: str, stating: Iterable[Pod], meant: Iterable[Pod]) -> None:
        self.why = why
        self.stating = frozenset(stating)
        self.meant = frozenset(meant)
        self._stating_here = len(self.stating)
        self._meant_here = len(self.meant)

    def against(self, pod: Pod, *, here: bool) -> int:
        """How many there are that the pod should not be near, counting both ways."""
        states, is_meant = pod in self.stating, pod in self.meant
        count = self._meant_here - (is_meant and here) if states else 0
        return count + (self._stating_here - (states and here) if is_meant else 0)

    def count(self, pod: Pod, by: int) -> None:
        """Lets the pod leave, or come back."""
        self._stating_here += by if pod in self.stating else 0
        self._meant_here += by if pod in self.meant else 0


class Quarrels:
    """All quarrels of a cluster, while pods leave one by one."""

    def __init__(self, quarrels: Iterable[Quarrel]) -> None:
        self._by_pod: dict[Pod, list[Quarrel]] = {}
        self._gone: dict[Pod, None] = {}
        for quarrel in quarrels:
            for pod in quarrel.stating | quarrel.meant:
                if quarrel.against(pod, here=True):
                    self._by_pod.setdefault(pod, []).append(quarrel)

    @property
    def pods(self) -> Iterable[Pod]:
        """Everyone involved, in no order."""
        return self._by_pod

    def why(self, pod: Pod) -> str:
        """The first reason the pod has to go."""
        return self._by_pod[pod][0].why

    def states_one(self, pod: Pod) -> bool:
        """Whether one of the rules is the pod's own."""
        return any(pod in quarrel.stating for quarrel in self._by_pod[pod])

    def leaving(self, movable: list[Pod]) -> list[Pod]:
        """Who should go so that the rest get on, the first of the list rather than the last.

        Never more pods than if only those went who state the rules themselves.
        """
        chosen = self._peacemakers(movable)
        stating = self._peacemakers([pod for pod in movable if self.states_one(pod)])
        return stating if len(stating) < len(chosen) and self._settled_by(stating) else chosen

    def _peacemakers(self, candidates: list[Pod]) -> list[Pod]:
        for pod in candidates:
            if self._open(pod):
                self._go(pod)
        # Whoever would meet nobody any more may stay, the most important first.
        for pod in reversed(candidates):
            if pod in self._gone and not self._open(pod):
                self._return(pod)
        gone = [pod for pod in candidates if pod in self._gone]
        for pod in gone:
            self._return(pod)
        return gone

    def _settled_by(self, leaving: list[Pod]) -> bool:
        for pod in leaving:
            self._go(pod)
        settled = not any(self._open(pod) for pod in self._by_pod if pod not in self._gone)
        for pod in leaving:
            self._return(pod)
        return settled

    def _open(self, pod: Pod) -> bool:
        here = pod not in self._gone
        return any(quarrel.against(pod, here=here) for quarrel in self._by_pod[pod])

    def _go(self, pod: Pod) -> None:
        self._gone[pod] = None
        for quarrel in self._by_pod[pod]:
            quarrel.count(pod, -1)

    def _return(self, pod: Pod) -> None:
        del self._gone[pod]
        for quarrel in self._by_pod[pod]:
            quarrel.count(pod, 1)
