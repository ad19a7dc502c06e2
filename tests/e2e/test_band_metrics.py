"""Metrics about nodes: utilization, thresholds and bands, while loads change and nodes go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import Account
from tests.e2e.servers.load_prometheus import LoadPrometheus
from tests.e2e.servers.metrics_endpoint import Endpoint
from tools.control_plane.api import Api

SHORT_INTERVAL = ("--descheduling-interval", "500ms", "--dry-run")
METRIC_PREFIX = "descheduler_lownodeutilization"


class NodeGauges:
    """The gauges of nodes in one scrape."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._lines = endpoint.metrics()

    @property
    def classes(self) -> dict[str, float]:
        return self._by("node", f"{METRIC_PREFIX}_node_classification")

    @property
    def shares(self) -> dict[str, float]:
        return self._by("node", f"{METRIC_PREFIX}_node_utilization_value")

    @property
    def thresholds(self) -> dict[str, set[float]]:
        """The values of both thresholds, over all nodes."""
        thresholds: dict[str, set[float]] = {}
        for reading in self._lines:
            if reading.name == f"{METRIC_PREFIX}_node_utilization_threshold":
                thresholds.setdefault(reading.labels["threshold_type"], set()).add(reading.value)
        return thresholds

    @property
    def counts(self) -> dict[str, float]:
        return self._by("band", "resettle_nodes")

    def _by(self, label: str, name: str) -> dict[str, float]:
        return {
            reading.labels[label]: reading.value for reading in self._lines if reading.name == name
        }


@pytest.mark.parametrize("from_mean", [False, True], ids=["fixed thresholds", "by the mean"])
def test_gauges_follow_loads_and_disappear_with_their_nodes(
    from_mean: bool, account: Account, workspace: Workspace, api: Api, tmp_path: Path
) -> None:
    full, fair, *empty = workspace.nodes
    lost, endpoint = empty[-1], Endpoint(tmp_path)
    busy = {full: 0.9, fair: 0.4, **dict.fromkeys(empty, 0.1)}  # 0.28 in the mean
    low, high = (10, 20) if from_mean else (20, 50)
    with LoadPrometheus(tmp_path) as prometheus:
        prometheus.set_loads(busy)
        document = prometheus.policy(
            low, high, selector=f"workspace={workspace.name}", from_mean=from_mean
        )
        with account.run(document, *SHORT_INTERVAL, *endpoint.flags) as run:

            def wait_for_counts(under: int, within: int, over: int, unknown: int) -> None:
                wanted = {"under": under, "within": within, "over": over, "unknown": unknown}
                eventually(
                    f"{wanted}", lambda: run.has_ended or NodeGauges(endpoint).counts == wanted
                )
                assert not run.has_ended, run.log_text

            wait_for_counts(4, 1, 1, 0)
            gauges = NodeGauges(endpoint)
            assert gauges.shares == pytest.approx(busy, abs=0.011)  # rounded down to whole percents
            assert gauges.classes == {full: 2, fair: 1, **dict.fromkeys(empty, 0)}
            (low_value,), (high_value,) = gauges.thresholds["low"], gauges.thresholds["high"]
            mean = sum(gauges.shares.values()) / len(busy)
            lines = (mean - 0.1, mean + 0.2) if from_mean else (0.2, 0.5)
            assert (low_value, high_value) == pytest.approx(lines)

            del busy[lost]
            prometheus.set_loads(busy | {full: 0.1})  # 0.16 in the mean
            wait_for_counts(*((0, 4, 1, 1) if from_mean else (4, 1, 0, 1)))
            assert NodeGauges(endpoint).classes.keys() == busy.keys()

            for name in (lost, empty[0]):
                api.delete(f"/api/v1/nodes/{name}")
            wait_for_counts(*((0, 3, 1, 0) if from_mean else (3, 1, 0, 0)))
            gauges = NodeGauges(endpoint)
            assert gauges.classes.keys() == gauges.shares.keys() == busy.keys() - {empty[0]}
            assert run.stop() == 0
