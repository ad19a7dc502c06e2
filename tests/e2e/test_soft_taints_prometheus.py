"""Soft taints by what a real Prometheus says, and where the real scheduler then puts pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.servers.load_prometheus import Pressure
from tests.e2e.soft_taints.account import TainterAccount
from tests.e2e.soft_taints.builders import BOTH, CALM, MARK, give, marked, marks, once, soft
from tools.control_plane.api import Object

OFTEN = ("--interval", "300ms")
TEN_OFF = {"low": 10, "high": 10, "from_mean": True}
UP_ONLY = {"low": 0, "high": 10, "from_mean": True}
MEDIUM = {"low": 20, "high": 50}
OPENSHIFT: Object = {"softTaints": {"style": "OpenShift"}}


@pytest.fixture(scope="module")
def pressure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pressure]:
    with Pressure(tmp_path_factory.mktemp("pressure")) as made:
        yield made


def of(room: Room) -> str:
    return f"room={room.name}"


def busy(room: Room, *shares: float) -> dict[str, float]:
    """The first nodes of the room this busy, and the others idle."""
    rest = [0.0] * (len(room.nodes) - len(shares))
    return dict(zip(room.nodes, [*shares, *rest], strict=True))


# -- which nodes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "cordoned", "lines", "expected"),
    [
        pytest.param([0.1, 0.5, 0.9], (), TEN_OFF, [[], [CALM], BOTH], id="ten off the mean"),
        pytest.param([0.1, 0.5, 0.9], (), UP_ONLY, [[], [], BOTH], id="under up to the mean"),
        pytest.param([0.1, 0.5, 0.9], (), MEDIUM, [[], [CALM], BOTH], id="at percentages"),
        pytest.param([0.1, 0.5, 0.9], (0,), TEN_OFF, [[], [], BOTH], id="nobody is under"),
        pytest.param([0.1, 0.1, 0.1], (), TEN_OFF, [[], [], []], id="all alike and empty"),
        pytest.param([0.9, 0.9, 0.9], (), TEN_OFF, [[], [], []], id="all alike and full"),
        pytest.param([0.95, 0.97, 0.99], (), TEN_OFF, [[], [], []], id="no line above 100"),
        pytest.param([0.9], (), MEDIUM, [BOTH], id="the only node"),
        pytest.param([0.36, 0.35, 0.0], (), UP_ONLY, [BOTH, BOTH, []], id="two above"),
    ],
)
def test_each_node_is_marked_by_its_band_whatever_it_was_marked_with(
    use: list[float],
    cordoned: tuple[int, ...],
    lines: Object,
    expected: list[list[str]],
    pressure: Pressure,
    tainter: TainterAccount,
    room: Room,
) -> None:
    chosen = room.nodes[: len(use)]
    for i, name in enumerate(chosen):
        labels = {"metadata": {"labels": {"of": room.name}}}
        parts = {**labels, "spec": {"unschedulable": i in cordoned}}
        room.api.patch(f"/api/v1/nodes/{name}", parts).granted()
        give(room.api, name, soft("nodeutilization.descheduler.openshift.io/overutilized=old"))
    pressure.sets(dict(zip(chosen, use, strict=True)))

    once(tainter, pressure.policy(selector=f"of={room.name}", **lines, **OPENSHIFT))

    assert [sorted(marks(room.api, name)) for name in chosen] == expected


def test_pods_are_not_read_where_prometheus_says_it_all(
    pressure: Pressure, tainter: TainterAccount, room: Room
) -> None:
    pressure.sets(busy(room, 0.9))

    once(tainter, pressure.policy(selector=of(room)))

    read = {it["objectRef"]["resource"] for it in tainter.audited("list", "watch")}
    assert read == {"nodes"}


# -- loads change, figures are missing -----------------------------------------------------------


def test_a_node_is_tainted_while_its_load_lasts(
    pressure: Pressure, tainter: TainterAccount, room: Room
) -> None:
    hot = room.nodes[0]
    pressure.sets(busy(room, 0.9))
    with tainter.run(pressure.policy(selector=of(room)), *OFTEN) as run:
        eventually("a taint", lambda: marks(room.api, hot) == [MARK])
        pressure.sets(busy(room, 0.1))
        eventually("none", lambda: marks(room.api, hot) == [])
        assert run.stop() == 0
    assert tainter.patched() == [hot, hot]


def test_a_node_without_a_figure_keeps_its_taint_and_stops_no_other(
    pressure: Pressure, tainter: TainterAccount, room: Room
) -> None:
    lost, hot = room.nodes[:2]
    give(room.api, lost, soft(MARK))
    figures = busy(room, 0.1, 0.9)
    del figures[lost]
    pressure.sets(figures)

    lines = once(tainter, pressure.policy(selector=of(room)))

    assert marked(room.api, room.nodes) == [lost, hot]
    (kept,) = (it for it in lines if it["msg"] == "taints kept as they are")
    assert (kept["nodes"], kept["reason"]) == ([lost], ["usage-missing"])


@pytest.mark.parametrize(
    "figure", [pytest.param(1.01, id="above 1"), pytest.param(-0.1, id="below 0")]
)
def test_an_impossible_figure_is_no_figure(
    figure: float, pressure: Pressure, tainter: TainterAccount, room: Room
) -> None:
    odd, hot = room.nodes[:2]
    give(room.api, odd, soft(MARK))
    pressure.sets(busy(room, figure, 0.9))

    once(tainter, pressure.policy(selector=of(room)))

    assert marked(room.api, room.nodes) == [odd, hot]


# -- Prometheus away -----------------------------------------------------------------------------


def test_while_prometheus_is_down_nothing_changes_and_it_recovers(
    pressure: Pressure, tainter: TainterAccount, room: Room
) -> None:
    hot, cool = room.nodes[:2]
    pressure.sets(busy(room, 0.9))
    with tainter.run(pressure.policy(selector=of(room)), *OFTEN) as run:
        eventually("a taint", lambda: marks(room.api, hot))
        pressure.server.kill()
        try:
            run.awaits("round failed", 3)
            assert marked(room.api, room.nodes) == [hot], "kept as it is"
        finally:
            pressure.server.restart()
            pressure.awaited()
        pressure.sets(busy(room, 0.1, 0.9))
        eventually("the other tainted", lambda: marked(room.api, room.nodes) == [cool])
        assert run.stop() == 0


def test_a_prometheus_that_does_not_answer_in_time_changes_nothing(
    pressure: Pressure, tainter: TainterAccount, room: Room
) -> None:
    pressure.sets(busy(room, 0.9))
    with tainter.run(pressure.policy(selector=of(room)), *OFTEN) as run:
        run.awaits("round done")
        with pressure.server.paused():
            run.awaits_more("round failed")
        assert marked(room.api, room.nodes) == [room.nodes[0]]
        run.awaits_more("round done")
        assert run.stop() == 0


def test_a_server_that_is_not_available_is_told_and_another_is_taken(
    pressure: Pressure, tainter: TainterAccount, room: Room
) -> None:
    class Unavailable(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(503)

        def log_message(self, format: str, *args: Any) -> None:
            """Keeps quiet."""

    pressure.sets(busy(room, 0.9))
    with ThreadingHTTPServer(("127.0.0.1", 0), Unavailable) as away:
        Thread(target=away.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{away.server_port}"
        with tainter.run(pressure.policy(selector=of(room), url=url), *OFTEN) as run:
            (failed, *_) = run.awaits("round failed")
            assert "503" in failed["reason"]
            assert marked(room.api, room.nodes) == []

            run.policy.write_text(json.dumps(pressure.policy(selector=of(room))))
            eventually("a taint", lambda: marks(room.api, room.nodes[0]) == [MARK])
            assert run.stop() == 0
        away.shutdown()


# -- where pods go -------------------------------------------------------------------------------


def test_the_scheduler_prefers_nodes_that_are_less_marked(
    pressure: Pressure, tainter: TainterAccount, room: Room
) -> None:
    """Requests are the same everywhere, so but for taints any of the three would do."""
    under, within, over = room.nodes[:3]
    for name in room.nodes[3:]:
        room.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}).granted()
    pressure.sets(busy(room, 0.1, 0.4, 0.9, 0.4, 0.4, 0.4))
    once(tainter, pressure.policy(selector=of(room), **OPENSHIFT))
    assert [marks(room.api, it) for it in (under, within, over)] == [[], [CALM], BOTH]

    room.deploy("first", replicas=6)
    assert _homes(room, "first") == {under}

    room.api.patch(f"/api/v1/nodes/{under}", {"spec": {"unschedulable": True}}).granted()
    _deploy(room, "second", 6)
    assert _homes(room, "second") == {within}

    room.api.patch(f"/api/v1/nodes/{within}", {"spec": {"unschedulable": True}}).granted()
    _deploy(room, "third", 6)
    assert _homes(room, "third") == {over}, "a soft taint keeps nobody from the last resort"


def _deploy(room: Room, name: str, replicas: int) -> None:
    there = len(room.ready())
    labels = {"app": name}
    wanted = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": wanted}
    spec = {"containers": [container], "nodeSelector": {"room": room.name}}
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    room.api.post(f"/apis/apps/v1/namespaces/{room.name}/deployments", body).granted()
    eventually(f"{name} ready", lambda: len(room.ready()) == there + replicas)


def _homes(room: Room, app: str) -> set[str]:
    pods = [it for it in room.running() if it["metadata"]["labels"]["app"] == app]
    return {it["spec"]["nodeName"] for it in pods}
