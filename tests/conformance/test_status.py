"""What is wanted and what is so are written apart; the scale is a third way in."""

from __future__ import annotations

from tests.conformance.harness import CORE, Place

from .client import Object


def deployment(name: str, replicas: int = 0) -> Object:
    labels = {"app": name}
    container = {"name": "main", "image": "registry.example/app:1"}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "paused": True,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_a_status_sent_with_a_new_object_is_not_kept(place: Place) -> None:
    status = {"disruptionsAllowed": 5, "observedGeneration": 1}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "none"}}}
    body = {"metadata": {"name": "b"}, "spec": spec, "status": status}

    made = place.client.post(place.budgets, body).body

    assert made["status"]["disruptionsAllowed"] == 0
    assert made["metadata"]["generation"] == 1


def test_an_update_of_the_object_leaves_its_status(place: Place) -> None:
    place.pod("a")

    reply = place.client.patch(
        f"{place.pods}/a",
        {"metadata": {"labels": {"seen": "yes"}}, "status": {"phase": "Failed"}},
    )

    assert reply.code == 200
    assert reply.body["metadata"]["labels"] == {"seen": "yes"}
    assert reply.body["status"]["phase"] == "Pending"


def test_an_update_of_the_status_leaves_the_rest(place: Place) -> None:
    node = place.node()
    sent = {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "4"}}}

    reply = place.client.patch(f"{CORE}/nodes/{node}/status", sent)

    assert reply.code == 200
    assert "unschedulable" not in reply.body["spec"]
    assert reply.body["status"]["capacity"] == {"cpu": "4"}


def test_a_generation_counts_changes_of_what_is_wanted_only(place: Place) -> None:
    place.client.post(place.deployments, deployment("web"))
    path = f"{place.deployments}/web"

    def generation_after(patch: Object, under: str = "") -> int:
        return int(place.client.patch(path + under, patch).body["metadata"]["generation"])

    assert generation_after({"metadata": {"labels": {"a": "b"}}}) == 1
    assert generation_after({"status": {"collisionCount": 1}}, "/status") == 1
    assert generation_after({"spec": {"minReadySeconds": 5}}) == 2


def test_a_scale_shows_and_sets_the_replicas(place: Place) -> None:
    place.client.post(place.deployments, deployment("web"))
    path = f"{place.deployments}/web/scale"

    shown = place.client.get(path).body
    changed = place.client.patch(path, {"spec": {"replicas": 3}}).body

    assert (shown["kind"], shown["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert shown["spec"].get("replicas", 0) == 0
    assert shown["status"]["selector"] == "app=web"
    assert changed["spec"]["replicas"] == 3
    assert place.client.get(f"{place.deployments}/web").body["spec"]["replicas"] == 3
