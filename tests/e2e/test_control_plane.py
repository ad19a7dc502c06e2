"""The control plane itself: what the other suites take for granted about it."""

from __future__ import annotations

from tests.e2e.cluster.workspace import Workspace
from tools.control_plane.api import Answer, Api
from tools.control_plane.plane import Access
from tools.control_plane.recipe import RECIPE


def test_the_version_is_the_pinned_one(api: Api) -> None:
    pinned = {source.name: RECIPE.version(source) for source in RECIPE.sources}

    assert api.get("/version").granted()["gitVersion"] == pinned["kubernetes"]


def test_an_invalid_token_is_answered_401(plane: Access) -> None:
    with Api(plane.url, "made-up", plane.papers.ca) as client:
        assert client.get("/api/v1/nodes").status == 401


def test_a_deployment_becomes_ready_on_all_nodes(workspace: Workspace) -> None:
    workspace.deploy("web", replicas=12)

    assert {pod["spec"]["nodeName"] for pod in workspace.list_ready_pods()} == set(workspace.nodes)


def test_a_budget_grants_one_eviction_and_refuses_the_next(workspace: Workspace) -> None:
    workspace.deploy("web", replicas=4)
    workspace.create_budget("web", max_unavailable=1)
    workspace.cordon()
    first, second, *_ = sorted(pod["metadata"]["name"] for pod in workspace.list_ready_pods())

    granted = _evict(workspace, first)
    refused = _evict(workspace, second)

    assert (granted.status, refused.status) == (201, 429)
    causes = [cause["reason"] for cause in refused.body["details"]["causes"]]
    assert causes == ["DisruptionBudget"]


def _evict(workspace: Workspace, pod: str) -> Answer:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": workspace.name},
    }
    return workspace.api.post(f"{workspace.pods_path}/{pod}/eviction", eviction)
