"""Leases, events, custom resources and reviews."""

from __future__ import annotations

import secrets

import pytest

from resettle.testing import definition
from tests.conformance.harness import CORE, Place

from .client import Client, Object


def test_of_two_who_take_a_lease_one_has_it(place: Place) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{place.mark}/leases"
    spec = {"holderIdentity": "nobody", "leaseDurationSeconds": 15}
    made = place.client.post(leases, {"metadata": {"name": "lead"}, "spec": spec}).body

    codes = [
        place.client.put(f"{leases}/lead", {**made, "spec": {**spec, "holderIdentity": who}}).code
        for who in ("first", "second")
    ]

    assert codes == [200, 409]
    assert place.client.get(f"{leases}/lead").body["spec"]["holderIdentity"] == "first"


def test_an_update_of_a_lease_that_is_not_there_makes_it(place: Place) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{place.mark}/leases"
    body = {"metadata": {"name": "lead"}, "spec": {"holderIdentity": "first"}}

    assert place.client.put(f"{leases}/lead", body).code == 201
    assert place.client.get(f"{leases}/lead").body["spec"] == {"holderIdentity": "first"}


def event(place: Place) -> Object:
    return {
        "metadata": {"name": "moved"},
        "regarding": {"kind": "Pod", "name": "a", "namespace": place.mark},
        "reason": "Descheduled",
        "note": "pod moved",
        "type": "Normal",
        "action": "Descheduling",
        "eventTime": "2026-01-31T12:00:00.000000Z",
        "reportingController": "example.com/resettle",
        "reportingInstance": "one",
    }


def test_an_event_is_seen_in_both_of_its_groups(place: Place) -> None:
    new = f"/apis/events.k8s.io/v1/namespaces/{place.mark}/events"
    old = f"{CORE}/namespaces/{place.mark}/events"

    made = place.client.post(new, event(place))

    assert made.code == 201, made.body
    seen = place.client.get(f"{old}/moved").body
    assert (seen["message"], seen["involvedObject"]["name"]) == ("pod moved", "a")
    assert (seen["apiVersion"], made.body["apiVersion"]) == ("v1", "events.k8s.io/v1")
    events = place.client.get(
        old, fieldSelector="involvedObject.name=a,reason=Descheduled,type=Normal"
    )
    assert events.names == ["moved"]
    assert place.client.get(old, fieldSelector="involvedObject.name=b").names == []


# -- custom resources ----------------------------------------------------------------------------


class Custom:
    """A kind of a test's own."""

    def __init__(self, place: Place, *, status: bool) -> None:
        group = f"g{secrets.token_hex(4)}.example.com"
        made = definition("Widget", group=group, status=status)
        place.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made)
        self.path = f"/apis/{group}/v1/namespaces/{place.mark}/widgets"
        self.all = f"/apis/{group}/v1/widgets"
        with place.client.watch(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            fieldSelector=f"metadata.name=widgets.{group}",
        ) as events:
            next(event for event in events if _established(event.object))
        self.body: Object = {"apiVersion": f"{group}/v1", "kind": "Widget"}
        # An established kind is served by every handler a moment later.
        for _ in range(1000):
            if place.client.get(self.path).code == 200:
                break

    def widget(self, name: str, **parts: Object) -> Object:
        return {**self.body, "metadata": {"name": name}, **parts}


def _established(definition: Object) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(
        (condition["type"], condition["status"]) == ("Established", "True")
        for condition in conditions
    )


def test_a_custom_resource_is_served_once_it_is_defined(place: Place) -> None:
    custom = Custom(place, status=True)

    made = place.client.post(custom.path, custom.widget("a", spec={"size": 1}))

    assert made.code == 201, made.body
    listed = place.client.get(custom.all).body
    assert [(item["kind"], item["metadata"]["name"]) for item in listed["items"]] == [
        ("Widget", "a")
    ]
    assert list(listed) == sorted(listed)


def test_the_status_of_a_custom_resource_is_written_apart(place: Place) -> None:
    custom = Custom(place, status=True)
    sent = custom.widget("a", spec={"size": 1}, status={"ready": True})
    made = place.client.post(custom.path, sent).body

    patched = place.client.patch(
        f"{custom.path}/a/status", {"spec": {"size": 9}, "status": {"ready": True}}
    ).body
    changed = place.client.patch(f"{custom.path}/a", {"spec": {"size": 2}}).body

    assert "status" not in made
    assert (patched["spec"], patched["status"]) == ({"size": 1}, {"ready": True})
    assert (changed["spec"], changed["status"]) == ({"size": 2}, {"ready": True})
    generations = [item["metadata"]["generation"] for item in (made, patched, changed)]
    assert generations == [1, 1, 2]


def test_a_custom_resource_without_a_status_subresource_has_one_part(place: Place) -> None:
    custom = Custom(place, status=False)
    place.client.post(custom.path, custom.widget("a"))

    changed = place.client.patch(f"{custom.path}/a", {"status": {"ready": True}}).body

    assert changed["status"] == {"ready": True}
    assert place.client.patch(f"{custom.path}/a/status", {"status": {}}).code == 404


def test_a_custom_resource_takes_no_strategic_merge(place: Place) -> None:
    custom = Custom(place, status=False)
    place.client.post(custom.path, custom.widget("a"))

    reply = place.client.patch(
        f"{custom.path}/a", {"spec": {}}, "application/strategic-merge-patch+json"
    )

    assert (reply.code, reply.reason) == (415, "UnsupportedMediaType")


# -- reviews -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "resource", "under"),
    [
        pytest.param("list", "pods", "", id="list pods"),
        pytest.param("create", "pods", "eviction", id="evict pods"),
    ],
)
def test_an_account_with_all_permissions_is_reported_so(
    client: Client, verb: str, resource: str, under: str
) -> None:
    asked = {"verb": verb, "resource": resource, "subresource": under, "namespace": "default"}

    reply = client.post(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": asked}},
    )

    assert reply.code == 201
    assert reply.body["status"]["allowed"] is True
