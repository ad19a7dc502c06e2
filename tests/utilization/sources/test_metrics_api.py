"""The metrics API: one list for all nodes, one for all pods, and short peaks evened out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from resettle.kube.auth.access import Access
from resettle.kube.transport.client import Client
from resettle.model.measurements import METRICS_API, SMOOTHED, Measured, Readings, Used
from resettle.model.resources import parse_quantity
from resettle.testing import (
    NOW,
    ApiServer,
    DeniedPermission,
    Fault,
    ManualClock,
    node_metrics,
    pod_metrics,
)
from resettle.utilization.sources.metrics_api import MetricsApi, smooth


def looked(
    server: ApiServer, *between: Callable[[], object], clock: ManualClock | None = None
) -> Measured:
    """What is known after a look, and one more after each thing that happens."""

    async def run_scenario() -> Measured:
        async with Client(Access(server=server.url)) as client:
            api = MetricsApi(client, clock or ManualClock())
            await api.poll()
            for happens in between:
                await asyncio.to_thread(happens)
                await api.poll()
            return await api.readings()

    return asyncio.run(run_scenario())


def cpu(readings: Readings) -> dict[str, int]:
    """Thousandths of cpu by node."""
    return {name: used.amounts["cpu"] // 10**6 for name, used in readings.nodes.items()}


def test_all_nodes_come_with_one_list_and_all_pods_with_another() -> None:
    world = [
        node_metrics("n1", cpu="1500m", memory="2Gi"),
        node_metrics("n2", cpu="123456789n", memory="3Gi"),
        pod_metrics("a", cpu="100m", memory="10Mi"),
    ]
    with ApiServer(world) as server:
        measured = looked(server)
        paths = [request.path for request in server.requests]

    assert cpu(measured[METRICS_API]) == {"n1": 1500, "n2": 123}
    assert measured[METRICS_API].nodes["n1"].at == NOW - timedelta(seconds=10)
    assert measured[METRICS_API].pods["default/a"].amounts == {
        "cpu": parse_quantity("100m"),
        "memory": parse_quantity("10Mi"),
    }
    assert paths == [f"/apis/metrics.k8s.io/v1beta1/{kind}" for kind in ("nodes", "pods")]


def test_of_each_further_look_a_tenth_counts() -> None:
    with ApiServer([node_metrics("n1", cpu="1")]) as server:
        measured = looked(
            server,
            lambda: server.store.put(node_metrics("n1", cpu="2", age="5s")),
            lambda: server.store.put(node_metrics("n1", cpu="2", age="0s")),
        )

    assert cpu(measured[METRICS_API]) == {"n1": 2000}
    assert cpu(measured[SMOOTHED]) == {"n1": 1190}
    assert measured[SMOOTHED].nodes["n1"].at == NOW


@pytest.mark.parametrize(
    ("name", "old", "new", "mixed"),
    [
        pytest.param("cpu", "1", "2", "1100m", id="nine parts old, one part new"),
        pytest.param("cpu", "5m", "10m", "6m", id="half a thousandth goes up"),
        pytest.param("cpu", "4m", "8m", "4m", id="less goes down"),
        pytest.param("cpu", "100u", "11m", "2m", id="rounded up before they are mixed"),
        pytest.param("memory", "1000", "2005", "1101", id="memory in whole bytes"),
    ],
)
def test_figures_are_evened_out_as_upstream_does(name: str, old: str, new: str, mixed: str) -> None:
    before, now = (Used(NOW, {name: parse_quantity(text)}) for text in (old, new))

    assert smooth(before, now).amounts == {name: parse_quantity(mixed)}
    assert smooth(None, now) == now


def test_a_look_that_fails_leaves_what_is_known_to_grow_old() -> None:
    broken = Fault(status=500, path="/apis/metrics.k8s.io/v1beta1/nodes")
    with ApiServer([node_metrics("n1", cpu="1")]) as server:
        measured = looked(server, lambda: server.faults.add(broken))

    assert cpu(measured[METRICS_API]) == {"n1": 1000}
    assert measured[METRICS_API].failure == ""


def test_a_node_that_is_no_longer_listed_is_forgotten_in_the_end() -> None:
    clock = ManualClock()

    def goes() -> None:
        server.store.delete("NodeMetrics", "n1", "")

    with ApiServer([node_metrics("n1", cpu="1"), node_metrics("n2", cpu="1")]) as server:
        soon = looked(server, goes, clock=clock)
        server.store.put(node_metrics("n1", cpu="1"))
        late = looked(server, goes, lambda: clock.advance(timedelta(minutes=11)), clock=clock)

    assert set(soon[METRICS_API].nodes) == {"n1", "n2"}
    assert set(late[METRICS_API].nodes) == {"n2"}


def failing(status: int) -> dict[str, Any]:
    return {"faults": [Fault(status=status, times=9)]}


def wrong(**usage: Any) -> dict[str, Any]:
    return {**node_metrics("n2", cpu="1"), "usage": usage}


def test_what_cannot_be_read_is_left_out_alone() -> None:
    no_time = node_metrics("n3", cpu="1")
    del no_time["timestamp"]
    half = pod_metrics("half", cpu="1")
    half["containers"].append({"name": "sidecar", "usage": {"cpu": "1"}})
    empty = pod_metrics("empty", cpu="1")
    empty["containers"] = []
    world = [
        node_metrics("n1", cpu="1"),
        wrong(cpu="-1", memory="1"),
        no_time,
        half,
        empty,
        pod_metrics("whole", cpu="1"),
    ]
    with ApiServer(world) as server:
        measured = looked(server)[METRICS_API]

    assert set(measured.nodes) == {"n1"}
    assert set(measured.pods) == {"default/whole"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        pytest.param({}, "the metrics API knows no node", id="empty"),
        pytest.param(
            failing(404),
            "does not serve metrics.k8s.io",
            id="not served",
        ),
        pytest.param(
            failing(503),
            "answered 503 to a list of nodes",
            id="not there now",
        ),
        pytest.param(
            {"denied": [DeniedPermission(verb="list", group="metrics.k8s.io")]},
            "may not list nodes of metrics.k8s.io",
            id="not allowed",
        ),
    ],
)
def test_what_cannot_be_had_is_reported(more: dict[str, Any], says: str) -> None:
    with ApiServer(**more) as server:
        measured = looked(server)

    assert says in measured[METRICS_API].failure
    assert measured[SMOOTHED] == measured[METRICS_API]


def test_without_pods_nothing_is_known_of_nodes_either() -> None:
    broken = Fault(status=500, path="/apis/metrics.k8s.io/v1beta1/pods")
    with ApiServer([node_metrics("n1", cpu="1")], faults=[broken]) as server:
        measured = looked(server)

    assert "answered 500 to a list of pods" in measured[METRICS_API].failure
