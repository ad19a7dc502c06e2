"""A Prometheus that scrapes a run, with the alerts that are shipped, in seconds for minutes."""

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
from tests.e2e.cluster.missing_programs import absent
from tests.e2e.cluster.workspace import eventually
from tools.control_plane.processes import Crew, free_ports
from tools.go_programs.build import Missing, Programs
from tools.prometheus.package import found

EVERY = "1s"
SOON = "2s"
"""How long an alert waits here before it fires."""
WINDOW = "20s"
"""What rates are counted over; a few scrapes fit in."""
_SECONDS = 10


def prometheus() -> Programs:
    """The programs; a suite without them ends, and says how to get them."""
    try:
        return found()
    except Missing as missing:
        absent(f"Prometheus cannot be had here: {missing}")


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """How promtool ends."""
    command = [prometheus()["promtool"], *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def hasty_rules(**instead: str) -> str:
    """The alerts with no patience, and with other words in place of some."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = SOON
            rule["expr"] = instead.get(rule["alert"], rule["expr"])
    return yaml.safe_dump(rules)


def load_rules() -> str:
    """The rules of load, worked out every second."""
    rules = yaml.safe_load(LOAD_RULES.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        group["interval"] = EVERY
    return yaml.safe_dump(rules)


class Watchman:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def query(self, expr: str) -> list[dict[str, Any]]:
        """What it answers to a query of the dashboard."""
        expr = expr.replace("$job", ".*").replace("$instance", ".*")
        words = urllib.parse.urlencode({"query": expr.replace("$__rate_interval", WINDOW)})
        told = self._get(f"query?{words}")["result"]
        return told if isinstance(told, list) and told and isinstance(told[0], dict) else []

    def value(self, expr: str) -> float:
        """The one value of a query; not a number if there is none."""
        told = self.query(expr)
        return float(told[0]["value"][1]) if len(told) == 1 else float("nan")

    def firing(self) -> set[str]:
        """The alerts that fire."""
        alerts = self._get("alerts")["alerts"]
        return {it["labels"]["alertname"] for it in alerts if it["state"] == "firing"}

    def trouble(self) -> str:
        """What it says of its last scrape; empty if that went well."""
        (target,) = self._get("targets")["activeTargets"]
        return str(target["lastError"])

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self._url}/{path}", timeout=_SECONDS) as heard:
                return json.load(heard)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from None


@contextmanager
def watchman(
    folder: Path,
    port: int,
    how: Mapping[str, Any],
    rules: str,
    *,
    beside: Iterable[Mapping[str, Any]] = (),
) -> Iterator[Watchman]:
    """A Prometheus that scrapes this port and whatever is beside; `how` says how it signs in."""
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
                **how,
            },
            *beside,
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    (own,) = free_ports(1)
    with Crew(folder) as crew:
        process = crew.start(
            "prometheus",
            [
                prometheus()["prometheus"],
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{own}",
            ],
        )

        def ready() -> bool:
            process.check()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{own}/-/ready", timeout=_SECONDS):
                    return True
            except OSError:
                return False

        eventually("Prometheus", ready)
        yield Watchman(own)
