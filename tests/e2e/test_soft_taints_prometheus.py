"""Soft taints by metrics of a real Prometheus, and where the real scheduler then places pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.servers.load_prometheus import LoadPrometheus
from tests.e2e.soft_taints.account import TainterAccount
from tests.e2e.soft_taints.builders import (
    APPROPRIATE,
    BOTH,
    OVERUTILIZED,
    run_once,
    set_taints,
    soft_taint,
    soft_taints_of,
    tainted_nodes,
)
from tools.control_plane.api import Object

SHORT_INTERVAL = ("--interval", "300ms")
TEN_OFF = {"low": 10, "high": 10, "from_mean": True}
UP_ONLY = {"low": 0, "high": 10, "from_mean": True}
MEDIUM = {"low": 20, "high": 50}
OPENSHIFT: Object = {"softTaints": {"style": "OpenShift"}}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadPrometheus]:
    with LoadPrometheus(tmp_path_factory.mktemp("prometheus")) as made:
        yield made


def selector_of(workspace: Workspace) -> str:
    return f"workspace={workspace.name}"


def loads(workspace: Workspace, *shares: float) -> dict[str, float]:
    """Loads of the first nodes of the workspace; the others are idle."""
    rest = [0.0] * (len(workspace.nodes) - len(shares))
    return dict(zip(workspace.nodes, [*shares, *rest], strict=True))


# -- which nodes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "cordoned", "lines", "expected"),
    [
        pytest.param(
            [0.1, 0.5, 0.9], (), TEN_OFF, [[], [APPROPRIATE], BOTH], id="ten off the mean"
        ),
        pytest.param([0.1, 0.5, 0.9], (), UP_ONLY, [[], [], BOTH], id="under up to the mean"),
        pytest.param([0.1, 0.5, 0.9], (), MEDIUM, [[], [APPROPRIATE], BOTH], id="at percentages"),
        pytest.param([0.1, 0.5, 0.9], (0,), TEN_OFF, [[], [], BOTH], id="none under"),
        pytest.param([0.1, 0.1, 0.1], (), TEN_OFF, [[], [], []], id="all alike and empty"),
        pytest.param([0.9, 0.9, 0.9], (), TEN_OFF, [[], [], []], id="all alike and full"),
        pytest.param([0.95, 0.97, 0.99], (), TEN_OFF, [[], [], []], id="no line above 100"),
        pytest.param([0.9], (), MEDIUM, [BOTH], id="the only node"),
        pytest.param([0.36, 0.35, 0.0], (), UP_ONLY, [BOTH, BOTH, []], id="two over"),
    ],
)
def test_each_node_is_tainted_by_its_band_whatever_taints_it_had(
    use: list[float],
    cordoned: tuple[int, ...],
    lines: Object,
    expected: list[list[str]],
    prometheus: LoadPrometheus,
    tainter: TainterAccount,
    workspace: Workspace,
) -> None:
    chosen = workspace.nodes[: len(use)]
    for i, name in enumerate(chosen):
        labels = {"metadata": {"labels": {"of": workspace.name}}}
        parts = {**labels, "spec": {"unschedulable": i in cordoned}}
        workspace.api.patch(f"/api/v1/nodes/{name}", parts).granted()
        set_taints(
            workspace.api,
            name,
            soft_taint("nodeutilization.descheduler.openshift.io/overutilized=old"),
        )
    prometheus.set_loads(dict(zip(chosen, use, strict=True)))

    run_once(tainter, prometheus.policy(selector=f"of={workspace.name}", **lines, **OPENSHIFT))

    assert [sorted(soft_taints_of(workspace.api, name)) for name in chosen] == expected


def test_pods_are_not_read_if_usage_is_from_prometheus(
    prometheus: LoadPrometheus, tainter: TainterAccount, workspace: Workspace
) -> None:
    prometheus.set_loads(loads(workspace, 0.9))

    run_once(tainter, prometheus.policy(selector=selector_of(workspace)))

    read = {request["objectRef"]["resource"] for request in tainter.requests("list", "watch")}
    assert read == {"nodes"}


# -- loads change, samples are missing -----------------------------------------------------------


def test_a_node_is_tainted_while_its_load_lasts(
    prometheus: LoadPrometheus, tainter: TainterAccount, workspace: Workspace
) -> None:
    hot = workspace.nodes[0]
    prometheus.set_loads(loads(workspace, 0.9))
    with tainter.run(prometheus.policy(selector=selector_of(workspace)), *SHORT_INTERVAL) as run:
        eventually("a taint", lambda: soft_taints_of(workspace.api, hot) == [OVERUTILIZED])
        prometheus.set_loads(loads(workspace, 0.1))
        eventually("none", lambda: soft_taints_of(workspace.api, hot) == [])
        assert run.stop() == 0
    assert tainter.patched_nodes() == [hot, hot]


def test_a_node_without_a_sample_keeps_its_taint_and_does_not_stop_others(
    prometheus: LoadPrometheus, tainter: TainterAccount, workspace: Workspace
) -> None:
    lost, hot = workspace.nodes[:2]
    set_taints(workspace.api, lost, soft_taint(OVERUTILIZED))
    figures = loads(workspace, 0.1, 0.9)
    del figures[lost]
    prometheus.set_loads(figures)

    lines = run_once(tainter, prometheus.policy(selector=selector_of(workspace)))

    assert tainted_nodes(workspace.api, workspace.nodes) == [lost, hot]
    (kept,) = (line for line in lines if line["msg"] == "taints kept as they are")
    assert (kept["nodes"], kept["reason"]) == ([lost], ["usage-missing"])


@pytest.mark.parametrize(
    "figure", [pytest.param(1.01, id="above 1"), pytest.param(-0.1, id="below 0")]
)
def test_an_impossible_sample_is_ignored(
    figure: float, prometheus: LoadPrometheus, tainter: TainterAccount, workspace: Workspace
) -> None:
    odd, hot = workspace.nodes[:2]
    set_taints(workspace.api, odd, soft_taint(OVERUTILIZED))
    prometheus.set_loads(loads(workspace, figure, 0.9))

    run_once(tainter, prometheus.policy(selector=selector_of(workspace)))

    assert tainted_nodes(workspace.api, workspace.nodes) == [odd, hot]


# -- Prometheus does not answer ------------------------------------------------------------------


def test_while_prometheus_is_down_nothing_changes_and_it_recovers(
    prometheus: LoadPrometheus, tainter: TainterAccount, workspace: Workspace
) -> None:
    hot, cool = workspace.nodes[:2]
    prometheus.set_loads(loads(workspace, 0.9))
    with tainter.run(prometheus.policy(selector=selector_of(workspace)), *SHORT_INTERVAL) as run:
        eventually("a taint", lambda: soft_taints_of(workspace.api, hot))
        prometheus.server.kill()
        try:
            run.wait_for("round failed", 3)
            assert tainted_nodes(workspace.api, workspace.nodes) == [hot], "the taint is kept"
        finally:
            prometheus.server.restart()
            prometheus.wait_until_ready()
        prometheus.set_loads(loads(workspace, 0.1, 0.9))
        eventually(
            "the other tainted", lambda: tainted_nodes(workspace.api, workspace.nodes) == [cool]
        )
        assert run.stop() == 0


def test_a_prometheus_that_does_not_answer_in_time_changes_nothing(
    prometheus: LoadPrometheus, tainter: TainterAccount, workspace: Workspace
) -> None:
    prometheus.set_loads(loads(workspace, 0.9))
    with tainter.run(prometheus.policy(selector=selector_of(workspace)), *SHORT_INTERVAL) as run:
        run.wait_for("round done")
        with prometheus.server.paused():
            run.wait_for_more("round failed")
        assert tainted_nodes(workspace.api, workspace.nodes) == [workspace.nodes[0]]
        run.wait_for_more("round done")
        assert run.stop() == 0


def test_a_server_that_is_not_available_is_logged_and_another_can_be_configured(
    prometheus: LoadPrometheus, tainter: TainterAccount, workspace: Workspace
) -> None:
    class Unavailable(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(503)

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing."""

    prometheus.set_loads(loads(workspace, 0.9))
    with ThreadingHTTPServer(("127.0.0.1", 0), Unavailable) as unavailable:
        Thread(target=unavailable.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{unavailable.server_port}"
        with tainter.run(
            prometheus.policy(selector=selector_of(workspace), url=url), *SHORT_INTERVAL
        ) as run:
            (failed, *_) = run.wait_for("round failed")
            assert "503" in failed["reason"]
            assert tainted_nodes(workspace.api, workspace.nodes) == []

            run.policy.write_text(json.dumps(prometheus.policy(selector=selector_of(workspace))))
            eventually(
                "a taint",
                lambda: soft_taints_of(workspace.api, workspace.nodes[0]) == [OVERUTILIZED],
            )
            assert run.stop() == 0
        unavailable.shutdown()


# -- where pods are placed -----------------------------------------------------------------------


def test_the_scheduler_prefers_nodes_with_fewer_soft_taints(
    prometheus: LoadPrometheus, tainter: TainterAccount, workspace: Workspace
) -> None:
    """Requests are the same on all nodes, so only taints make a difference."""
    under, within, over = workspace.nodes[:3]
    for name in workspace.nodes[3:]:
        workspace.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}).granted()
    prometheus.set_loads(loads(workspace, 0.1, 0.4, 0.9, 0.4, 0.4, 0.4))
    run_once(tainter, prometheus.policy(selector=selector_of(workspace), **OPENSHIFT))
    assert [soft_taints_of(workspace.api, name) for name in (under, within, over)] == [
        [],
        [APPROPRIATE],
        BOTH,
    ]

    workspace.deploy("first", replicas=6)
    assert _nodes_of_app(workspace, "first") == {under}

    workspace.api.patch(f"/api/v1/nodes/{under}", {"spec": {"unschedulable": True}}).granted()
    _deploy(workspace, "second", 6)
    assert _nodes_of_app(workspace, "second") == {within}

    workspace.api.patch(f"/api/v1/nodes/{within}", {"spec": {"unschedulable": True}}).granted()
    _deploy(workspace, "third", 6)
    assert _nodes_of_app(workspace, "third") == {over}, (
        "a soft taint does not exclude the only node left"
    )


def _deploy(workspace: Workspace, name: str, replicas: int) -> None:
    ready_before = len(workspace.list_ready_pods())
    labels = {"app": name}
    wanted = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": wanted}
    spec = {"containers": [container], "nodeSelector": {"workspace": workspace.name}}
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    workspace.api.post(f"/apis/apps/v1/namespaces/{workspace.name}/deployments", body).granted()
    eventually(f"{name} ready", lambda: len(workspace.list_ready_pods()) == ready_before + replicas)


def _nodes_of_app(workspace: Workspace, app: str) -> set[str]:
    pods = [pod for pod in workspace.list_pods() if pod["metadata"]["labels"]["app"] == app]
    return {pod["spec"]["nodeName"] for pod in pods}
