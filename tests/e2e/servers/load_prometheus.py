"""Loads of nodes that a test sets: an exporter with one gauge, and a Prometheus that scrapes it.

    with LoadPrometheus(folder) as prometheus:
        prometheus.set_loads({"node-1": 0.9, "node-2": 0.1})

The values are in Prometheus when `set_loads` returns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.cluster.workspace import eventually
from tests.e2e.servers.page_prometheus import PagePrometheus
from tools.control_plane.api import Object

GAUGE = "synthetic_load"
METRIC = "MetricResource"


class LoadPrometheus(PagePrometheus):
    """A gauge for each node and a Prometheus that scrapes them, while the block lasts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, self._lines)
        self._values: dict[str, float] = {}

    def set_loads(self, values: dict[str, float]) -> None:
        """Sets the load of these nodes, from 0 to 1, and of no others; waits for the scrape."""
        self._values = dict(values)
        eventually("the figures in Prometheus", lambda: self._current_values() == values)

    def policy(
        self,
        low: float = 20,
        high: float = 50,
        *,
        selector: str,
        from_mean: bool = False,
        url: str = "",
        **top: Any,
    ) -> Object:
        """A policy with LowNodeUtilization by the gauge."""
        thresholds = {"thresholds": {METRIC: low}, "targetThresholds": {METRIC: high}}
        metrics_source = {"source": "Prometheus", "prometheus": {"query": GAUGE}}
        args = {
            **thresholds,
            "useDeviationThresholds": from_mean,
            "metricsUtilization": metrics_source,
        }
        provider = {"source": "Prometheus", "prometheus": {"url": url or self.url}}
        profile = {
            "name": "relieve",
            "pluginConfig": [{"name": "LowNodeUtilization", "args": args}],
            "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
        }
        return {
            "apiVersion": "resettle/v1",
            "kind": "DeschedulerPolicy",
            "nodeSelector": selector,
            "metricsProviders": [provider],
            "profiles": [profile],
            **top,
        }

    def _current_values(self) -> dict[str, float]:
        series = self.query(GAUGE)
        return {series["metric"]["instance"]: float(series["value"][1]) for series in series}

    def _lines(self) -> str:
        lines = [f'{GAUGE}{{instance="{name}"}} {value}\n' for name, value in self._values.items()]
        return "".join([f"# TYPE {GAUGE} gauge\n", *lines])
