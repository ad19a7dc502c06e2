"""Plans by what is measured: live, from a capture, and from what kubectl writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from resettle.testing import (
    ApiServer,
    DeniedPermission,
    cluster,
    node,
    node_metrics,
    pod,
    pod_metrics,
    query_answer,
)
from tests.cli.harness import NOW, listing, resettle, write
from tests.kube.auth.builders import document, written
from tests.utilization.sources.fakes import ASKED_AT, Seer, seeing, truth

QUERY = "rate(node_pressure_cpu_waiting_seconds_total[1m])"


def objects() -> list[dict[str, Any]]:
    """`hot` asks for little and uses much; `cold` has room."""
    pods = [pod(f"web-{i}", cpu="500m") for i in range(5)]
    world = cluster(node("hot").holding(*pods), node("cold"))
    uses = [pod_metrics(f"web-{i}", cpu="700m") for i in range(5)]
    return [
        *world.objects,
        node_metrics("hot", cpu="3600m"),
        node_metrics("cold", cpu="100m"),
        *uses,
    ]


def policy(url: str = "") -> str:
    """By the metrics API, or by what Prometheus at an address says."""
    metrics: dict[str, Any] = {"source": "KubernetesMetrics"}
    thresholds: dict[str, Any] = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 60}}
    providers: list[dict[str, Any]] = [{"source": "KubernetesMetrics"}]
    if url:
        metrics = {"source": "Prometheus", "prometheus": {"query": QUERY}}
        thresholds = {
            "thresholds": {"MetricResource": 20},
            "targetThresholds": {"MetricResource": 60},
        }
        providers = [{"source": "Prometheus", "prometheus": {"url": url}}]
    args = {**thresholds, "metricsUtilization": metrics}
    return yaml.safe_dump(
        {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "metricsProviders": providers,
            "profiles": [
                {
                    "name": "main",
                    "pluginConfig": [{"name": "LowNodeUtilization", "args": args}],
                    "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
                }
            ],
        }
    )


@pytest.fixture
def api_server(tmp_path: Path) -> Iterator[ApiServer]:
    with ApiServer(objects()) as server:
        written(tmp_path, document({"server": server.url}))
        yield server


@pytest.fixture
def seer() -> Iterator[Seer]:
    with seeing(truth({"hot": 0.9, "cold": 0.1}, at=ASKED_AT)) as source:
        yield source


LIVE = ("--kubeconfig", "config", "--policy", "policy.yaml")


@pytest.mark.parametrize("by", ["the metrics API", "Prometheus"])
@pytest.mark.parametrize(
    "hashing", [(), ("--hash-names", "--salt", "oak")], ids=["plain", "hashed"]
)
def test_a_plan_from_a_capture_is_the_plan_from_the_cluster(
    by: str, hashing: tuple[str, ...], api_server: ApiServer, seer: Seer, tmp_path: Path
) -> None:
    text = policy(seer.url if by == "Prometheus" else "")
    write(tmp_path, {"policy.yaml": text})
    live = resettle("plan", *LIVE, "--now", NOW, "-o", "json", cwd=tmp_path)
    took = resettle("snapshot", *LIVE, *hashing, cwd=tmp_path)
    if hashing:
        digest = resettle("snapshot", "--salt", "oak", "--digest", QUERY, cwd=tmp_path).out.split()
        write(tmp_path, {"policy.yaml": text.replace(QUERY, digest[0])})
    later = ("plan", "--cluster", "cluster.json.gz", "--policy", "policy.yaml", "--now", NOW)
    kept = resettle(*later, "-o", "json", cwd=tmp_path)

    assert (live.code, took.code, kept.code) == (0, 0, 0), (live.err, took.err, kept.err)
    moves = json.loads(live.out)["moves"]
    assert len(moves) == (1 if by == "Prometheus" else 2)
    assert len(json.loads(kept.out)["moves"]) == len(moves)
    assert hashing or kept.out == live.out
    if by == "Prometheus":
        assert "1 answers of Prometheus" in took.err
    else:
        assert "2 nodes.metrics.k8s.io, 5 pods.metrics.k8s.io" in took.err


def test_what_cannot_be_measured_is_reported_and_nothing_moves(
    api_server: ApiServer, tmp_path: Path
) -> None:
    api_server.denied.append(DeniedPermission(verb="list", group="metrics.k8s.io"))
    write(tmp_path, {"policy.yaml": policy()})
    plan = resettle("plan", *LIVE, "--now", NOW, cwd=tmp_path)
    snapshot = resettle("snapshot", *LIVE, cwd=tmp_path)

    assert plan.code == 1
    assert "Nothing would move" in plan.out
    assert "may not list nodes of metrics.k8s.io; add to its ClusterRole" in plan.err
    assert snapshot.code == 0
    assert "note: left out: " in snapshot.err
    assert "may not list nodes of metrics.k8s.io" in snapshot.err


def test_a_cluster_without_a_metrics_server_is_captured_without_a_word(tmp_path: Path) -> None:
    with ApiServer([obj for obj in objects() if "Metrics" not in obj["kind"]]) as server:
        written(tmp_path, document({"server": server.url}))
        done = resettle("snapshot", "--kubeconfig", "config", cwd=tmp_path)

    assert done.code == 0
    assert "note" not in done.err


def test_check_access_names_what_measuring_takes(
    api_server: ApiServer, seer: Seer, tmp_path: Path
) -> None:
    secret = {"secretReference": {"namespace": "monitoring", "name": "prometheus-token"}}
    with_token = yaml.safe_load(policy(seer.url))
    with_token["metricsProviders"][0]["prometheus"]["authToken"] = secret
    write(tmp_path, {"policy.yaml": policy(), "token.yaml": yaml.safe_dump(with_token)})
    api = resettle("check-access", *LIVE, cwd=tmp_path)
    token = resettle("check-access", *LIVE[:3], "token.yaml", cwd=tmp_path)

    assert "list    nodes.metrics.k8s.io" in api.out
    assert "list    pods.metrics.k8s.io" in api.out
    assert "get     secrets/prometheus-token" in token.out
    assert "metrics.k8s.io" not in token.out


def test_dumps_of_kubectl_may_hold_what_the_metrics_api_says(tmp_path: Path) -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for obj in objects():
        by_kind.setdefault(obj["kind"], []).append(obj)
    write(
        tmp_path,
        {
            "policy.yaml": policy(),
            "cluster.json": listing([*by_kind["Node"], *by_kind["Pod"]]),
            "nodes.json": listing(by_kind["NodeMetrics"], "NodeMetricsList"),
            "pods.json": listing(by_kind["PodMetrics"], "PodMetricsList"),
        },
    )
    plan = ("plan", "--cluster", "cluster.json", "nodes.json", "pods.json", "--policy")
    then = resettle(*plan, "policy.yaml", "--now", NOW, cwd=tmp_path)
    now = resettle(*plan, "policy.yaml", cwd=tmp_path)

    assert then.code == 0
    assert "hot is at 90% cpu in use (target 60%)" in then.out
    assert now.code == 1
    assert "note: the dump does not say when it was taken" in now.err
    assert "has a figure that is" in now.err


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        pytest.param(
            {**node_metrics("n1", cpu="much")}, "`much` is not a quantity", id="no quantity"
        ),
        pytest.param(
            {**node_metrics("n1", cpu="1"), "timestamp": "noon"}, "`noon` is not a time", id="time"
        ),
        pytest.param(query_answer("busy", {"n1": "x"}), "could not convert", id="no number"),  # type: ignore[dict-item]
        pytest.param({"kind": "QueryAnswer", "samples": []}, "query", id="no query"),
    ],
)
def test_figures_that_cannot_be_read_are_reported_with_their_place(
    broken: dict[str, Any], says: str, tmp_path: Path
) -> None:
    write(tmp_path, {"policy.yaml": policy(), "dump.json": listing([*objects(), broken])})
    done = resettle("plan", "--cluster", "dump.json", "--policy", "policy.yaml", cwd=tmp_path)

    assert done.code == 1
    assert "dump.json: items[" in done.err
    assert says in done.err


def test_explain_speaks_of_use(tmp_path: Path) -> None:
    world = [*objects(), *cluster(node("new")).objects]
    ours = policy().replace("descheduler/v1alpha2", "resettle/v1")
    write(tmp_path, {"policy.yaml": ours, "dump.json": listing(world)})
    asked = ("--cluster", "dump.json", "--policy", "policy.yaml", "--now", NOW)
    hot = resettle("explain", "node", "hot", *asked, cwd=tmp_path)
    new = resettle("explain", "node", "new", *asked, cwd=tmp_path)
    explained = resettle("explain", "pod", "default/web-1", *asked, cwd=tmp_path)

    assert "hot is at 90% cpu in use (target 60%)" in hot.out
    assert "unknown  LowNodeUtilization" in new.out
    assert "new has no figure in the metrics API" in new.out
    assert "hot is at 72% cpu in use (target 60%)" in explained.out
