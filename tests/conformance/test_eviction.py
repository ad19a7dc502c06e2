"""Evictions, and the budgets that allow or refuse them."""

from __future__ import annotations

import pytest

from tests.conformance.harness import Place

WEB = {"app": "web"}


def gone_or_leaving(place: Place, name: str) -> bool:
    reply = place.client.get(f"{place.pods}/{name}")
    return reply.code == 404 or "deletionTimestamp" in reply.body["metadata"]


def test_a_pod_without_a_budget_leaves(place: Place) -> None:
    place.running("a", place.node(), labels=WEB)

    reply = place.evict("a")

    assert (reply.code, reply.body["kind"], reply.body["status"]) == (201, "Status", "Success")
    pod = place.client.get(f"{place.pods}/a").body
    assert pod["metadata"]["deletionTimestamp"]
    reasons = {
        condition["type"]: condition.get("reason") for condition in pod["status"]["conditions"]
    }
    assert reasons["DisruptionTarget"] == "EvictionByEvictionAPI"


def test_a_budget_is_debited(place: Place) -> None:
    node = place.node()
    for name in ("a", "b"):
        place.running(name, node, labels=WEB)
    place.budget("web", labels=WEB, least=1, healthy=2)

    assert place.evict("a").code == 201
    assert place.allowed("web") == 0
    assert gone_or_leaving(place, "a")


def test_a_spent_budget_refuses_and_is_named(place: Place) -> None:
    place.running("a", place.node(), labels=WEB)
    place.budget("web", labels=WEB, least=1, healthy=1)

    reply = place.evict("a")

    assert (reply.code, reply.reason) == (429, "TooManyRequests")
    assert reply.body["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    (cause,) = reply.body["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == (
        "The disruption budget web needs 1 healthy pods and has 1 currently"
    )
    assert "retryAfterSeconds" not in reply.body["details"]
    assert not gone_or_leaving(place, "a")


def test_a_budget_of_other_pods_has_no_say(place: Place) -> None:
    node = place.node()
    place.running("a", node, labels=WEB)
    place.running("b", node, labels={"app": "db"})
    place.budget("db", labels={"app": "db"}, least=1, healthy=1)

    assert place.evict("a").code == 201


def test_two_budgets_for_one_pod_are_an_error(place: Place) -> None:
    node = place.node()
    for name in ("a", "b"):
        place.running(name, node, labels=WEB)
    for name in ("one", "two"):
        place.budget(name, labels=WEB, least=1, healthy=2)

    reply = place.evict("a")

    assert reply.code == 500
    assert "more than one PodDisruptionBudget" in reply.body["message"]
    assert not gone_or_leaving(place, "a")


@pytest.mark.parametrize(
    "phase", [pytest.param(phase, id=phase.lower()) for phase in ("Pending", "Succeeded", "Failed")]
)
def test_a_pod_that_does_not_run_needs_no_leave(place: Place, phase: str) -> None:
    node = place.node()
    place.running("guarded", node, labels=WEB)
    place.running("idle", node, labels=WEB, phase=phase, ready=False)
    place.budget("web", labels=WEB, least=1, healthy=1, of=2)

    assert place.evict("idle").code == 201
    assert gone_or_leaving(place, "idle")


def test_a_pod_that_is_leaving_already_needs_no_leave(place: Place) -> None:
    place.running("a", place.node(), labels=WEB)
    place.client.delete(f"{place.pods}/a")
    place.budget("web", labels=WEB, least=1, healthy=0, of=1)

    assert place.evict("a").code == 201


@pytest.mark.parametrize(
    ("spec", "others", "code"),
    [
        pytest.param({}, 1, 201, id="enough others are healthy"),
        pytest.param({}, 0, 429, id="too few others are healthy"),
        pytest.param(
            {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 0, 429, id="the same, spelled out"
        ),
        pytest.param(
            {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, 201, id="it may always leave"
        ),
    ],
)
def test_a_pod_that_is_not_ready_leaves_as_its_budget_says(
    place: Place, spec: dict[str, str], others: int, code: int
) -> None:
    node = place.node()
    place.running("ill", node, labels=WEB, ready=False)
    for number in range(others):
        place.running(f"well-{number}", node, labels=WEB)
    place.budget("web", labels=WEB, least=1, healthy=others, of=others + 1, **spec)

    assert place.evict("ill").code == code


def test_only_the_pod_that_was_meant_leaves(place: Place) -> None:
    node = place.node()
    place.running("a", node, labels=WEB)
    place.running("b", node, labels=WEB)

    reply = place.evict("a", {"preconditions": {"uid": "0b3f7f1c-0000-4000-8000-000000000000"}})

    assert (reply.code, reply.reason) == (409, "Conflict")
    assert not gone_or_leaving(place, "a")
    uid = place.client.get(f"{place.pods}/a").body["metadata"]["uid"]
    assert place.evict("a", {"preconditions": {"uid": uid}}).code == 201


def test_a_budget_is_debited_even_if_another_pod_was_meant(place: Place) -> None:
    node = place.node()
    for name in ("a", "b"):
        place.running(name, node, labels=WEB)
    place.budget("web", labels=WEB, least=1, healthy=2)

    reply = place.evict("a", {"preconditions": {"uid": "0b3f7f1c-0000-4000-8000-000000000000"}})

    assert reply.code == 409
    assert place.allowed("web") == 0


@pytest.mark.parametrize("where", ["in the query", "in the options"])
def test_a_dry_run_evicts_no_pod(place: Place, where: str) -> None:
    node = place.node()
    for name in ("a", "b"):
        place.running(name, node, labels=WEB)
    place.budget("web", labels=WEB, least=1, healthy=2)

    reply = (
        place.evict("a", dryRun="All")
        if where == "in the query"
        else place.evict("a", {"dryRun": ["All"]})
    )

    assert reply.code == 201
    assert place.allowed("web") == 1
    assert not gone_or_leaving(place, "a")


def test_a_dry_run_asks_the_budget(place: Place) -> None:
    place.running("a", place.node(), labels=WEB)
    place.budget("web", labels=WEB, least=1, healthy=1)

    assert place.evict("a", dryRun="All").code == 429


def test_a_grace_period_of_the_eviction_is_the_pods(place: Place) -> None:
    place.running("a", place.node())

    place.evict("a", {"gracePeriodSeconds": 7})

    meta = place.client.get(f"{place.pods}/a").body["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 7


def test_a_pod_that_is_gone_cannot_be_evicted(place: Place) -> None:
    reply = place.evict("gone")

    assert (reply.code, reply.reason) == (404, "NotFound")
    assert reply.body["message"] == 'pods "gone" not found'


def test_an_eviction_names_the_pod_of_its_path(place: Place) -> None:
    place.running("a", place.node())
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}}

    assert place.client.post(f"{place.pods}/a/eviction", body).code == 400
