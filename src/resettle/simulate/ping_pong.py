"""Who is moved again and again although nothing has changed."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from resettle.model.pod import Pod
from resettle.simulate.scheduler import workload

MEMORY = 10
"""Cycles within which a second move of one pod is ping-pong."""


class PingPong(Struct, frozen=True):
    """A pod that was moved again before long, although nothing had changed."""

    workload: str
    pod: str
    plugins: tuple[str, str]
    """Who moved it the first time, and who the second."""
    nodes: tuple[str, ...]
    """Where it has been, the last one where it is now."""
    cycles: tuple[int, int]


class Rally(Struct, frozen=True, kw_only=True):
    """All the ping-pong of one workload."""

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


class _Trail(Struct):
    """Where a pod has been."""

    nodes: list[str]
    moved_in: int
    plugin: str


class Trails:
    """Where pods have been since something last changed from outside."""

    def __init__(self) -> None:
        self._of: dict[str, _Trail] = {}

    def forget(self) -> None:
        """Begins anew: what has moved so far had its reason."""
        self._of.clear()

    def moved(self, pod: Pod, node: str | None, plugin: str, cycle: int) -> PingPong | None:
        """Notes a move, and says if it was one too many."""
        again = None
        trail = self._of.get(pod.key)
        if trail is None or cycle - trail.moved_in > MEMORY:
            trail = self._of[pod.key] = _Trail([pod.node], cycle, plugin)
        else:
            again = PingPong(
                workload=workload(pod),
                pod=pod.key,
                plugins=(trail.plugin, plugin),
                nodes=(*trail.nodes, *([node] if node else ())),
                cycles=(trail.moved_in, cycle),
            )
        if node:
            trail.nodes.append(node)
        trail.moved_in, trail.plugin = cycle, plugin
        return again

    def arrived(self, pod: Pod, node: str) -> None:
        """Notes where a pod went that had waited after its move."""
        if trail := self._of.get(pod.key):
            trail.nodes.append(node)


def rallies(found: Iterable[PingPong]) -> tuple[Rally, ...]:
    """Ping-pong by workload, the worst first."""
    by_workload: dict[str, list[PingPong]] = {}
    for it in found:
        by_workload.setdefault(it.workload, []).append(it)
    told = [
        Rally(
            workload=name,
            times=len(group),
            pods=tuple(sorted({it.pod for it in group})),
            plugins=tuple(sorted({plugin for it in group for plugin in it.plugins})),
            nodes=tuple(sorted({node for it in group for node in it.nodes})),
        )
        for name, group in by_workload.items()
    ]
    return tuple(sorted(told, key=lambda it: (-it.times, it.workload)))
