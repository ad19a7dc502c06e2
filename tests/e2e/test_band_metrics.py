"""What a run tells of its nodes: figures, lines and bands, as they change and as nodes go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import Account
from tests.e2e.servers.load_prometheus import Pressure
from tests.e2e.servers.metrics_endpoint import Endpoint
from tools.control_plane.api import Api

OFTEN = ("--descheduling-interval", "500ms", "--dry-run")
OF_LOAD = "descheduler_lownodeutilization"


class Told:
    """The gauges of nodes, as a scrape has them."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._lines = endpoint.metrics()

    @property
    def classes(self) -> dict[str, float]:
        return self._by("node", f"{OF_LOAD}_node_classification")

    @property
    def shares(self) -> dict[str, float]:
        return self._by("node", f"{OF_LOAD}_node_utilization_value")

    @property
    def lines(self) -> dict[str, set[float]]:
        """Both lines, with the values that they have for any node."""
        found: dict[str, set[float]] = {}
        for it in self._lines:
            if it.name == f"{OF_LOAD}_node_utilization_threshold":
                found.setdefault(it.labels["threshold_type"], set()).add(it.value)
        return found

    @property
    def counts(self) -> dict[str, float]:
        return self._by("band", "resettle_nodes")

    def _by(self, label: str, name: str) -> dict[str, float]:
        return {it.labels[label]: it.value for it in self._lines if it.name == name}


@pytest.mark.parametrize("from_mean", [False, True], ids=["fixed lines", "by the mean"])
def test_gauges_follow_loads_and_forget_nodes_that_are_gone(
    from_mean: bool, account: Account, room: Room, api: Api, tmp_path: Path
) -> None:
    full, fair, *empty = room.nodes
    lost, endpoint = empty[-1], Endpoint(tmp_path)
    busy = {full: 0.9, fair: 0.4, **dict.fromkeys(empty, 0.1)}  # 0.28 in the mean
    low, high = (10, 20) if from_mean else (20, 50)
    with Pressure(tmp_path) as pressure:
        pressure.sets(busy)
        document = pressure.policy(low, high, selector=f"room={room.name}", from_mean=from_mean)
        with account.run(document, *OFTEN, *endpoint.flags) as run:

            def counted(under: int, within: int, over: int, unknown: int) -> None:
                wanted = {"under": under, "within": within, "over": over, "unknown": unknown}
                eventually(f"{wanted}", lambda: run.over or Told(endpoint).counts == wanted)
                assert not run.over, run.story

            counted(4, 1, 1, 0)
            told = Told(endpoint)
            assert told.shares == pytest.approx(busy, abs=0.011)  # whole percents, cut off
            assert told.classes == {full: 2, fair: 1, **dict.fromkeys(empty, 0)}
            (bottom,), (top,) = told.lines["low"], told.lines["high"]
            mean = sum(told.shares.values()) / len(busy)
            lines = (mean - 0.1, mean + 0.2) if from_mean else (0.2, 0.5)
            assert (bottom, top) == pytest.approx(lines)

            del busy[lost]
            pressure.sets(busy | {full: 0.1})  # 0.16 in the mean
            counted(*((0, 4, 1, 1) if from_mean else (4, 1, 0, 1)))
            assert Told(endpoint).classes.keys() == busy.keys()

            for name in (lost, empty[0]):
                api.delete(f"/api/v1/nodes/{name}")
            counted(*((0, 3, 1, 0) if from_mean else (3, 1, 0, 0)))
            told = Told(endpoint)
            assert told.classes.keys() == told.shares.keys() == busy.keys() - {empty[0]}
            assert run.stop() == 0
