"""What node-exporter and kube-state-metrics tell of a few nodes whose load is known exactly.

Counters are functions of the time, told on a grid of fifteen seconds and stamped with it. So a rate
over any minute is the one that was meant, to all but the last digits, however late Prometheus came.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

GRID_SECONDS = 15
PAST_SECONDS = 660
"""As far back as rules look, and a little more."""
_MEMORY = 64 * 2**30
_STATE = 'instance="kube-state-metrics:8080"'


class Load(NamedTuple):
    """How busy a node is: use and pressure, each from 0 to 1."""

    cpu: float
    cpu_pressure: float
    memory: float
    memory_pressure: float


class Exporter:
    """One page for all nodes, and what it said before."""

    def __init__(
        self,
        nodes: Mapping[str, Load],
        *,
        roles: Mapping[str, str],
        pressure: bool = True,
        allocatable: bool = True,
        evictions: Mapping[str, float] | None = None,
        every: int = GRID_SECONDS,
    ) -> None:
        """`evictions` are by node, in ten minutes, and `every` is how far its times are apart."""
        self._every = every
        self._nodes, self._roles, self._pressure = nodes, roles, pressure
        self._allocatable, self._evictions = allocatable, evictions or {}
        self._began = self._now() - 2 * PAST_SECONDS

    def page(self) -> str:
        """What it says now."""
        at = self._now()
        return "".join(f"{name} {value!r} {at * 1000}\n" for name, value in self._at(at))

    def history(self) -> str:
        """What it has said until now, in OpenMetrics' text."""
        now = self._now()
        times = range(now - PAST_SECONDS, now + 1, self._every)
        lines = (f"{name} {value!r} {at}\n" for at in times for name, value in self._at(at))
        return "".join([*lines, "# EOF\n"])

    def _now(self) -> int:
        """The last of its times."""
        return int(time.time()) // self._every * self._every

    def _at(self, at: int) -> Iterator[tuple[str, float]]:
        seconds = at - self._began
        for name, load in self._nodes.items():
            yield from _of_cores(name, load.cpu, seconds)
            available = (1 - load.memory) * _MEMORY
            yield f'node_memory_MemAvailable_bytes{{instance="{name}"}}', available
            # Only where nobody says what pods may use is it all there is.
            total = _MEMORY * (1.25 if self._allocatable else 1)
            yield f'node_memory_MemTotal_bytes{{instance="{name}"}}', total
            if self._allocatable:
                what = f'{_STATE},node="{name}",resource="memory",unit="byte"'
                yield f"kube_node_status_allocatable{{{what}}}", float(_MEMORY)
            if self._pressure:
                waited = {"cpu": load.cpu_pressure, "memory": load.memory_pressure, "io": 0.01}
                for what, share in waited.items():
                    metric = f"node_pressure_{what}_waiting_seconds_total"
                    yield f'{metric}{{instance="{name}"}}', share * seconds
        for name, role in self._roles.items():
            yield f'kube_node_role{{{_STATE},node="{name}",role="{role}"}}', 1.0
        for name, count in self._evictions.items():
            who = f'instance="resettle",node="{name}",strategy="LowNodeUtilization"'
            yield f'descheduler_pods_evicted_total{{{who},result="success"}}', count * seconds / 600
            yield f'descheduler_pods_evicted_total{{{who},result="error"}}', 7 * seconds / 600


def _of_cores(name: str, used: float, seconds: int) -> Iterator[tuple[str, float]]:
    """Two cores, one a little busier than the other."""
    for core, share in enumerate((used - 0.04, used + 0.04)):
        for mode, part in (("idle", 1 - share), ("user", share)):
            labels = f'instance="{name}",cpu="{core}",mode="{mode}"'
            yield f"node_cpu_seconds_total{{{labels}}}", part * seconds
