"""How busy nodes are, as a test says: an exporter with one gauge, and a Prometheus that scrapes it.

    with Pressure(folder) as pressure:
        pressure.sets({"node-1": 0.9, "node-2": 0.1})

What is set has reached Prometheus when `sets` returns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.cluster.workspace import eventually
from tests.e2e.servers.page_prometheus import Scraped
from tools.control_plane.api import Object

GAUGE = "synthetic_load"
METRIC = "MetricResource"


class Pressure(Scraped):
    """A gauge for each node, and who reads them, while the block lasts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, self._lines)
        self._values: dict[str, float] = {}

    def sets(self, values: dict[str, float]) -> None:
        """Has these nodes, and no others, be as busy as this, from 0 to 1."""
        self._values = dict(values)
        eventually("the figures in Prometheus", lambda: self._told() == values)

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
        """A policy by which nodes are too empty or too full of what the gauge says."""
        lines = {"thresholds": {METRIC: low}, "targetThresholds": {METRIC: high}}
        asking = {"source": "Prometheus", "prometheus": {"query": GAUGE}}
        args = {**lines, "useDeviationThresholds": from_mean, "metricsUtilization": asking}
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

    def _told(self) -> dict[str, float]:
        found = self.asked(GAUGE)
        return {it["metric"]["instance"]: float(it["value"][1]) for it in found}

    def _lines(self) -> str:
        lines = [f'{GAUGE}{{instance="{name}"}} {value}\n' for name, value in self._values.items()]
        return "".join([f"# TYPE {GAUGE} gauge\n", *lines])
