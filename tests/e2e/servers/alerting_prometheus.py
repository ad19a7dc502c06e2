"""A Prometheus that scrapes a run, with the shipped alerts, which fire after seconds here."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.monitoring import LOAD_RULES, RULES
from tests.e2e.cluster.missing_programs import skip_or_fail
from tests.e2e.cluster.workspace import eventually
from tools.control_plane.processes import Crew, free_ports
from tools.go_programs.build import Missing, Programs
from tools.prometheus.package import found as find_prometheus

EVERY = "1s"
SOON = "2s"
"""How long the condition of an alert must hold before it fires here."""
WINDOW = "20s"
"""The window of rates; long enough for a few scrapes."""
_SECONDS = 10


def prometheus() -> Programs:
    """The programs of Prometheus; skips or fails the suite where they are missing."""
    try:
        return find_prometheus()
    except Missing as missing:
        skip_or_fail(f"Prometheus is not available here: {missing}")


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs promtool; returns its exit code and output."""
    command = [prometheus()["promtool"], *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def fast_rules(**instead: str) -> str:
    """The shipped alerts with a short `for`, and with other expressions for some."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = SOON
            rule["expr"] = instead.get(rule["alert"], rule["expr"])
    return yaml.safe_dump(rules)


def load_rules() -> str:
    """The load rules, evaluated every second."""
    rules = yaml.safe_load(LOAD_RULES.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        group["interval"] = EVERY
    return yaml.safe_dump(rules)


class AlertingPrometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The result of a query of the dashboard."""
        expr = expr.replace("$job", ".*").replace("$instance", ".*")
        words = urllib.parse.urlencode({"query": expr.replace("$__rate_interval", WINDOW)})
        result = self._get(f"query?{words}")["result"]
        return result if isinstance(result, list) and result and isinstance(result[0], dict) else []

    def value(self, expr: str) -> float:
        """The only value of a query; NaN if there is not exactly one."""
        result = self.query(expr)
        return float(result[0]["value"][1]) if len(result) == 1 else float("nan")

    def firing_alerts(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self._get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def scrape_error(self) -> str:
        """The error of the last scrape; empty if there was none."""
        (target,) = self._get("targets")["activeTargets"]
        return str(target["lastError"])

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self._url}/{path}", timeout=_SECONDS) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from None


@contextmanager
def alerting_prometheus(
    folder: Path,
    port: int,
    auth: Mapping[str, Any],
    rules: str,
    *,
    beside: Iterable[Mapping[str, Any]] = (),
) -> Iterator[AlertingPrometheus]:
    """Runs a Prometheus that scrapes this port, with `auth`, and the jobs in `beside`."""
    folder.mkdir()
    (folder / "rules.yaml").write_text(rules)
    (folder / "load-rules.yaml").write_text(load_rules())
    config = {
        "global": {
            "scrape_interval": EVERY,
            "scrape_timeout": EVERY,
            "evaluation_interval": EVERY,
        },
        "rule_files": ["rules.yaml", "load-rules.yaml"],
        "scrape_configs": [
            {
                "job_name": "resettle",
                "scheme": "https",
                "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
                **auth,
            },
            *beside,
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    (own_port,) = free_ports(1)
    with Crew(folder) as crew:
        process = crew.start(
            "prometheus",
            [
                prometheus()["prometheus"],
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{own_port}",
            ],
        )

        def is_ready() -> bool:
            process.check()
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{own_port}/-/ready", timeout=_SECONDS
                ):
                    return True
            except OSError:
                return False

        eventually("Prometheus", is_ready)
        yield AlertingPrometheus(own_port)
