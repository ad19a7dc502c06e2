"""The metrics of node-exporter and kube-state-metrics for a few nodes whose load is known exactly.

Counters are functions of the time, rounded down to fifteen seconds and exported with that
timestamp. So a rate over any minute is exact to all but the last digits, however late the scrape.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

GRID_SECONDS = 15
PAST_SECONDS = 660
"""As far back as the rules look, and a little more."""
_MEMORY = 64 * 2**30
_STATE = 'instance="kube-state-metrics:8080"'


class Load(NamedTuple):
    """The load of a node: utilization and pressure, each from 0 to 1."""

    cpu: float
    cpu_pressure: float
    memory: float
    memory_pressure: float


class Exporter:
    """The metrics page of all nodes, and its history."""

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
        """`evictions` are by node, in ten minutes; timestamps are `every` seconds apart."""
        self._every = every
        self._nodes, self._roles, self._pressure = nodes, roles, pressure
        self._allocatable, self._evictions = allocatable, evictions or {}
        self._began = self._now() - 2 * PAST_SECONDS

    def page(self) -> str:
        """The page as it is now."""
        timestamp = self._now()
        return "".join(
            f"{name} {value!r} {timestamp * 1000}\n" for name, value in self._samples_at(timestamp)
        )

    def history(self) -> str:
        """All pages until now, in the text format of OpenMetrics."""
        now = self._now()
        times = range(now - PAST_SECONDS, now + 1, self._every)
        lines = (
            f"{name} {value!r} {timestamp}\n"
            for timestamp in times
            for name, value in self._samples_at(timestamp)
        )
        return "".join([*lines, "# EOF\n"])

    def _now(self) -> int:
        """The last timestamp."""
        return int(time.time()) // self._every * self._every

    def _samples_at(self, timestamp: int) -> Iterator[tuple[str, float]]:
        seconds = timestamp - self._began
        for name, load in self._nodes.items():
            yield from _core_counters(name, load.cpu, seconds)
            available = (1 - load.memory) * _MEMORY
            yield f'node_memory_MemAvailable_bytes{{instance="{name}"}}', available
            # Without an allocatable metric, the total of the node is used.
            total = _MEMORY * (1.25 if self._allocatable else 1)
            yield f'node_memory_MemTotal_bytes{{instance="{name}"}}', total
            if self._allocatable:
                labels = f'{_STATE},node="{name}",resource="memory",unit="byte"'
                yield f"kube_node_status_allocatable{{{labels}}}", float(_MEMORY)
            if self._pressure:
                pressures = {"cpu": load.cpu_pressure, "memory": load.memory_pressure, "io": 0.01}
                for resource, share in pressures.items():
                    metric = f"node_pressure_{resource}_waiting_seconds_total"
                    yield f'{metric}{{instance="{name}"}}', share * seconds
        for name, role in self._roles.items():
            yield f'kube_node_role{{{_STATE},node="{name}",role="{role}"}}', 1.0
        for name, count in self._evictions.items():
            labels = f'instance="resettle",node="{name}",strategy="LowNodeUtilization"'
            yield (
                f'descheduler_pods_evicted_total{{{labels},result="success"}}',
                count * seconds / 600,
            )
            yield f'descheduler_pods_evicted_total{{{labels},result="error"}}', 7 * seconds / 600


def _core_counters(name: str, used: float, seconds: int) -> Iterator[tuple[str, float]]:
    """The counters of two cores, one a little busier than the other."""
    for core, share in enumerate((used - 0.04, used + 0.04)):
        for mode, part in (("idle", 1 - share), ("user", share)):
            labels = f'instance="{name}",cpu="{core}",mode="{mode}"'
            yield f"node_cpu_seconds_total{{{labels}}}", part * seconds
