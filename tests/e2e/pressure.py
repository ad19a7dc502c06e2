"""How busy nodes are, as a test says: an exporter with one gauge, and a Prometheus that scrapes it.

    with Pressure(folder) as pressure:
        pressure.sets({"node-1": 0.9, "node-2": 0.1})

What is set has reached Prometheus when `sets` returns.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from tools.control_plane.api import Object
from tools.control_plane.processes import Crew, Process, free_ports

from .room import eventually
from .watchmen import prometheus

GAUGE = "synthetic_load"
METRIC = "MetricResource"
EVERY = "1s"
_SECONDS = 10


class Pressure:
    """A gauge for each node, and who reads them, while the block lasts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._crew = Crew(folder)
        self._values: dict[str, float] = {}
        self._page = ThreadingHTTPServer(("127.0.0.1", 0), self._visit())
        (self._port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}"
        self.server: Process

    def __enter__(self) -> Pressure:
        threading.Thread(target=self._page.serve_forever, daemon=True).start()
        config = self._folder / "prometheus.json"
        config.write_text(json.dumps(self._config()))
        self.server = self._crew.start(
            "prometheus",
            [
                prometheus()["prometheus"],
                f"--config.file={config}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
                "--log.level=warn",
            ],
        )
        self.awaited()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._crew.close()
        self._page.shutdown()
        self._page.server_close()

    def awaited(self) -> None:
        """Returns once Prometheus answers."""
        eventually("a Prometheus that answers", lambda: self._asked("vector(1)"))

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
        found = self._asked(GAUGE)
        return {it["metric"]["instance"]: float(it["value"][1]) for it in found}

    def _asked(self, query: str) -> list[Object]:
        try:
            address = f"{self.url}/api/v1/query?{urlencode({'query': query})}"
            with urllib.request.urlopen(address, timeout=_SECONDS) as heard:
                found: list[Object] = json.load(heard)["data"]["result"]
                return found
        except OSError:
            return []

    def _config(self) -> Object:
        target = f"127.0.0.1:{self._page.server_port}"
        job = {
            "job_name": "nodes",
            # The page tells which node each figure is of; the address of the page does not matter.
            "honor_labels": True,
            "static_configs": [{"targets": [target]}],
        }
        often = {"scrape_interval": EVERY, "scrape_timeout": EVERY}
        return {"global": often, "scrape_configs": [job]}

    def _visit(self) -> type[BaseHTTPRequestHandler]:
        pressure = self

        class Visit(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                lines = [
                    f'{GAUGE}{{instance="{name}"}} {value}\n'
                    for name, value in pressure._values.items()
                ]
                body = "".join([f"# TYPE {GAUGE} gauge\n", *lines]).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(OSError):  # who hangs up early comes again
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Keeps quiet."""

        return Visit
