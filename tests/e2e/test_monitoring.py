"""Prometheus scrapes a run, the dashboard has data and alerts fire."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.monitoring import panels
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import RULES, Account, Run
from tests.e2e.servers.alerting_prometheus import alerting_prometheus, fast_rules
from tests.e2e.servers.exporters import Exporter, Load
from tests.e2e.servers.faulty_proxy import Fault, FaultyProxy
from tests.e2e.servers.metrics_endpoint import Endpoint, MetricsReader
from tests.e2e.servers.page_prometheus import scrape_config, serve_page
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

from .test_run import old_pods_policy

REVIEWING = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["subjectaccessreviews"],
        "verbs": ["create"],
    },
]
SHORT_INTERVAL = ("--descheduling-interval", "1s", "--client-connection-qps", "-1")


@pytest.fixture
def endpoint(tmp_path: Path) -> Endpoint:
    """The endpoint of the metrics of a run."""
    return Endpoint(tmp_path)


@pytest.fixture
def reviewing_account(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """A ServiceAccount with the permissions of a run, and for access reviews."""
    with Account(plane, api, tmp_path, [*RULES, *REVIEWING]) as created:
        yield created


def busy_policy(workspace: Workspace) -> dict[str, Any]:
    """A policy that evicts a few pods of the workspace in each cycle, and refuses others.

    LowNodeUtilization is enabled for its metrics; no node can be over its threshold.
    """
    document: dict[str, Any] = old_pods_policy(workspace, maxNoOfPodsToEvictPerNode=1)
    (profile,) = document["profiles"]
    lines = {"thresholds": {"pods": 1}, "targetThresholds": {"pods": 100}}
    profile["pluginConfig"].append({"name": "LowNodeUtilization", "args": lines})
    profile["plugins"]["balance"] = {"enabled": ["LowNodeUtilization"]}
    return document


def dashboard_queries() -> Iterator[tuple[str, str]]:
    """Title and query of each target of the dashboard."""
    for panel in panels():
        for target in panel["targets"]:
            # The run here has no controller of a plugin; tests/telemetry covers their metrics.
            if "resettle_controller_" not in target["expr"]:
                yield f"{panel['title']}: {target['expr']}", target["expr"]


def change_a_pod(workspace: Workspace) -> None:
    """Changes a label of a pod."""
    meta = workspace.list_pods()[0]["metadata"]
    labels = {"changes": f"{int(meta['labels'].get('changes', '0')) + 1}"}
    workspace.api.patch(
        f"{workspace.pods_path}/{meta['name']}", {"metadata": {"labels": labels}}
    ).granted()


def has_evicted(run: Run) -> bool:
    return any(line.get("evicted", 0) for line in run.lines_of("cycle done"))


def test_every_query_of_the_dashboard_has_data_and_a_bad_policy_raises_an_alert(
    reviewing_account: Account, api: Api, workspace: Workspace, endpoint: Endpoint, tmp_path: Path
) -> None:
    reader, other_reader = (
        MetricsReader(api, workspace, may_read=True),
        MetricsReader(api, workspace, may_read=False),
    )
    workspace.deploy("web", replicas=12)
    sign_in = {
        "tls_config": {"ca_file": str(endpoint.ca)},
        "authorization": {"credentials": reader.token},
    }
    flags = (*SHORT_INTERVAL, *endpoint.flags, "--protect-metrics")
    loads = dict.fromkeys(workspace.nodes, Load(0.5, 0.1, 0.5, 0.1))
    nodes = Exporter(loads, roles=dict.fromkeys(workspace.nodes, "worker"), every=1)
    with (
        serve_page(nodes.page) as page,
        reviewing_account.run(busy_policy(workspace), *flags) as run,
        alerting_prometheus(
            tmp_path / "prometheus",
            endpoint.port,
            sign_in,
            fast_rules(),
            beside=[scrape_config(page)],
        ) as prometheus,
    ):
        eventually("a cycle that evicts", lambda: has_evicted(run) or run.has_ended)
        assert not run.has_ended, run.log_text
        assert endpoint.status("/readyz") == 200
        assert endpoint.status("/metrics") == 401
        assert endpoint.status("/metrics", "made-up") == 401
        assert endpoint.status("/metrics", other_reader.token) == 403
        assert endpoint.status("/metrics", reader.token) == 200

        evicted = 'sum(descheduler_pods_evicted_total{result="success"})'
        eventually("evictions in Prometheus", lambda: prometheus.value(evicted) > 0)
        for title, expr in dashboard_queries():
            eventually(title, partial(prometheus.query, expr))
        assert prometheus.value("sum(resettle_role)") == 1
        assert prometheus.value("sum(resettle_nodes)") >= len(workspace.nodes)
        assert "ResettlePolicyNotTaken" not in prometheus.firing_alerts()

        good = run.policy.read_text()
        run.policy.write_text("apiVersion: nonsense")
        eventually("an alert", lambda: "ResettlePolicyNotTaken" in prometheus.firing_alerts())
        assert endpoint.status("/readyz") == 200, "the last good policy is in force"
        run.policy.write_text(good)
        eventually("its end", lambda: "ResettlePolicyNotTaken" not in prometheus.firing_alerts())
        evicted_count = prometheus.value(evicted)
        assert run.stop() == 0
    assert evicted_count <= len(reviewing_account.evictions())
    assert reviewing_account.forbidden_requests() == []


def test_a_broken_watch_raises_an_alert(
    account: Account, plane: Access, workspace: Workspace, endpoint: Endpoint, tmp_path: Path
) -> None:
    workspace.deploy("web", replicas=2)
    sign_in = {"tls_config": {"ca_file": str(endpoint.ca)}}
    # Three minutes are too long for a test; the test changes a pod all the time.
    age = 'max(resettle_cache_age_seconds{kind="Pod"})'
    rules = fast_rules(ResettleClusterNotHeard=f"{age} > 15")
    with (
        FaultyProxy(plane, account) as proxy,
        account.run(busy_policy(workspace), *SHORT_INTERVAL, "--dry-run", *endpoint.flags) as run,
        alerting_prometheus(tmp_path / "prometheus", endpoint.port, sign_in, rules) as prometheus,
    ):

        def is_recent() -> bool:
            assert not run.has_ended, run.log_text
            change_a_pod(workspace)
            return prometheus.value(age) < 5

        eventually("a recent cache", is_recent)
        assert "ResettleClusterNotHeard" not in prometheus.firing_alerts()

        proxy.fault = lambda method, path: Fault.DROPPED
        proxy.cut_connections()
        eventually("an alert", lambda: "ResettleClusterNotHeard" in prometheus.firing_alerts())
        assert endpoint.status("/livez") == 200, "a restart would not help"

        proxy.fault = lambda method, path: None
        eventually("a recent cache again", is_recent)
        eventually("its end", lambda: "ResettleClusterNotHeard" not in prometheus.firing_alerts())
        assert run.stop() == 0


def test_a_run_without_permission_for_token_reviews_ends_with_an_error(
    account: Account, workspace: Workspace, endpoint: Endpoint
) -> None:
    with account.run(
        busy_policy(workspace), *SHORT_INTERVAL, *endpoint.flags, "--protect-metrics"
    ) as run:
        assert run.wait_for_exit() == 1
    says = "may not create tokenreviews of authentication.k8s.io; add to its ClusterRole"
    assert says in run.log_text, run.log_text
