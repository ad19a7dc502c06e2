"""The controller of jobs on a test API server: when it asks, when again, and what it reports."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest

from resettle.controllers.migration import reconcile
from resettle.controllers.migration.api import job_event
from resettle.controllers.migration.manifests.crd import pod_migration_job_crd
from resettle.controllers.migration.next_step import next_step
from resettle.controllers.migration.plugin import PLUGIN
from resettle.framework import Plugin, Refusal
from resettle.model.migration_job import (
    ABORT,
    PLACEHOLDER,
    MigrationJob,
    PodReference,
    build_job,
)
from resettle.testing import ApiServer, Fault, cluster, node, pod, run_controller, workload
from resettle.testing.builders import NOW
from tests.controllers.migration.builders import job

DIRECTLY: dict[str, Any] = {"defaultJobMode": "EvictDirectly", "steering": "None"}
WORLD = cluster(
    node("n1").holding(pod("web-1", namespace="shop", owner="ReplicaSet/web")),
    node("n2"),
    workload("ReplicaSet/web", namespace="shop", replicas=3),
)
WEB_JOBS = ((1, "j"), (2, "bad"))
NO = Refusal("no", "is wanted where it is")
NOT_NOW = Refusal("not-now", "waits for its turn", temporary=True)


def serve(*faults: Fault) -> ApiServer:
    """An API server with one pod, and a job for it."""
    created = build_job(PodReference("shop", "web-1"), name="j")
    return ApiServer([*WORLD.objects, pod_migration_job_crd(), created], faults=faults)


def refuse_eviction(message: str, times: int = 1) -> Fault:
    """A fault: the API server refuses to evict."""
    return Fault(verbs=("create",), path="*/eviction", status=429, message=message, times=times)


def status_of(server: ApiServer) -> dict[str, Any]:
    stored = server.store.get("PodMigrationJob", "j", "")
    assert stored is not None
    return stored.get("status") or {}


def has_ended(server: ApiServer) -> bool:
    return status_of(server).get("phase") in ("Succeeded", "Failed")


def eviction_requests(server: ApiServer) -> int:
    return sum(request.path.endswith("/eviction") for request in server.requests)


def run_until_ended(server: ApiServer, *keepers: Keeper) -> None:
    """Run the controller until the job has ended; pods leave at once."""
    run_controller(
        PLUGIN,
        server,
        lambda: has_ended(server),
        filters=[keeper.plugin for keeper in keepers],
        delete_options={"gracePeriodSeconds": 0},
        **DIRECTLY,
    )


# -- refused evictions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([refuse_eviction("the budget is spent", times=2)], id="for the same reason"),
        pytest.param(
            [refuse_eviction(f"the budget lacks {missing}") for missing in (2, 1)],
            id="for another reason each time",
        ),
    ],
)
def test_after_a_refused_eviction_there_is_a_pause(
    faults: list[Fault], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "RETRY_SECONDS", 0.8)
    times: list[float] = []

    def asked_three_times() -> bool:
        if eviction_requests(server) > len(times):
            times.append(time.monotonic())
        return len(times) == 3

    with serve(*faults) as server:
        run_controller(PLUGIN, server, asked_three_times, **DIRECTLY)

    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) > 0.4, gaps


def test_a_job_that_is_aborted_after_a_refused_eviction_ends_without_a_second_request() -> None:
    abort = {"metadata": {"annotations": {ABORT: "true"}}}

    def is_aborted() -> bool:
        if eviction_requests(server) and not status_of(server).get("ending"):
            server.store.merge("PodMigrationJob", "j", abort, "")
        return status_of(server).get("phase") == "Aborted"

    with serve(refuse_eviction("the budget is spent", times=100)) as server:
        run_controller(PLUGIN, server, is_aborted, **DIRECTLY)

        assert eviction_requests(server) == 1


# -- what one job does to the controller, and to other jobs ----------------------------------------


def test_a_job_that_has_ended_does_not_keep_the_controller_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes: list[float] = []
    run_pass = reconcile.JobController._pass

    def count(controller: reconcile.JobController) -> None:
        passes.append(time.monotonic())
        run_pass(controller)

    monkeypatch.setattr(reconcile.JobController, "_pass", count)
    ended: list[float] = []

    def two_seconds_after_the_end() -> bool:
        if has_ended(server) and not ended:
            ended.append(time.monotonic() + 0.5)
        return bool(ended) and time.monotonic() > ended[0] + 2

    with serve() as server:
        options: dict[str, Any] = {"gracePeriodSeconds": 0}
        run_controller(
            PLUGIN, server, two_seconds_after_the_end, delete_options=options, **DIRECTLY
        )

    # One for each arbitrationInterval of half a second.
    assert sum(at > ended[0] for at in passes) <= 5


def test_a_fault_in_one_job_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_for_one(job: MigrationJob, observed: Any, now: Any) -> Any:
        if job.name == "bad":
            raise ZeroDivisionError("a fault")
        return next_step(job, observed, now)

    monkeypatch.setattr(reconcile, "next_step", fail_for_one)
    world = cluster(
        node("n1").holding(pod("web-1", namespace="shop", owner="ReplicaSet/web")),
        node("n2").holding(pod("web-2", namespace="shop", owner="ReplicaSet/web")),
        workload("ReplicaSet/web", namespace="shop", replicas=3),
    )
    jobs = [build_job(PodReference("shop", f"web-{n}"), name=name) for n, name in WEB_JOBS]
    with ApiServer([*world.objects, pod_migration_job_crd(), *jobs]) as server:
        log = run_controller(
            PLUGIN,
            server,
            lambda: has_ended(server),
            delete_options={"gracePeriodSeconds": 0},
            **DIRECTLY,
        )

    assert [line for line in log if "ZeroDivisionError: a fault" in line and "job=bad" in line]


def test_a_placeholder_that_is_refused_is_tried_again_after_pauses_that_grow() -> None:
    times: list[float] = []

    def tried_five_times() -> bool:
        tries = [r for r in server.requests if r.path.endswith("/namespaces/resettle/pods")]
        if len(tries) > len(times):
            times.append(time.monotonic())
        return len(times) == 5

    refused = Fault(
        verbs=("create",), path="*/namespaces/resettle/pods", status=403, message="quota", times=9
    )
    with serve(refused) as server:
        run_controller(PLUGIN, server, tried_five_times, steering="None")
        created = {c["type"]: c for c in status_of(server)["conditions"]}["ReservationCreated"]

    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps[-1] > max(0.6, 2 * gaps[0]), gaps
    assert (created["status"], created["reason"]) == ("False", "FailedCreateReservation")
    assert "quota" in created["message"]


def test_a_job_that_is_aborted_while_it_waits_for_its_turn_evicts_nothing() -> None:
    abort = {"metadata": {"annotations": {ABORT: "true"}}}

    def is_aborted() -> bool:
        if status_of(server).get("phase") == "Running":
            server.store.merge("PodMigrationJob", "j", abort, "")
        return status_of(server).get("phase") == "Aborted"

    with serve() as server:
        # The first turn is taken by an eviction that is refused; the next comes after 2 seconds.
        run_controller(PLUGIN, server, is_aborted, evictQPS=0.5, **DIRECTLY)

        assert eviction_requests(server) == 0


def test_a_placeholder_is_never_moved_by_a_job() -> None:
    world = cluster(
        node("n1").holding(
            pod("web-1", namespace="shop", owner="ReplicaSet/web", labels={PLACEHOLDER: "true"})
        ),
        node("n2"),
        workload("ReplicaSet/web", namespace="shop", replicas=3),
    )
    created = build_job(PodReference("shop", "web-1"), name="j")
    with ApiServer([*world.objects, pod_migration_job_crd(), created]) as server:
        run_until_ended(server)

        assert eviction_requests(server) == 0
        assert "holds a place" in status_of(server)["message"]


# -- filters ---------------------------------------------------------------------------------------


class Keeper:
    """A filter that gives the answer that a test wants."""

    def __init__(self, answer: Refusal | None = None) -> None:
        self.answer = answer
        self.plugin = Plugin(name="Keeper", filter=lambda args, view, pod: self.answer)


def test_the_message_of_a_refused_job_names_the_filter() -> None:
    with serve() as server:
        run_until_ended(server, Keeper(NO))

        assert eviction_requests(server) == 0
        status = status_of(server)
    assert (status["phase"], status["reason"]) == ("Failed", "ForbiddenMigratePod")
    assert status["message"] == "Keeper does not let shop/web-1 leave: it is wanted where it is"


def test_filters_are_asked_again_before_an_eviction_is_requested_again() -> None:
    keeper = Keeper()

    def ends_once_kept() -> bool:
        if eviction_requests(server):
            keeper.answer = NO
        return has_ended(server)

    with serve(refuse_eviction("the budget is spent", times=100)) as server:
        run_controller(PLUGIN, server, ends_once_kept, filters=[keeper.plugin], **DIRECTLY)

        assert eviction_requests(server) == 1
        assert status_of(server)["reason"] == "ForbiddenMigratePod"


def test_a_job_waits_while_a_filter_refuses_for_now_and_goes_on_afterwards() -> None:
    keeper = Keeper()

    def is_waiting() -> bool:
        if eviction_requests(server):
            keeper.answer = NOT_NOW
        return status_of(server).get("message") == NOT_NOW.sentence

    with serve(refuse_eviction("the budget is spent")) as server:
        run_controller(PLUGIN, server, is_waiting, filters=[keeper.plugin], **DIRECTLY)
        assert eviction_requests(server) == 1

        keeper.answer = None
        run_until_ended(server, keeper)
        assert eviction_requests(server) == 2
        assert status_of(server)["phase"] == "Succeeded"


# -- events ----------------------------------------------------------------------------------------


def test_events_tell_of_each_change_of_a_job_with_names_that_begin_like_the_job() -> None:
    with serve() as server:
        run_until_ended(server)
        events = sorted(server.store.list("Event"), key=lambda event: event["eventTime"])

    # Evicting: once before the request, and once when it is granted.
    reasons = ["Accepted", "Evicting", "Evicting", "Complete"]
    assert [event["reason"] for event in events] == reasons
    assert {event["metadata"]["namespace"] for event in events} == {"default"}
    assert all(event["metadata"]["name"].startswith("j-") for event in events)
    assert {event["type"] for event in events} == {"Normal"}
    assert {event["reportingComponent"] for event in events} == {
        "resettle.dev/migration-controller"
    }
    about = events[-1]["involvedObject"]
    assert (about["kind"], about["name"]) == ("PodMigrationJob", "j")
    assert events[-1]["message"] == "shop/web-1 has left n1"


def test_the_event_of_a_job_that_fails_is_a_warning_with_the_reason() -> None:
    with serve() as server:
        run_until_ended(server, Keeper(NO))
        (event,) = server.store.list("Event")

    assert (event["type"], event["reason"]) == ("Warning", "ForbiddenMigratePod")
    assert event["message"].startswith("Keeper does not let shop/web-1 leave")


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        pytest.param("web-1", "web-1-", id="a short name"),
        pytest.param("a" * 60, "a" * 50 + "-", id="a long name is cut"),
        pytest.param("a" * 49 + ".b", "a" * 49 + "-", id="and does not end in a dot"),
    ],
)
def test_the_name_of_an_event_begins_with_that_of_the_job(name: str, begins: str) -> None:
    event = job_event(job(name), "Accepted", "", warning=False, instance="me", at=NOW)

    assert event["metadata"]["generateName"] == begins
