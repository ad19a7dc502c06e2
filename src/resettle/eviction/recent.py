"""Recent evictions: which pods left a short time ago, for plugins that limit moves over time.

They are kept in memory for as long as some enabled plugin looks back (`Plugin.eviction_window`),
and become part of each snapshot, so that a recorded cycle is decided again in the same way. A pod
counts once, however many parts of the program report that it left: the executor reports the moves
of a cycle, and a controller that moves pods by itself reports its own (`add`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from resettle.framework.mover import MoveResponse, MoveResult
from resettle.framework.plan import Move
from resettle.model.workloads import Eviction, eviction_of, recent_evictions


class RecentEvictions:
    """Evictions of the last minutes, by pod."""

    def __init__(self) -> None:
        self._window = timedelta()
        self._by_pod: dict[str, Eviction] = {}
        self._last: tuple[Eviction, ...] = ()

    def keep_for(self, window: timedelta) -> None:
        """Keep evictions for so long from now on; nothing is kept while it is zero."""
        self._window = window
        if not window:
            self._by_pod.clear()

    def add(self, owner: str, namespace: str, at: datetime, pod: str = "") -> None:
        """Count an eviction, unless this pod is counted already.

        `owner` is the uid of the controller, `pod` the uid of the pod; without one, the owner and
        the time identify the eviction.
        """
        if self._window:
            key = pod or f"{owner or namespace} {at.isoformat()}"
            self._by_pod.setdefault(key, Eviction(key, owner, namespace, at))

    def add_moves(
        self, moves: Iterable[Move], responses: Iterable[MoveResponse], at: datetime
    ) -> None:
        """Count the moves whose pods left, or may be leaving."""
        for move, response in zip(moves, responses, strict=False):
            # A move that is only requested counts when the pod is evicted for it.
            if response.result.counts_as_leaving and response.result is not MoveResult.REQUESTED:
                eviction = eviction_of(move.pod, at)
                self.add(eviction.owner, eviction.namespace, at, eviction.pod)

    def until(self, now: datetime) -> tuple[Eviction, ...]:
        """The evictions that still count, oldest first; the others are dropped.

        As long as nothing changes, the answer is one object, which is quickly compared.
        """
        kept = recent_evictions(self._by_pod.values(), now, self._window)
        if len(kept) != len(self._by_pod):
            self._by_pod = {eviction.pod: eviction for eviction in kept}
        if kept != self._last:
            self._last = kept
        return self._last
