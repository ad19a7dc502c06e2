"""The control plane itself: what the other suites take for granted about it."""

from __future__ import annotations

from tests.e2e.cluster.workspace import Room
from tools.control_plane.api import Answer, Api
from tools.control_plane.plane import Access
from tools.control_plane.recipe import RECIPE


def test_it_is_of_the_pinned_version(api: Api) -> None:
    pinned = {source.name: RECIPE.version(source) for source in RECIPE.sources}

    assert api.get("/version").granted()["gitVersion"] == pinned["kubernetes"]


def test_nobody_comes_in_without_a_token(plane: Access) -> None:
    with Api(plane.url, "made-up", plane.papers.ca) as stranger:
        assert stranger.get("/api/v1/nodes").status == 401


def test_a_deployment_becomes_ready_on_all_nodes(room: Room) -> None:
    room.deploy("web", replicas=12)

    assert {pod["spec"]["nodeName"] for pod in room.ready()} == set(room.nodes)


def test_a_budget_grants_one_eviction_and_refuses_the_next(room: Room) -> None:
    room.deploy("web", replicas=4)
    room.budget("web", at_most_away=1)
    room.cordon()
    first, second, *_ = sorted(pod["metadata"]["name"] for pod in room.ready())

    granted = _evict(room, first)
    refused = _evict(room, second)

    assert (granted.status, refused.status) == (201, 429)
    causes = [cause["reason"] for cause in refused.body["details"]["causes"]]
    assert causes == ["DisruptionBudget"]


def _evict(room: Room, pod: str) -> Answer:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": room.name},
    }
    return room.api.post(f"{room.pods}/{pod}/eviction", eviction)
