"""Balancing by metrics of a real Prometheus: which pods move, and none on invalid answers."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.policies import OURS, UNLIMITED, UPSTREAM
from tests.e2e.cluster.workloads import (
    NO_BACKGROUND_EVICTIONS,
    cordon_all_but,
    create_deployment,
    uncordon_all,
)
from tests.e2e.cluster.workspace import Workspace, eventually
from tests.e2e.processes.run import RULES, Account, Run, assert_audit_agrees
from tests.e2e.servers.load_prometheus import GAUGE, LoadPrometheus
from tests.e2e.servers.prometheus_gateway import HTML, PrometheusGateway
from tests.kube.auth.fakes import Authority
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

each_version = pytest.mark.parametrize("version", [UPSTREAM, OURS])
SHORT_INTERVAL = ("--descheduling-interval", "500ms", *NO_BACKGROUND_EVICTIONS)
SECRET = "prometheus-token"


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadPrometheus]:
    with LoadPrometheus(tmp_path_factory.mktemp("prometheus")) as created:
        yield created


def policy(
    prometheus: LoadPrometheus,
    workspace: Workspace,
    version: str = OURS,
    *,
    query: str = GAUGE,
    provider: Object | None = None,
    metrics: Object | None = None,
    top: Object | None = None,
    **more: Any,
) -> Object:
    """A policy for the nodes of the workspace, without limits."""
    document = prometheus.policy(selector=f"workspace={workspace.name}")
    ours = version == OURS
    (profile,) = document["profiles"]
    (config,) = profile["pluginConfig"]
    metrics_source = {"source": "Prometheus", "prometheus": {"query": query}, **(metrics or {})}
    config["args"] = {**config["args"], "metricsUtilization": metrics_source, **more}
    evictor_args = {"minPodAge": "0s"} if ours else {}
    profile["pluginConfig"].append({"name": "DefaultEvictor", "args": evictor_args})
    if provider:
        document["metricsProviders"][0]["prometheus"] = provider
    return {**document, "apiVersion": version, **(UNLIMITED if ours else {}), **(top or {})}


def make_hot(
    workspace: Workspace, prometheus: LoadPrometheus, *, count: int = 1, pods: int = 5
) -> list[str]:
    """Makes the first nodes hot, with pods, and all others idle; returns the hot nodes."""
    nodes = workspace.nodes[:count]
    for i, name in enumerate(nodes):
        cordon_all_but(workspace, name)
        create_deployment(workspace, f"app-{i}", pods)
    uncordon_all(workspace)
    shares = dict.fromkeys(workspace.nodes, 0.01) | {
        name: round(0.9 - i / 20, 2) for i, name in enumerate(nodes)
    }
    prometheus.set_loads(shares)
    return nodes


def run_once(account: Account, document: Object, code: int = 0) -> Run:
    with account.run(document, *NO_BACKGROUND_EVICTIONS) as run:
        assert run.wait_for_exit() == code, run.log_text
    return run


def evicted_by_node(before: dict[str, str], run: Run) -> dict[str, int]:
    """The number of evicted pods by node."""
    return dict(Counter(before[line["pod"]] for line in run.lines_of("evicted")))


def nodes_by_pod(workspace: Workspace) -> dict[str, str]:
    return {
        f"{workspace.name}/{pod['metadata']['name']}": pod["spec"]["nodeName"]
        for pod in workspace.list_pods()
    }


# -- which pods move ------------------------------------------------------------------------------


@each_version
@pytest.mark.parametrize(("limit", "moves"), [(None, 1), (2, 2)])
def test_one_pod_leaves_a_hot_node_or_as_many_as_configured(
    version: str,
    limit: int | None,
    moves: int,
    prometheus: LoadPrometheus,
    account: Account,
    workspace: Workspace,
    api: Api,
) -> None:
    (name,) = make_hot(workspace, prometheus)
    before = nodes_by_pod(workspace)
    more: dict[str, Any] = {} if limit is None else {"evictionLimits": {"node": limit}}

    run = run_once(account, policy(prometheus, workspace, version, **more))

    assert evicted_by_node(before, run) == {name: moves}
    assert_audit_agrees(api, account, run)


@each_version
def test_the_hottest_nodes_come_first_if_a_limit_ends_the_cycle(
    version: str, prometheus: LoadPrometheus, account: Account, workspace: Workspace, api: Api
) -> None:
    workspace.add_node()  # a cool node receives no more pods than may leave a hot one
    nodes = make_hot(workspace, prometheus, count=4, pods=6)
    before = nodes_by_pod(workspace)
    top = {"maxNoOfPodsToEvictTotal": 5, "maxNoOfPodsToEvictPerNode": 2}
    document = policy(prometheus, workspace, version, top=top, evictionLimits={"node": 2})
    document.pop("maxPercentOfPodsToEvict", None)

    run = run_once(account, document)

    evicted = evicted_by_node(before, run)
    assert (sum(evicted.values()), evicted[nodes[0]]) == (5, 2)
    # resettle/v1 skips a pod that the scheduler would place on another hot node.
    assert version == OURS or evicted == {nodes[0]: 2, nodes[1]: 2, nodes[2]: 1}
    assert max(evicted.values()) == 2
    assert_audit_agrees(api, account, run)


# -- invalid answers ------------------------------------------------------------------------------


INVALID_ANSWERS = [
    pytest.param(f"{GAUGE} * NaN", "not a number (NaN)", id="NaN"),
    pytest.param(f"{GAUGE} + 1", "which is not from 0 to 1", id="above 1"),
    pytest.param(f"{GAUGE} - 1", "which is not from 0 to 1", id="below 0"),
    pytest.param(f"scalar({GAUGE})", "answered with a scalar", id="a scalar"),
    pytest.param("nothing_of_that_name", "which is empty", id="empty"),
    pytest.param(f"sum({GAUGE}) / 100", "", id="no node is named"),
    pytest.param(f"{GAUGE}[5s]", "answered with a matrix", id="no instant vector"),
    pytest.param(f"{GAUGE} +", "it answered 400: bad_data", id="no query at all"),
    pytest.param(
        f'label_replace({GAUGE}, "instance", "$1:9100", "instance", "(.*)")',
        "which names",
        id="other names",
    ),
]


@each_version
@pytest.mark.parametrize(("query", "says"), INVALID_ANSWERS)
def test_nothing_moves_on_an_invalid_answer(
    version: str,
    query: str,
    says: str,
    prometheus: LoadPrometheus,
    account: Account,
    workspace: Workspace,
) -> None:
    make_hot(workspace, prometheus, pods=2)

    run = run_once(account, policy(prometheus, workspace, version, query=query), code=1)

    (line,) = run.lines_of("plugin failed")
    assert says in line["reason"]
    assert account.eviction_requests() == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param(
            f'{GAUGE} or label_replace({GAUGE}, "twin", "x", "", "")',
            "usage-ambiguous",
            id="two samples for each node",
        ),
        pytest.param(GAUGE, "usage-stale", id="older than the policy allows"),
    ],
)
def test_resettle_v1_uses_neither_ambiguous_nor_old_samples(
    query: str, code: str, prometheus: LoadPrometheus, account: Account, workspace: Workspace
) -> None:
    make_hot(workspace, prometheus, pods=2)
    old = {"maxAge": "1ms"} if code == "usage-stale" else {}

    run = run_once(account, policy(prometheus, workspace, query=query, metrics=old), code=1)

    (line,) = run.lines_of("plugin failed")
    words = {"usage-ambiguous": "has 2 samples", "usage-stale": "old"}
    assert words[code] in line["reason"]
    assert account.eviction_requests() == []


def test_a_node_without_a_sample_stops_v1alpha2_and_is_skipped_by_resettle_v1(
    prometheus: LoadPrometheus, account: Account, workspace: Workspace, api: Api
) -> None:
    (name,) = make_hot(workspace, prometheus)
    lost = workspace.nodes[-1]
    query = f'{GAUGE}{{instance!="{lost}"}}'
    cordon_all_but(
        workspace, *workspace.nodes[:-1]
    )  # the scheduler must not choose the node without a sample

    upstream = run_once(account, policy(prometheus, workspace, UPSTREAM, query=query), code=1)
    assert f"{lost} has no sample in the answer" in upstream.lines_of("plugin failed")[0]["reason"]
    assert account.eviction_requests() == []

    ours = run_once(account, policy(prometheus, workspace, OURS, query=query))
    assert len(ours.lines_of("evicted")) == 1
    assert_audit_agrees(api, account, upstream, ours)
    assert name in workspace.nodes


# -- down, and up again ---------------------------------------------------------------------------


def test_nothing_moves_while_prometheus_does_not_answer_and_then_moves_continue(
    account: Account, workspace: Workspace, api: Api, tmp_path: Path
) -> None:
    # A killed Prometheus may lose data of other tests, so this test has its own.
    with LoadPrometheus(tmp_path) as prometheus:
        make_hot(workspace, prometheus)
        prometheus.server.kill()
        with account.run(policy(prometheus, workspace, UPSTREAM), *SHORT_INTERVAL) as run:
            run.wait_for("plugin failed", 2)
            assert "Connection refused" in run.lines_of("plugin failed")[0]["reason"]
            assert account.eviction_requests() == []
            prometheus.server.restart()
            prometheus.wait_until_ready()
            run.wait_for("evicted")
            with prometheus.server.paused():
                eventually("a timeout", lambda: _timeouts(run))
            wait_until_working(run)
            assert run.stop() == 0
    assert_audit_agrees(api, account, run)


def _timeouts(run: Run) -> list[Object]:
    return [line for line in run.lines_of("plugin failed") if "in time" in line["reason"]]


def test_a_token_is_sent_and_a_changed_token_is_read_again(
    prometheus: LoadPrometheus, plane: Access, workspace: Workspace, api: Api, tmp_path: Path
) -> None:
    make_hot(workspace, prometheus)
    one_secret = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [SECRET],
        "verbs": ["get"],
    }
    authority = Authority(tmp_path, "monitoring")
    tls = authority.guarding(authority.issued("prometheus", "localhost"))
    with (
        PrometheusGateway(prometheus.url, tls) as gateway,
        Account(plane, api, tmp_path, [*RULES, one_secret]) as account,
    ):
        gateway.token = "first"
        put_secret(api, workspace, "first")
        reference = {"secretReference": {"namespace": workspace.name, "name": SECRET}}
        provider = {
            "url": gateway.url,
            "authToken": reference,
            "caFile": str(authority.certificate),
        }
        limits = {"maxNoOfPodsToEvictTotal": 1}
        document = policy(prometheus, workspace, provider=provider, top=limits)
        document.pop("maxPercentOfPodsToEvict", None)
        with account.run(document, *SHORT_INTERVAL) as run:
            run.wait_for("evicted")
            gateway.token = "second"
            wait_for_failure(run, "it does not accept the token (401)")
            put_secret(api, workspace, "second")
            wait_until_working(run)
            gateway.fixed_answer = (200, HTML)
            wait_for_failure(run, "is not an answer of Prometheus: <!DOCTYPE html>")
            gateway.fixed_answer = (503, b"upgrading")
            wait_for_failure(run, "it answered 503: upgrading")
            gateway.fixed_answer = None
            wait_until_working(run)
            api.delete(f"/api/v1/namespaces/{workspace.name}/secrets/{SECRET}")
            wait_for_failure(run, "which should hold the token, is not there")
            put_secret(api, workspace, "second")
            wait_until_working(run)
            assert run.stop() == 0
        assert_audit_agrees(api, account, run)


def put_secret(api: Api, workspace: Workspace, token: str) -> None:
    """Writes the token to the Secret that the policy names."""
    there = f"/api/v1/namespaces/{workspace.name}/secrets"
    data = {"prometheusAuthToken": base64.b64encode(token.encode()).decode()}
    body = {"metadata": {"name": SECRET}, "data": data}
    if api.get(f"{there}/{SECRET}").fine:
        api.patch(f"{there}/{SECRET}", body).granted()
    else:
        api.post(there, body).granted()


def wait_for_failure(run: Run, says: str) -> None:
    """Waits until the plugin has failed with this reason."""
    eventually(
        says, lambda: [line for line in run.lines_of("plugin failed") if says in line["reason"]]
    )


def wait_until_working(run: Run) -> None:
    """Waits for two cycles in a row in which the plugin did not fail."""

    def has_two_in_a_row() -> bool:
        events = [
            line["msg"] for line in run.lines if line["msg"] in ("plugin failed", "cycle done")
        ]
        return events[-2:] == ["cycle done", "cycle done"]

    eventually("cycles without a failure", has_two_in_a_row)


# -- plan and snapshot ----------------------------------------------------------------------------


def test_a_plan_with_a_live_prometheus_equals_one_with_a_snapshot(
    prometheus: LoadPrometheus, account: Account, workspace: Workspace, tmp_path: Path
) -> None:
    from tests.e2e.cluster.service_accounts import run_resettle

    (name,) = make_hot(workspace, prometheus)
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(policy(prometheus, workspace, UPSTREAM)))
    capture = tmp_path / "cluster.json.gz"
    live = ("--kubeconfig", str(account.kubeconfig), "--policy", str(file))

    planned = run_resettle("plan", *live, "-o", "json")
    captured = run_resettle("snapshot", *live, "-o", str(capture))
    from_snapshot = run_resettle(
        "plan", "--cluster", str(capture), "--policy", str(file), "-o", "json"
    )

    assert (planned.code, captured.code, from_snapshot.code) == (0, 0, 0), (
        planned.err,
        captured.err,
        from_snapshot.err,
    )
    (move,) = json.loads(planned.out)["moves"]
    assert move["node"] == name
    assert "by its query (target 50%)" in move["reason"]
    assert json.loads(from_snapshot.out)["moves"] == [move]
