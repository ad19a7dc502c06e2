"""Creating, reading, changing and deleting objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.harness import CORE, Place, config_map, pod_body

from .client import Client, Object

# -- creating ------------------------------------------------------------------------------------


def test_a_new_object_gets_a_uid_and_a_time_and_a_version(place: Place) -> None:
    made = place.client.post(place.config_maps, config_map("a", colour="blue"))

    assert made.code == 201
    meta = made.body["metadata"]
    assert meta["uid"]
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) > 0
    assert (made.body["kind"], made.body["apiVersion"]) == ("ConfigMap", "v1")
    assert place.client.get(f"{place.config_maps}/a").body == made.body


def test_a_name_is_made_up_from_its_beginning(place: Place) -> None:
    body = {"metadata": {"generateName": "some-"}}

    names = [place.client.post(place.config_maps, body).body["metadata"]["name"] for _ in range(3)]

    assert len(set(names)) == 3
    assert all(name.startswith("some-") and len(name) == len("some-") + 5 for name in names)


def test_a_new_pod_is_pending_and_has_its_defaults(place: Place) -> None:
    made = place.pod("a")

    assert made["status"]["phase"] == "Pending"
    assert made["status"]["qosClass"] == "BestEffort"
    spec = made["spec"]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert (spec["priority"], spec["schedulerName"]) == (0, "nobody")
    assert "nodeName" not in spec


def test_limits_stand_in_for_requests_that_are_not_made(place: Place) -> None:
    body = pod_body("a")
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}

    made = place.client.post(place.pods, body).body

    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made["status"]["qosClass"] == "Guaranteed"


def test_a_priority_comes_from_the_class(place: Place) -> None:
    name = f"{place.mark}-gold"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    place.made(classes, {"metadata": {"name": name}, "value": 7000})
    body = pod_body("a")
    body["spec"]["priorityClassName"] = name

    assert place.client.post(place.pods, body).body["spec"]["priority"] == 7000


def _unnamed() -> Object:
    return {"metadata": {}}


def _versioned() -> Object:
    return {"metadata": {"name": "a", "resourceVersion": "7"}}


def _elsewhere() -> Object:
    return {"metadata": {"name": "a", "namespace": "elsewhere"}}


def _shouting() -> Object:
    return {"metadata": {"name": "No Such_Name"}}


def _of_another_kind() -> Object:
    return {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        pytest.param(_unnamed(), 422, "Invalid", id="without a name"),
        pytest.param(_shouting(), 422, "Invalid", id="with a name that is none"),
        pytest.param(_versioned(), 500, "", id="with a version"),
        pytest.param(_elsewhere(), 400, "BadRequest", id="for another namespace"),
        pytest.param(_of_another_kind(), 400, "BadRequest", id="of another kind"),
    ],
)
def test_an_object_is_not_taken(place: Place, body: Object, code: int, reason: str) -> None:
    reply = place.client.post(place.config_maps, body)

    assert reply.code == code
    assert reply.body["kind"] == "Status"
    assert reply.body["status"] == "Failure"
    assert reply.body["code"] == code
    assert not reason or reply.reason == reason


def test_a_name_that_is_taken_is_a_conflict(place: Place) -> None:
    place.pod("a")

    reply = place.client.post(place.pods, pod_body("a"))

    assert (reply.code, reply.reason) == (409, "AlreadyExists")
    assert reply.body["message"] == 'pods "a" already exists'
    assert reply.body["details"] == {"name": "a", "kind": "pods"}


def test_nothing_is_created_in_a_namespace_that_is_not_there(client: Client) -> None:
    reply = client.post(f"{CORE}/namespaces/no-such-place/configmaps", config_map("a"))

    assert (reply.code, reply.reason) == (404, "NotFound")
    assert reply.body["message"] == 'namespaces "no-such-place" not found'


def test_a_priority_class_that_is_not_there_is_forbidden(place: Place) -> None:
    body = pod_body("a")
    body["spec"]["priorityClassName"] = "no-such-class"

    reply = place.client.post(place.pods, body)

    assert (reply.code, reply.reason) == (403, "Forbidden")
    assert "no PriorityClass with name no-such-class was found" in reply.body["message"]


def test_a_dry_run_creates_nothing(place: Place) -> None:
    made = place.client.post(place.config_maps, config_map("a"), dryRun="All")

    assert made.code == 201
    assert place.client.get(f"{place.config_maps}/a").code == 404


# -- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "message", "details"),
    [
        pytest.param(
            "/api/v1/namespaces/{}/pods/gone",
            'pods "gone" not found',
            {"name": "gone", "kind": "pods"},
            id="of the core group",
        ),
        pytest.param(
            "/apis/policy/v1/namespaces/{}/poddisruptionbudgets/gone",
            'poddisruptionbudgets.policy "gone" not found',
            {"name": "gone", "group": "policy", "kind": "poddisruptionbudgets"},
            id="of another group",
        ),
    ],
)
def test_an_object_that_is_not_there_is_named(
    place: Place, path: str, message: str, details: Object
) -> None:
    reply = place.client.get(path.format(place.mark))

    assert (reply.code, reply.reason) == (404, "NotFound")
    assert (reply.body["message"], reply.body["details"]) == (message, details)


# -- changing ------------------------------------------------------------------------------------


def test_an_update_puts_the_new_in_place_of_the_old(place: Place) -> None:
    made = place.client.post(place.config_maps, config_map("a", colour="blue", size="xl")).body

    changed = place.client.put(f"{place.config_maps}/a", {**made, "data": {"colour": "red"}})

    assert changed.code == 200
    assert changed.body["data"] == {"colour": "red"}
    assert int(changed.body["metadata"]["resourceVersion"]) > int(
        made["metadata"]["resourceVersion"]
    )
    for kept in ("uid", "creationTimestamp"):
        assert changed.body["metadata"][kept] == made["metadata"][kept]


def test_an_update_of_an_old_version_is_a_conflict(place: Place) -> None:
    made = place.client.post(place.config_maps, config_map("a")).body
    place.client.put(f"{place.config_maps}/a", {**made, "data": {"colour": "red"}})

    reply = place.client.put(f"{place.config_maps}/a", {**made, "data": {"colour": "blue"}})

    assert (reply.code, reply.reason) == (409, "Conflict")
    assert "the object has been modified" in reply.body["message"]
    assert reply.body["details"] == {"name": "a", "kind": "configmaps"}


def test_an_update_that_changes_nothing_gets_no_new_version(place: Place) -> None:
    made = place.client.post(place.config_maps, config_map("a", colour="blue")).body

    again = place.client.put(f"{place.config_maps}/a", made)

    assert again.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_an_update_of_a_namesake_is_a_conflict(place: Place) -> None:
    made = place.client.post(place.config_maps, config_map("a")).body
    meta = {"name": "a", "uid": "0b3f7f1c-0000-4000-8000-000000000000"}

    reply = place.client.put(f"{place.config_maps}/a", {**made, "metadata": meta})

    assert (reply.code, reply.reason) == (409, "Conflict")


def test_an_update_under_another_name_is_refused(place: Place) -> None:
    made = place.client.post(place.config_maps, config_map("a")).body
    meta = {**made["metadata"], "name": "b"}

    assert place.client.put(f"{place.config_maps}/a", {**made, "metadata": meta}).code == 400


def test_a_budget_cannot_be_updated_without_its_version(place: Place) -> None:
    place.budget("b", labels={"app": "web"}, least=1, healthy=1)
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 2}}

    reply = place.client.put(f"{place.budgets}/b", body)

    assert (reply.code, reply.reason) == (422, "Invalid")


def test_a_pod_stays_as_it_was_made(place: Place) -> None:
    place.pod("a")

    reply = place.client.patch(f"{place.pods}/a", {"spec": {"nodeName": "elsewhere"}})

    assert (reply.code, reply.reason) == (422, "Invalid")
    assert "pod updates may not change fields other than" in reply.body["message"]


def test_what_is_updated_has_to_be_there(place: Place) -> None:
    assert place.client.put(f"{place.config_maps}/gone", config_map("gone")).code == 404
    assert place.client.patch(f"{place.config_maps}/gone", {"data": {}}).code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", "configmaps/a", id="create by name"),
        pytest.param("PUT", "configmaps", id="update of all"),
        pytest.param("PATCH", "configmaps", id="patch of all"),
    ],
)
def test_a_verb_in_the_wrong_place_is_not_allowed(place: Place, method: str, path: str) -> None:
    reply = place.client.call(method, f"{CORE}/namespaces/{place.mark}/{path}", config_map("a"))

    assert (reply.code, reply.reason) == (405, "MethodNotAllowed")


# -- deleting ------------------------------------------------------------------------------------


def test_a_deleted_object_is_gone(place: Place) -> None:
    made = place.client.post(place.config_maps, config_map("a")).body

    reply = place.client.delete(f"{place.config_maps}/a")

    assert (reply.code, reply.body["status"]) == (200, "Success")
    assert reply.body["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": made["metadata"]["uid"],
    }
    assert place.client.get(f"{place.config_maps}/a").code == 404
    assert place.client.delete(f"{place.config_maps}/a").code == 404


@pytest.mark.parametrize(
    "meant",
    [
        pytest.param({"uid": "0b3f7f1c-0000-4000-8000-000000000000"}, id="another uid"),
        pytest.param({"resourceVersion": "1"}, id="another version"),
    ],
)
def test_only_the_object_that_was_meant_is_deleted(place: Place, meant: Object) -> None:
    place.client.post(place.config_maps, config_map("a"))

    reply = place.client.delete(f"{place.config_maps}/a", {"preconditions": meant})

    assert (reply.code, reply.reason) == (409, "Conflict")
    assert "in the precondition" in reply.body["message"]
    assert place.client.get(f"{place.config_maps}/a").code == 200


def test_a_dry_run_deletes_nothing(place: Place) -> None:
    place.client.post(place.config_maps, config_map("a"))

    assert place.client.delete(f"{place.config_maps}/a", dryRun="All").code == 200
    assert place.client.get(f"{place.config_maps}/a").code == 200


def test_a_pod_without_a_node_goes_at_once(place: Place) -> None:
    place.pod("a")

    reply = place.client.delete(f"{place.pods}/a")

    assert (reply.code, reply.body["kind"]) == (200, "Pod")
    assert place.client.get(f"{place.pods}/a").code == 404


def test_a_pod_on_a_node_waits_for_its_kubelet(place: Place) -> None:
    place.running("a", place.node())

    reply = place.client.delete(f"{place.pods}/a")

    assert reply.code == 200
    meta = place.client.get(f"{place.pods}/a").body["metadata"]
    assert meta["deletionTimestamp"]
    assert meta["deletionGracePeriodSeconds"] == 30
    assert place.client.delete(f"{place.pods}/a", gracePeriodSeconds=0).code == 200
    assert place.client.get(f"{place.pods}/a").code == 404


def test_a_grace_period_can_be_shortened_and_not_drawn_out(place: Place) -> None:
    place.running("a", place.node())
    place.client.delete(f"{place.pods}/a")

    def grace_after(seconds: int) -> Any:
        place.client.delete(f"{place.pods}/a", {"gracePeriodSeconds": seconds})
        return place.client.get(f"{place.pods}/a").body["metadata"]["deletionGracePeriodSeconds"]

    assert [grace_after(seconds) for seconds in (5, 60)] == [5, 5]


def test_a_finished_pod_goes_at_once(place: Place) -> None:
    place.running("a", place.node(), phase="Succeeded", ready=False)

    place.client.delete(f"{place.pods}/a")

    assert place.client.get(f"{place.pods}/a").code == 404


def test_a_finalizer_holds_an_object_until_it_is_taken_away(place: Place) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.com/wait"]
    place.client.post(place.config_maps, body)

    place.client.delete(f"{place.config_maps}/a")

    held = place.client.get(f"{place.config_maps}/a")
    assert held.body["metadata"]["deletionTimestamp"]
    let_go = place.client.patch(f"{place.config_maps}/a", {"metadata": {"finalizers": None}})
    assert let_go.code == 200
    assert place.client.get(f"{place.config_maps}/a").code == 404


def test_a_collection_is_deleted_by_selector(place: Place) -> None:
    for name, colour in (("a", "blue"), ("b", "red"), ("c", "blue")):
        place.client.post(place.config_maps, config_map(name, labels={"colour": colour}))

    reply = place.client.delete(place.config_maps, labelSelector="colour=blue")

    assert reply.code == 200
    left = place.client.get(place.config_maps, labelSelector="colour")
    assert left.names == ["b"]
