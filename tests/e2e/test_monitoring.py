"""What a platform team watches: Prometheus scrapes a run, its dashboard shows, alerts fire."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.monitoring import panels
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import RULES, Account, Run
from tests.e2e.servers.alerting_prometheus import hasty_rules, watchman
from tests.e2e.servers.exporters import Exporter, Load
from tests.e2e.servers.faulty_proxy import Between, Fault
from tests.e2e.servers.metrics_endpoint import Endpoint, Reader
from tests.e2e.servers.page_prometheus import about_nodes, served
from tools.control_plane.api import Api
from tools.control_plane.plane import Access

from .test_run import too_old

REVIEWING = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["subjectaccessreviews"],
        "verbs": ["create"],
    },
]
OFTEN = ("--descheduling-interval", "1s", "--client-connection-qps", "-1")


@pytest.fixture
def endpoint(tmp_path: Path) -> Endpoint:
    """Where a run serves."""
    return Endpoint(tmp_path)


@pytest.fixture
def reviewing(plane: Access, api: Api, tmp_path: Path) -> Iterator[Account]:
    """An account that may run, and ask about others."""
    with Account(plane, api, tmp_path, [*RULES, *REVIEWING]) as made:
        yield made


def busy(room: Room) -> dict[str, Any]:
    """A policy by which a few pods of the room leave in each cycle, and more would.

    How full nodes are is looked at as well, and none can be too full.
    """
    made: dict[str, Any] = too_old(room, maxNoOfPodsToEvictPerNode=1)
    (profile,) = made["profiles"]
    lines = {"thresholds": {"pods": 1}, "targetThresholds": {"pods": 100}}
    profile["pluginConfig"].append({"name": "LowNodeUtilization", "args": lines})
    profile["plugins"]["balance"] = {"enabled": ["LowNodeUtilization"]}
    return made


def shown() -> Iterator[tuple[str, str]]:
    """What the dashboard asks for, panel by panel."""
    for panel in panels():
        for target in panel["targets"]:
            yield f"{panel['title']}: {target['expr']}", target["expr"]


def stir(room: Room) -> None:
    """Changes a pod a little."""
    meta = room.running()[0]["metadata"]
    labels = {"stirred": f"{int(meta['labels'].get('stirred', '0')) + 1}"}
    room.api.patch(f"{room.pods}/{meta['name']}", {"metadata": {"labels": labels}}).granted()


def cycled(run: Run) -> bool:
    return any(line.get("evicted", 0) for line in run.told("cycle done"))


def test_prometheus_sees_all_that_the_dashboard_shows_and_tells_of_a_bad_policy(
    reviewing: Account, api: Api, room: Room, endpoint: Endpoint, tmp_path: Path
) -> None:
    reader, stranger = Reader(api, room, may_read=True), Reader(api, room, may_read=False)
    room.deploy("web", replicas=12)
    sign_in = {
        "tls_config": {"ca_file": str(endpoint.ca)},
        "authorization": {"credentials": reader.token},
    }
    flags = (*OFTEN, *endpoint.flags, "--protect-metrics")
    loads = dict.fromkeys(room.nodes, Load(0.5, 0.1, 0.5, 0.1))
    nodes = Exporter(loads, roles=dict.fromkeys(room.nodes, "worker"), every=1)
    with (
        served(nodes.page) as page,
        reviewing.run(busy(room), *flags) as run,
        watchman(
            tmp_path / "prometheus",
            endpoint.port,
            sign_in,
            hasty_rules(),
            beside=[about_nodes(page)],
        ) as prometheus,
    ):
        eventually("a cycle that evicts", lambda: cycled(run) or run.over)
        assert not run.over, run.story
        assert endpoint.status("/readyz") == 200
        assert endpoint.status("/metrics") == 401
        assert endpoint.status("/metrics", "made-up") == 401
        assert endpoint.status("/metrics", stranger.token) == 403
        assert endpoint.status("/metrics", reader.token) == 200

        evicted = 'sum(descheduler_pods_evicted_total{result="success"})'
        eventually("evictions that Prometheus knows", lambda: prometheus.value(evicted) > 0)
        for title, expr in shown():
            eventually(title, partial(prometheus.query, expr))
        assert prometheus.value("sum(resettle_role)") == 1
        assert prometheus.value("sum(resettle_nodes)") >= len(room.nodes)
        assert "ResettlePolicyNotTaken" not in prometheus.firing()

        good = run.policy.read_text()
        run.policy.write_text("apiVersion: nonsense")
        eventually("an alert", lambda: "ResettlePolicyNotTaken" in prometheus.firing())
        assert endpoint.status("/readyz") == 200, "the last good policy is in force"
        run.policy.write_text(good)
        eventually("its end", lambda: "ResettlePolicyNotTaken" not in prometheus.firing())
        told = prometheus.value(evicted)
        assert run.stop() == 0
    assert told <= len(reviewing.evictions())
    assert reviewing.forbidden() == []


def test_prometheus_tells_of_a_cluster_that_is_no_longer_heard(
    account: Account, plane: Access, room: Room, endpoint: Endpoint, tmp_path: Path
) -> None:
    room.deploy("web", replicas=2)
    sign_in = {"tls_config": {"ca_file": str(endpoint.ca)}}
    # Three minutes are too long for a test; of pods that change there is news all the time.
    age = 'max(resettle_cache_age_seconds{kind="Pod"})'
    rules = hasty_rules(ResettleClusterNotHeard=f"{age} > 15")
    with (
        Between(plane, account) as between,
        account.run(busy(room), *OFTEN, "--dry-run", *endpoint.flags) as run,
        watchman(tmp_path / "prometheus", endpoint.port, sign_in, rules) as prometheus,
    ):

        def news() -> bool:
            assert not run.over, run.story
            stir(room)
            return prometheus.value(age) < 5

        eventually("news", news)
        assert "ResettleClusterNotHeard" not in prometheus.firing()

        between.fault = lambda method, path: Fault.TORN
        between.cut()
        eventually("an alert", lambda: "ResettleClusterNotHeard" in prometheus.firing())
        assert endpoint.status("/livez") == 200, "a restart would not help"

        between.fault = lambda method, path: None
        eventually("news again", news)
        eventually("its end", lambda: "ResettleClusterNotHeard" not in prometheus.firing())
        assert run.stop() == 0


def test_who_lacks_the_right_to_ask_about_others_is_told_and_serves_nothing(
    account: Account, room: Room, endpoint: Endpoint
) -> None:
    with account.run(busy(room), *OFTEN, *endpoint.flags, "--protect-metrics") as run:
        assert run.ended() == 1
    says = "may not create tokenreviews of authentication.k8s.io; add to its ClusterRole"
    assert says in run.story, run.story
