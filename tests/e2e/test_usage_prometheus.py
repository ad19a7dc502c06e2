"""Balancing by what a real Prometheus says: who goes, and nobody while it cannot be believed."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.policies import OURS, UNLIMITED, UPSTREAM
from tests.e2e.cluster.workloads import ALONE, open_all, open_only, workload
from tests.e2e.cluster.workspace import Room, eventually
from tests.e2e.processes.run import RULES, Account, Run, settled
from tests.e2e.servers.load_prometheus import GAUGE, Pressure
from tests.e2e.servers.prometheus_gateway import HTML, Gatekeeper
from tests.kube.auth.fakes import Authority
from tools.control_plane.api import Api, Object
from tools.control_plane.plane import Access

either = pytest.mark.parametrize("version", [UPSTREAM, OURS])
OFTEN = ("--descheduling-interval", "500ms", *ALONE)
SECRET = "prometheus-token"


@pytest.fixture(scope="module")
def pressure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pressure]:
    with Pressure(tmp_path_factory.mktemp("pressure")) as made:
        yield made


def policy(
    pressure: Pressure,
    room: Room,
    version: str = OURS,
    *,
    query: str = GAUGE,
    provider: Object | None = None,
    metrics: Object | None = None,
    top: Object | None = None,
    **more: Any,
) -> Object:
    """A policy over the nodes of the room that holds nothing back."""
    made = pressure.policy(selector=f"room={room.name}")
    ours = version == OURS
    (profile,) = made["profiles"]
    (config,) = profile["pluginConfig"]
    asking = {"source": "Prometheus", "prometheus": {"query": query}, **(metrics or {})}
    config["args"] = {**config["args"], "metricsUtilization": asking, **more}
    guard = {"minPodAge": "0s"} if ours else {}
    profile["pluginConfig"].append({"name": "DefaultEvictor", "args": guard})
    if provider:
        made["metricsProviders"][0]["prometheus"] = provider
    return {**made, "apiVersion": version, **(UNLIMITED if ours else {}), **(top or {})}


def hot(room: Room, pressure: Pressure, *, count: int = 1, pods: int = 5) -> list[str]:
    """The first nodes of the room, with pods and under pressure; all others are idle."""
    nodes = room.nodes[:count]
    for i, name in enumerate(nodes):
        open_only(room, name)
        workload(room, f"app-{i}", pods)
    open_all(room)
    shares = dict.fromkeys(room.nodes, 0.01) | {
        name: round(0.9 - i / 20, 2) for i, name in enumerate(nodes)
    }
    pressure.sets(shares)
    return nodes


def once(account: Account, document: Object, code: int = 0) -> Run:
    with account.run(document, *ALONE) as run:
        assert run.ended() == code, run.story
    return run


def left(before: dict[str, str], run: Run) -> dict[str, int]:
    """How many pods left each node."""
    return dict(Counter(before[line["pod"]] for line in run.told("evicted")))


def homes(room: Room) -> dict[str, str]:
    return {
        f"{room.name}/{it['metadata']['name']}": it["spec"]["nodeName"] for it in room.running()
    }


# -- who goes -------------------------------------------------------------------------------------


@either
@pytest.mark.parametrize(("limit", "moves"), [(None, 1), (2, 2)])
def test_a_hot_node_gives_away_one_pod_or_as_many_as_it_is_told(
    version: str,
    limit: int | None,
    moves: int,
    pressure: Pressure,
    account: Account,
    room: Room,
    api: Api,
) -> None:
    (name,) = hot(room, pressure)
    before = homes(room)
    more: dict[str, Any] = {} if limit is None else {"evictionLimits": {"node": limit}}

    run = once(account, policy(pressure, room, version, **more))

    assert left(before, run) == {name: moves}
    settled(api, account, run)


@either
def test_the_hottest_come_first_where_a_limit_ends_it(
    version: str, pressure: Pressure, account: Account, room: Room, api: Api
) -> None:
    room.another_node()  # no more pods come to a cool node than may leave a hot one
    nodes = hot(room, pressure, count=4, pods=6)
    before = homes(room)
    top = {"maxNoOfPodsToEvictTotal": 5, "maxNoOfPodsToEvictPerNode": 2}
    document = policy(pressure, room, version, top=top, evictionLimits={"node": 2})
    document.pop("maxPercentOfPodsToEvict", None)

    run = once(account, document)

    found = left(before, run)
    assert (sum(found.values()), found[nodes[0]]) == (5, 2)
    # Ours passes over a pod that the scheduler would rather put on another hot node.
    assert version == OURS or found == {nodes[0]: 2, nodes[1]: 2, nodes[2]: 1}
    assert max(found.values()) == 2
    settled(api, account, run)


# -- what cannot be believed ----------------------------------------------------------------------


LIES = [
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


@either
@pytest.mark.parametrize(("query", "says"), LIES)
def test_nobody_goes_by_an_answer_that_cannot_be(
    version: str,
    query: str,
    says: str,
    pressure: Pressure,
    account: Account,
    room: Room,
) -> None:
    hot(room, pressure, pods=2)

    run = once(account, policy(pressure, room, version, query=query), code=1)

    (failed,) = run.told("plugin failed")
    assert says in failed["reason"]
    assert account.asked_to_evict() == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param(
            f'{GAUGE} or label_replace({GAUGE}, "twin", "x", "", "")',
            "usage-ambiguous",
            id="two figures for each",
        ),
        pytest.param(GAUGE, "usage-stale", id="older than the policy allows"),
    ],
)
def test_ours_does_not_choose_between_figures_nor_take_old_ones(
    query: str, code: str, pressure: Pressure, account: Account, room: Room
) -> None:
    hot(room, pressure, pods=2)
    old = {"maxAge": "1ms"} if code == "usage-stale" else {}

    run = once(account, policy(pressure, room, query=query, metrics=old), code=1)

    (failed,) = run.told("plugin failed")
    words = {"usage-ambiguous": "has 2 samples", "usage-stale": "old"}
    assert words[code] in failed["reason"]
    assert account.asked_to_evict() == []


def test_one_node_without_a_figure_stops_the_peer_and_costs_us_that_node(
    pressure: Pressure, account: Account, room: Room, api: Api
) -> None:
    (name,) = hot(room, pressure)
    lost = room.nodes[-1]
    query = f'{GAUGE}{{instance!="{lost}"}}'
    open_only(room, *room.nodes[:-1])  # the scheduler shall not choose the one that is not known

    peer = once(account, policy(pressure, room, UPSTREAM, query=query), code=1)
    assert f"{lost} has no sample in the answer" in peer.told("plugin failed")[0]["reason"]
    assert account.asked_to_evict() == []

    ours = once(account, policy(pressure, room, OURS, query=query))
    assert len(ours.told("evicted")) == 1
    settled(api, account, peer, ours)
    assert name in room.nodes


# -- away, and back -------------------------------------------------------------------------------


def test_while_prometheus_is_down_or_silent_nobody_goes_and_then_it_goes_on(
    account: Account, room: Room, api: Api, tmp_path: Path
) -> None:
    # One that is killed may forget what it knew of other rooms, so this one is nobody else's.
    with Pressure(tmp_path) as pressure:
        hot(room, pressure)
        pressure.server.kill()
        with account.run(policy(pressure, room, UPSTREAM), *OFTEN) as run:
            run.awaits("plugin failed", 2)
            assert "Connection refused" in run.told("plugin failed")[0]["reason"]
            assert account.asked_to_evict() == []
            pressure.server.restart()
            pressure.awaited()
            run.awaits("evicted")
            with pressure.server.paused():
                eventually("a silence", lambda: _silences(run))
            works_again(run)
            assert run.stop() == 0
    settled(api, account, run)


def _silences(run: Run) -> list[Object]:
    return [it for it in run.told("plugin failed") if "in time" in it["reason"]]


def test_a_token_is_shown_and_heard_of_when_it_changes(
    pressure: Pressure, plane: Access, room: Room, api: Api, tmp_path: Path
) -> None:
    hot(room, pressure)
    one_secret = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [SECRET],
        "verbs": ["get"],
    }
    authority = Authority(tmp_path, "monitoring")
    tls = authority.guarding(authority.issued("prometheus", "localhost"))
    with (
        Gatekeeper(pressure.url, tls) as keeper,
        Account(plane, api, tmp_path, [*RULES, one_secret]) as account,
    ):
        keeper.token = "first"
        put_secret(api, room, "first")
        reference = {"secretReference": {"namespace": room.name, "name": SECRET}}
        provider = {
            "url": keeper.url,
            "authToken": reference,
            "caFile": str(authority.certificate),
        }
        limits = {"maxNoOfPodsToEvictTotal": 1}
        document = policy(pressure, room, provider=provider, top=limits)
        document.pop("maxPercentOfPodsToEvict", None)
        with account.run(document, *OFTEN) as run:
            run.awaits("evicted")
            keeper.token = "second"
            failed(run, "it does not accept the token (401)")
            put_secret(api, room, "second")
            works_again(run)
            keeper.says = (200, HTML)
            failed(run, "is not an answer of Prometheus: <!DOCTYPE html>")
            keeper.says = (503, b"upgrading")
            failed(run, "it answered 503: upgrading")
            keeper.says = None
            works_again(run)
            api.delete(f"/api/v1/namespaces/{room.name}/secrets/{SECRET}")
            failed(run, "which should hold the token, is not there")
            put_secret(api, room, "second")
            works_again(run)
            assert run.stop() == 0
        settled(api, account, run)


def put_secret(api: Api, room: Room, token: str) -> None:
    """Puts the token where the policy says it is."""
    there = f"/api/v1/namespaces/{room.name}/secrets"
    data = {"prometheusAuthToken": base64.b64encode(token.encode()).decode()}
    body = {"metadata": {"name": SECRET}, "data": data}
    if api.get(f"{there}/{SECRET}").fine:
        api.patch(f"{there}/{SECRET}", body).granted()
    else:
        api.post(there, body).granted()


def failed(run: Run, says: str) -> None:
    """Returns once the plugin has failed in these words."""
    eventually(says, lambda: [it for it in run.told("plugin failed") if says in it["reason"]])


def works_again(run: Run) -> None:
    """Returns once a whole cycle has gone by in which the plugin did not fail."""

    def two_in_a_row() -> bool:
        told = [it["msg"] for it in run.lines if it["msg"] in ("plugin failed", "cycle done")]
        return told[-2:] == ["cycle done", "cycle done"]

    eventually("cycles without a failure", two_in_a_row)


# -- a plan is a run ------------------------------------------------------------------------------


def test_what_plan_shows_by_a_live_prometheus_is_what_a_capture_shows(
    pressure: Pressure, account: Account, room: Room, tmp_path: Path
) -> None:
    from tests.e2e.cluster.service_accounts import resettle

    (name,) = hot(room, pressure)
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(policy(pressure, room, UPSTREAM)))
    capture = tmp_path / "cluster.json.gz"
    live = ("--kubeconfig", str(account.kubeconfig), "--policy", str(file))

    planned = resettle("plan", *live, "-o", "json")
    took = resettle("snapshot", *live, "-o", str(capture))
    kept = resettle("plan", "--cluster", str(capture), "--policy", str(file), "-o", "json")

    assert (planned.code, took.code, kept.code) == (0, 0, 0), (planned.err, took.err, kept.err)
    (move,) = json.loads(planned.out)["moves"]
    assert move["node"] == name
    assert "by its query (target 50%)" in move["reason"]
    assert json.loads(kept.out)["moves"] == [move]
