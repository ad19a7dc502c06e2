"""Finding out what is served."""

from __future__ import annotations

import pytest

from .client import Client


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_a_healthy_server_says_ok(client: Client, path: str) -> None:
    reply = client.get(path)

    assert (reply.code, reply.body) == (200, "ok")


def test_the_server_returns_its_version(client: Client) -> None:
    version = client.get("/version").body

    assert version["major"] == "1"
    assert version["gitVersion"].startswith("v1.")


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        pytest.param("/api/v1", "nodes", ("Node", False, ["no"]), id="nodes"),
        pytest.param("/api/v1", "pods", ("Pod", True, ["po"]), id="pods"),
        pytest.param("/api/v1", "pods/status", ("Pod", True, []), id="the status of pods"),
        pytest.param("/api/v1", "pods/binding", ("Binding", True, []), id="bindings"),
        pytest.param("/api/v1", "pods/eviction", ("Eviction", True, []), id="evictions"),
        pytest.param("/apis/apps/v1", "deployments", ("Deployment", True, ["deploy"]), id="apps"),
        pytest.param("/apis/apps/v1", "deployments/scale", ("Scale", True, []), id="scales"),
        pytest.param("/apis/batch/v1", "jobs", ("Job", True, []), id="jobs"),
        pytest.param(
            "/apis/policy/v1",
            "poddisruptionbudgets",
            ("PodDisruptionBudget", True, ["pdb"]),
            id="budgets",
        ),
        pytest.param(
            "/apis/scheduling.k8s.io/v1",
            "priorityclasses",
            ("PriorityClass", False, ["pc"]),
            id="priority classes",
        ),
        pytest.param("/apis/coordination.k8s.io/v1", "leases", ("Lease", True, []), id="leases"),
        pytest.param("/apis/storage.k8s.io/v1", "csinodes", ("CSINode", False, []), id="CSI nodes"),
        pytest.param("/apis/events.k8s.io/v1", "events", ("Event", True, ["ev"]), id="events"),
        pytest.param(
            "/apis/autoscaling/v2",
            "horizontalpodautoscalers",
            ("HorizontalPodAutoscaler", True, ["hpa"]),
            id="autoscalers",
        ),
    ],
)
def test_a_resource_is_listed_with_kind_and_scope_and_short_names(
    client: Client, path: str, name: str, expected: tuple[str, bool, list[str]]
) -> None:
    listed = {resource["name"]: resource for resource in client.get(path).body["resources"]}

    row = listed[name]
    assert (row["kind"], row["namespaced"], row.get("shortNames", [])) == expected


def test_an_eviction_is_found_to_be_of_the_policy_group(client: Client) -> None:
    listed = {resource["name"]: resource for resource in client.get("/api/v1").body["resources"]}

    row = listed["pods/eviction"]
    assert (row["group"], row["version"], row["verbs"]) == ("policy", "v1", ["create"])


def test_groups_are_listed_with_their_versions(client: Client) -> None:
    groups = {group["name"]: group for group in client.get("/apis").body["groups"]}

    assert {"apps", "batch", "policy", "coordination.k8s.io", "storage.k8s.io"} <= set(groups)
    assert groups["policy"]["preferredVersion"]["groupVersion"] == "policy/v1"
    assert client.get("/apis/policy").body["kind"] == "APIGroup"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/apis/nobody.example/v1/widgets", id="a group that is not there"),
        pytest.param("/api/v1/widgets", id="a resource that is not there"),
        pytest.param("/api/v1/pods/name-without-namespace", id="a pod without its namespace"),
    ],
)
def test_what_is_not_served_is_not_found(client: Client, path: str) -> None:
    assert client.get(path).code == 404
