"""LowNodeUtilization and LowNodeLoad with the metrics API of a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.hot_nodes import (
    SHORT_INTERVAL,
    low_node_load_policy,
    place_pods_on_first_node,
    policy,
    wait_for_cycles,
)
from tests.e2e.cluster.policies import OURS, UPSTREAM
from tests.e2e.cluster.workloads import NO_BACKGROUND_EVICTIONS
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import Account, assert_audit_agrees
from tests.e2e.servers.metrics_api import RULES_WITH_METRICS, UsageMetrics
from tools.control_plane.api import Api
from tools.control_plane.plane import Access


@pytest.fixture
def account(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """A ServiceAccount that may also read the metrics API."""
    with Account(plane, api, tmp_path, RULES_WITH_METRICS) as made:
        yield made


@pytest.fixture
def figures(workspace: Workspace) -> Iterator[UsageMetrics]:
    with UsageMetrics(workspace) as made:
        yield made


# -- LowNodeUtilization ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [UPSTREAM, OURS])
def test_pods_are_moved_by_measured_usage(
    version: str, figures: UsageMetrics, account: Account, workspace: Workspace, api: Api
) -> None:
    place_pods_on_first_node(workspace)
    figures.nodes(n0="6")
    figures.pods("1")
    document = policy(
        workspace,
        "LowNodeUtilization",
        version,
        thresholds={"cpu": 20},
        targetThresholds={"cpu": 60},
        metricsUtilization={"source": "KubernetesMetrics"},
    )

    with account.run(document, *NO_BACKGROUND_EVICTIONS) as run:
        assert run.wait_for_exit() == 0, run.log_text

    # Both evictions are requested at the same time, so either may be logged first.
    assert {line["reason"] for line in run.lines_of("evicted")} == {
        f"{workspace.nodes[0]} is at 75% cpu in use (target 60%)",
        f"{workspace.nodes[0]} is at 62% cpu in use (target 60%)",
    }
    assert len(run.lines_of("evicted")) == 2
    assert_audit_agrees(api, account, run)
    lists = [
        request
        for request in account.requests()
        if request["objectRef"].get("apiGroup") == "metrics.k8s.io"
    ]
    assert sorted(request["objectRef"]["resource"] for request in lists) == ["nodes", "pods"]


def test_missing_metrics_are_an_error_and_nothing_moves(
    figures: UsageMetrics, account: Account, workspace: Workspace
) -> None:
    place_pods_on_first_node(workspace, pods=2)
    document = policy(
        workspace,
        "LowNodeUtilization",
        thresholds={"cpu": 20},
        targetThresholds={"cpu": 60},
        metricsUtilization={"source": "KubernetesMetrics"},
    )
    with account.run(document, *NO_BACKGROUND_EVICTIONS) as run:
        assert run.wait_for_exit() == 1, run.log_text

    assert "nothing is moved without figures" in run.lines_of("plugin failed")[0]["reason"]
    assert account.eviction_requests() == []


# -- LowNodeLoad ----------------------------------------------------------------------------------


def test_a_node_is_relieved_after_three_high_samples_in_a_row(
    figures: UsageMetrics, account: Account, workspace: Workspace, api: Api
) -> None:
    place_pods_on_first_node(workspace)
    figures.pods("2")
    with account.run(low_node_load_policy(workspace, times=3), *SHORT_INTERVAL) as run:
        for sample in ("6", "6", "1", "6", "6"):
            figures.nodes(n0=sample)
            wait_for_cycles(run)
            assert run.lines_of("evicted") == [], "not three in a row yet"
        wait_for_cycles(run, 5)
        assert run.lines_of("evicted") == [], "the same sample counts once"
        figures.nodes(n0="6")
        run.wait_for("evicted")
        wait_for_cycles(run)
        assert run.stop() == 0
    assert len(run.lines_of("evicted")) == 1
    assert_audit_agrees(api, account, run)


def test_the_pod_that_fits_moves_the_node_pauses_and_then_nothing_moves(
    figures: UsageMetrics, account: Account, workspace: Workspace, api: Api
) -> None:
    name = place_pods_on_first_node(workspace, pods=3)
    small, right, large = sorted(pod["metadata"]["name"] for pod in workspace.list_pods())
    figures.nodes(n0="5600m")
    figures.pods({small: "400m", right: "900m", large: "2"})
    with account.run(low_node_load_policy(workspace), *SHORT_INTERVAL) as run:
        (evicted,) = run.wait_for("evicted")
        assert evicted["pod"] == f"{workspace.name}/{right}", (
            "the node is 0.8 cpu over, and the pod uses 0.9"
        )
        wait_for_cycles(run, 5)
        assert len(run.lines_of("evicted")) == 1, "old metrics are not used twice"
        eventually("a replacement", lambda: len(workspace.list_ready_pods()) == 3)
        figures.nodes(n0="4700m", n1="1")
        figures.pods("400m")
        wait_for_cycles(run, 20)
        assert run.stop() == 0
    assert len(run.lines_of("evicted")) == 1
    assert name == evicted["node"]
    assert_audit_agrees(api, account, run)


def test_nodes_without_metrics_neither_give_nor_take_pods(
    figures: UsageMetrics, account: Account, workspace: Workspace, api: Api
) -> None:
    place_pods_on_first_node(workspace)
    figures.nodes(n0="6")
    figures.pods("2")
    api.delete(f"/apis/metrics.k8s.io/v1beta1/nodes/{workspace.nodes[0]}")
    with account.run(low_node_load_policy(workspace), *NO_BACKGROUND_EVICTIONS) as run:
        assert run.wait_for_exit() == 0, run.log_text

    assert run.lines_of("evicted") == []
