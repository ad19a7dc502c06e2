"""Finds ping-pong: pods that are moved again and again although nothing has changed.

An external event clears the history: moves after it have a new reason.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from resettle.model.pod import Pod
from resettle.simulate.scheduler import workload

PING_PONG_CYCLES = 10
"""Cycles within which a second move of one pod is ping-pong."""


class PingPong(Struct, frozen=True):
    """A pod that was moved again within a few cycles without an external event in between."""

    workload: str
    pod: str
    plugins: tuple[str, str]
    """The plugins of the first and the second move."""
    nodes: tuple[str, ...]
    """The nodes it has been on, the current one last."""
    cycles: tuple[int, int]


class PingPongSummary(Struct, frozen=True, kw_only=True):
    """The ping-pong of all pods of one workload."""

    workload: str
    times: int
    pods: tuple[str, ...]
    plugins: tuple[str, ...]
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        by, times = " and ".join(self.plugins), f"{self.times} time{'' if self.times == 1 else 's'}"
        match self.nodes:
            case [only]:
                return f"{self.workload} is sent off {only} and comes back, by {by}, {times}"
            case [*some, last] if len(some) < 4:
                between = "between" if len(some) == 1 else "among"
                where = f"{between} {', '.join(some)} and {last}"
            case _:
                where = f"among {len(self.nodes)} nodes"
        return f"{self.workload} moves back and forth {where} by {by}, {times}"


class _Visits(Struct):
    """The nodes that one pod has been on, and its last move."""

    nodes: list[str]
    moved_in: int
    plugin: str


class MoveHistory:
    """The nodes that pods have been on since the last external event."""

    def __init__(self) -> None:
        self._visits: dict[str, _Visits] = {}

    def clear(self) -> None:
        """Forget all moves so far."""
        self._visits.clear()

    def record_move(self, pod: Pod, node: str | None, plugin: str, cycle: int) -> PingPong | None:
        """Record a move; return it as ping-pong if the pod moved a short time ago."""
        again = None
        visits = self._visits.get(pod.key)
        if visits is None or cycle - visits.moved_in > PING_PONG_CYCLES:
            visits = self._visits[pod.key] = _Visits([pod.node], cycle, plugin)
        else:
            again = PingPong(
                workload=workload(pod),
                pod=pod.key,
                plugins=(visits.plugin, plugin),
                nodes=(*visits.nodes, *([node] if node else ())),
                cycles=(visits.moved_in, cycle),
            )
        if node:
            visits.nodes.append(node)
        visits.moved_in, visits.plugin = cycle, plugin
        return again

    def record_arrival(self, pod: Pod, node: str) -> None:
        """Record the node of a pod that was pending after its move."""
        if visits := self._visits.get(pod.key):
            visits.nodes.append(node)


def summarize_ping_pong(moves: Iterable[PingPong]) -> tuple[PingPongSummary, ...]:
    """Ping-pong by workload, the worst first."""
    by_workload: dict[str, list[PingPong]] = {}
    for move in moves:
        by_workload.setdefault(move.workload, []).append(move)
    summaries = [
        PingPongSummary(
            workload=name,
            times=len(group),
            pods=tuple(sorted({move.pod for move in group})),
            plugins=tuple(sorted({plugin for move in group for plugin in move.plugins})),
            nodes=tuple(sorted({node for move in group for node in move.nodes})),
        )
        for name, group in by_workload.items()
    ]
    return tuple(sorted(summaries, key=lambda summary: (-summary.times, summary.workload)))
