"""Life as a whole: it comes to rest, goes on with the clock, and is the same every time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resettle.testing import ApiServer, ManualClock, node, spread
from resettle.testing.builders import Object
from resettle.testing.controllers import (
    CRASHES_EVERY,
    TAKES,
    ControllerLoop,
    NeverSettles,
    daemon_set,
    deployment,
    disruption_budget,
    job,
    observe,
    stateful_set,
)
from resettle.testing.controllers.loop import ROUNDS
from resettle.testing.controllers.observed import KINDS, ObservedCluster
from resettle.testing.controllers.writes import Merge, Write
from tests.testing.controllers.harness import Living

WEB = {"app": "web"}
EVERYTHING: list[Any] = [
    *(node(f"n{i}", zone="abc"[i % 3]) for i in range(6)),
    deployment("web", replicas=6, cpu="500m", spread=[spread(labels=WEB)], namespace="shop"),
    disruption_budget("web", app="web", max_unavailable=1, namespace="shop"),
    deployment("doomed", replicas=2, annotations={CRASHES_EVERY: "7m"}),
    deployment("huge", cpu="64"),
    stateful_set("db", replicas=3, claims=["data"], away_from={"app": "db"}),
    disruption_budget("db", app="db", min_available="60%"),
    daemon_set("agent", cpu="100m"),
    job("sums", completions=4, parallelism=3, annotations={TAKES: "20s"}),
]


def held(living: Living) -> str:
    """All that the store holds, versions included."""
    return json.dumps([living.store.list(kind) for kind in KINDS], sort_keys=True)


def test_everything_runs_that_can() -> None:
    living = Living(*EVERYTHING).after(120)

    wanted = {"web": 6, "doomed": 2, "huge": 1, "db": 3, "agent": 6, "sums": 4}
    assert living.apps() == wanted
    assert living.phases == ["Pending"] + ["Running"] * 17 + ["Succeeded"] * 4


def test_at_rest_a_second_look_changes_nothing() -> None:
    living = Living(*EVERYTHING).after(120)
    version = living.store.version

    living.life.settle()
    living.life.settle()

    assert living.store.version == version


def test_the_same_cluster_lives_the_same_life() -> None:
    lives = [held(Living(*EVERYTHING).after(3600)) for _ in range(2)]

    assert lives[0] == lives[1]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([600], id="at once"),
        pytest.param([1] * 10 + [590], id="second by second at first"),
        pytest.param([300, 0, 300], id="in two halves"),
    ],
)
def test_time_may_pass_in_any_steps(steps: list[int]) -> None:
    living = Living(*EVERYTHING)
    for seconds in steps:
        living.after(seconds)

    assert held(living) == held(Living(*EVERYTHING).after(600))


def test_a_week_passes_and_what_is_due_happens_on_the_way() -> None:
    living = Living(node("n1"), deployment("web", annotations={CRASHES_EVERY: "1h"}))

    living.life.pass_time(timedelta(days=7))

    [obj] = living.pods.values()
    assert obj["status"]["containerStatuses"][0]["restartCount"] == 7 * 24 - 1
    assert living.clock() - ManualClock()() == timedelta(days=7)


def test_settling_says_when_something_is_due_next() -> None:
    living = Living(node("n1"), deployment("web"))

    due = living.life.settle()

    assert due == ManualClock()() + timedelta(seconds=2)
    assert living.after(2).life.settle() is None


def test_controllers_that_undo_each_other_are_named() -> None:
    living = Living(node("n1"))

    def restless(sight: ObservedCluster) -> Iterator[Write]:
        yield Merge("Node", "/n1", {"metadata": {"labels": {"turn": str(sight.serial)}}})

    living.life.controllers["restless one"] = restless

    with pytest.raises(
        NeverSettles, match=f"after {ROUNDS} rounds the restless one would still write"
    ):
        living.life.settle()


def test_an_end_of_life_leaves_the_store_as_it_is() -> None:
    living = Living(node("n1"), deployment("web", replicas=1)).after(5)

    living.life.close()
    living.store.delete("Deployment", "web")
    living.after(60)

    assert living.apps() == {"web": 1}


def evict(server: ApiServer, pod: Object) -> int:
    """The code that an eviction over HTTP is answered with."""
    meta = pod["metadata"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        "deleteOptions": {"preconditions": {"uid": meta["uid"]}},
    }
    url = f"{server.url}/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
    headers = {"Content-Type": "application/json"}
    try:
        with urlopen(Request(url, json.dumps(body).encode(), headers)) as answer:
            return int(answer.status)
    except HTTPError as refused:
        with refused:
            return refused.code


def test_evictions_are_granted_as_fast_as_the_budget_recovers() -> None:
    clock = ManualClock()
    budget = disruption_budget("web", app="web", max_unavailable=1)
    objects = [node("n1").node, deployment("web", replicas=3), budget]
    with ApiServer(objects, clock=clock) as server:
        life = ControllerLoop(server.store, clock)
        life.pass_time(timedelta(seconds=5))
        first, second, _ = server.store.list("Pod")

        codes = [evict(server, first), evict(server, second)]
        life.settle()
        codes.append(evict(server, second))
        life.pass_time(timedelta(seconds=5))
        codes.append(evict(server, second))
        life.pass_time(timedelta(seconds=5))

        assert codes == [201, 429, 429, 201]
        names = {pod["metadata"]["name"] for pod in server.store.list("Pod")}
        assert len(names - {first["metadata"]["name"], second["metadata"]["name"]}) == 3


WORKLOADS = st.lists(
    st.sampled_from(EVERYTHING[6:]) | st.builds(deployment, st.sampled_from("xyz")), max_size=6
)
TROUBLES = st.lists(
    st.sampled_from(["drop a node", "drop a pod", "scale", "release", "pass time"]), max_size=6
)


@settings(deadline=None, max_examples=40)
@given(workloads=WORKLOADS, troubles=TROUBLES)
def test_whatever_happens_life_comes_to_rest(workloads: list[Any], troubles: list[str]) -> None:
    living = Living(*EVERYTHING[:6], *workloads)
    for trouble in troubles:
        happen(trouble, living)
        living.life.settle()
    living.after(3600)
    version = living.store.version

    living.life.settle()

    assert living.store.version == version
    nodes = {obj["metadata"]["name"] for obj in living.store.list("Node")}
    assert all(pod["spec"].get("nodeName", "n0") in nodes | {"n0"} for pod in living.pods.values())
    for owner in living.store.list("Deployment"):
        assert owner["status"]["replicas"] == owner["spec"]["replicas"]


def happen(trouble: str, living: Living) -> None:
    """A change of the first object that it applies to."""
    nodes, pods, owners = (living.store.list(kind) for kind in ("Node", "Pod", "Deployment"))
    match trouble:
        case "drop a node" if len(nodes) > 1:
            living.store.delete("Node", nodes[-1]["metadata"]["name"])
        case "drop a pod" if pods:
            meta = pods[0]["metadata"]
            living.store.delete("Pod", meta["name"], meta["namespace"])
        case "scale" | "release" if owners:
            meta, spec = owners[0]["metadata"], owners[0]["spec"]
            release = {"metadata": {"annotations": {"at": living.clock().isoformat()}}}
            size = (spec["replicas"] * 2 + 1) % 7
            patch = {"replicas": size} if trouble == "scale" else {"template": release}
            living.store.merge("Deployment", meta["name"], {"spec": patch}, meta["namespace"])
        case "pass time":
            living.after(1)


def test_a_sight_finds_pods_by_owner_and_by_labels() -> None:
    living = Living(node("n1"), deployment("web", replicas=2), daemon_set("agent")).after(5)
    sight = observe(obj for kind in KINDS for obj in living.store.list(kind))
    [owner] = sight.all("ReplicaSet")

    assert len(sight.owned_by(owner)) == 2
    assert len(sight.owned_by(sight.all("Deployment")[0], "ReplicaSet")) == 1
    assert sorted(map(len, sight.pods_alike("default").values())) == [1, 2]
    assert sight.get("Node", "n2") is None
