"""The state machine of a job: each row is a transition.

`-X` is written before the action, `+X` after it. `Failed/Timeout` is the end of the job, and
`-Failed/Timeout delete placeholder` an end that is written before something is released.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from resettle.controllers.migration.next_step import next_step
from resettle.controllers.migration.status import note_eviction_refused
from resettle.controllers.migration.types import Observed, Wait
from resettle.model.migration_job import ABORT, GATE_LABEL, MigrationJob, PodReference
from resettle.testing.builders import NOW, before
from tests.controllers.migration.builders import (
    SET,
    SOURCE,
    TestRefusal,
    at,
    change,
    job,
    live,
    placeholder,
    successor,
    text_of,
)

CREATED = ("ReservationCreated=True/Created",)
HELD = (*CREATED, "ReservationScheduled=True/Scheduled")
ASKING = (*HELD, "Eviction=Unknown/Evicting")
LEAVING = (*HELD, "Eviction=False/Evicting")
ON_N2: dict[str, Any] = {"nodeName": "n2"}
EVICTED: dict[str, Any] = {**ON_N2, "evictionRequestedAt": before("10s")}
CLAIMED = {**EVICTED, "podRef": {"namespace": "shop", "name": "web-2", "uid": "new"}}
DIRECT = {"mode": "EvictDirectly"}
GATE, SOFT, HARD = {"steering": "Gate"}, {"steering": "Soft"}, {"steering": "Hard"}
YIELD = {"placeholderPriority": "Yield"}
LATE = "6m"
"""Older than the ttl."""
NO, BUSY = TestRefusal("has a local disk"), TestRefusal("waits for n1", temporary=True)
NOWHERE = TestRefusal("would take it", code="no-node-fits")


def held(**more: Any) -> MigrationJob:
    more.setdefault("conditions", HELD)
    return job(**{"status": {**ON_N2, **more.pop("status", {})}, **more})


def leaving(**more: Any) -> MigrationJob:
    return job(conditions=LEAVING, **{"status": EVICTED, **more})


def claimed(**more: Any) -> MigrationJob:
    return job(conditions=LEAVING, **{"status": CLAIMED, **more})


def seen(**more: Any) -> Observed:
    return Observed(**{"victim": live(), **more})


def place(**more: Any) -> Observed:
    return seen(placeholder=placeholder(), **more)


def left(**more: Any) -> Observed:
    return Observed(**more)


def rows(table: dict[str, tuple[MigrationJob, Observed, str]]) -> pytest.MarkDecorator:
    cases = [pytest.param(*row, id=name) for name, row in table.items()]
    return pytest.mark.parametrize(("job", "observed", "step"), cases)


@rows(
    {
        "no place yet": (
            job(),
            seen(),
            "create placeholder +ReservationCreated=True/Created",
        ),
        "creation was refused once": (
            job(conditions=["ReservationCreated=False/FailedCreateReservation"]),
            seen(),
            "create placeholder +ReservationCreated=True/Created",
        ),
        "placeholder exists, but no record of it": (
            job(),
            place(),
            "record +ReservationCreated=True/Created",
        ),
        "placeholder without a node": (
            job(conditions=CREATED),
            seen(placeholder=placeholder("", scheduling_message="0/3 nodes")),
            "wait +ReservationScheduled=False/Unschedulable",
        ),
        "no node in reserveTimeout": (
            job(conditions=CREATED, since="60s", age="2m"),
            seen(placeholder=placeholder("", scheduling_message="0/3 nodes")),
            "-Failed/Unschedulable delete placeholder",
        ),
        "placeholder has a node": (
            job(conditions=CREATED),
            place(),
            "record +ReservationScheduled=True/Scheduled",
        ),
        "placeholder on the source node": (
            job(conditions=CREATED),
            seen(placeholder=placeholder("n1")),
            "-Failed/ForbiddenMigratePod delete placeholder",
        ),
        "placeholder deleted before it had a node": (
            job(conditions=CREATED),
            seen(),
            "Failed/MissingReservation",
        ),
        "placeholder preempted": (held(), seen(), "Failed/ReservationPreempted"),
        "placeholder being preempted": (
            job(conditions=CREATED),
            seen(placeholder=placeholder(preempted=True)),
            "-Failed/ReservationPreempted delete placeholder",
        ),
        "placeholder finished": (
            held(),
            seen(placeholder=placeholder(phase="Failed")),
            "-Failed/ReservationPreempted delete placeholder",
        ),
        "node of the place deleted": (
            held(),
            place(place_exists=False),
            "-Failed/NodeGone delete placeholder",
        ),
        "node and placeholder deleted": (held(), seen(place_exists=False), "Failed/NodeGone"),
        "place is held": (
            held(),
            place(),
            "-Eviction=Unknown/Evicting evict victim +Eviction=False/Evicting",
        ),
    }
)
def test_a_place_is_held_first(job: MigrationJob, observed: Observed, step: str) -> None:
    assert text_of(next_step(job, observed, NOW)) == step


@rows(
    {
        "filters refuse": (
            held(),
            place(refusal=NO),
            "-Failed/ForbiddenMigratePod delete placeholder",
        ),
        "filters refuse for now": (held(), place(refusal=BUSY), "wait +WaitingForLimit"),
        "filters refuse for now, after a request": (
            held(conditions=ASKING),
            place(refusal=BUSY),
            "wait +WaitingForLimit",
        ),
        "no node would take it": (
            held(),
            place(refusal=NOWHERE),
            "-Failed/Unschedulable delete placeholder",
        ),
        "not known whether it rolls out": (
            held(),
            place(rolling_out="web rolls out", outdated="web has changed"),
            "wait +WorkloadRollingOut",
        ),
        "rollout": (
            held(),
            place(rolling_out="web rolls out"),
            "-Failed/WorkloadRollingOut delete placeholder",
        ),
        "soft steering": (
            held(settings=SOFT),
            place(steered=False),
            "steer Soft n1 +Steered=True/InForce",
        ),
        "hard steering": (
            held(settings=HARD),
            place(steered=False),
            "steer Hard n1 +Steered=True/InForce",
        ),
        "gate": (held(settings=GATE), place(steered=False), "steer Gate n1 +Steered=True/InForce"),
        "taint set, but no record of it": (
            held(settings=SOFT),
            place(),
            "record +Steered=True/InForce",
        ),
        "taint removed by another": (
            held(settings=SOFT, conditions=[*HELD, "Steered=True/InForce"]),
            place(steered=False),
            "steer Soft n1 +Steered=True/InForce",
        ),
        "refused before it steers": (
            held(settings=SOFT),
            place(steered=False, refusal=NO),
            "-Failed/ForbiddenMigratePod delete placeholder",
        ),
        "pod gone": (
            held(),
            left(placeholder=placeholder()),
            "-Failed/MissingPod delete placeholder",
        ),
        "pod replaced under its name": (
            held(),
            left(victim=live(uid="other"), placeholder=placeholder()),
            "-Failed/PodReplaced delete placeholder",
        ),
        "pod deleted by another": (
            held(),
            left(victim=live(terminating=True), placeholder=placeholder()),
            "-Failed/ForbiddenMigratePod delete placeholder",
        ),
        "request was not granted": (
            held(conditions=ASKING),
            place(),
            "evict victim +Eviction=False/Evicting",
        ),
        "no pod with the uid at the request": (
            held(conditions=[*HELD, "Eviction=Unknown/PodReplaced"]),
            left(victim=live(uid="other"), placeholder=placeholder()),
            "-Failed/PodReplaced delete placeholder",
        ),
        "place lost while the budget is spent": (
            held(conditions=ASKING),
            seen(),
            "Failed/ReservationPreempted",
        ),
        "pods gated before the eviction": (
            held(settings=GATE, gating=True),
            place(other_gated=(PodReference("shop", "web-9", "extra"),)),
            "ungate extra",
        ),
        "bare pod": (
            job(source={"owner": None}),
            seen(),
            "Failed/ForbiddenMigratePod",
        ),
        "pod without a node": (
            job(source={"nodeName": ""}),
            seen(victim=live(node="")),
            "Failed/ForbiddenMigratePod",
        ),
        "target is the source": (
            job(settings={"nodeName": "n1"}),
            seen(),
            "Failed/ForbiddenMigratePod",
        ),
    }
)
def test_all_is_checked_again_right_before_the_eviction(
    job: MigrationJob, observed: Observed, step: str
) -> None:
    assert text_of(next_step(job, observed, NOW)) == step


@rows(
    {
        "granted, not recorded, pod terminating": (
            held(conditions=ASKING),
            left(victim=live(terminating=True), placeholder=placeholder()),
            "record +Eviction=False/Evicting",
        ),
        "granted, not recorded, pod gone": (
            held(conditions=ASKING),
            left(placeholder=placeholder()),
            "record +Eviction=False/Evicting",
        ),
        "granted, not recorded, pod replaced": (
            held(conditions=ASKING),
            left(victim=live(uid="other"), placeholder=placeholder()),
            "record +Eviction=False/Evicting",
        ),
        "granted, pod does not look it": (
            leaving(),
            place(),
            "wait +PodBoundReservation=False/WaitForPodBindReservation",
        ),
        "pod terminating, no replacement": (
            leaving(),
            left(victim=live(terminating=True), placeholder=placeholder()),
            "wait +PodBoundReservation=False/WaitForPodBindReservation",
        ),
        "replacement while the pod terminates": (
            leaving(),
            left(victim=live(terminating=True), placeholder=placeholder(), replacement=successor()),
            "record +podRef=new",
        ),
        "hold: the scheduler has not tried yet": (
            claimed(),
            left(placeholder=placeholder(), replacement=successor()),
            "wait +Eviction=True/EvictComplete",
        ),
        "hold: replacement without a node": (
            claimed(),
            left(placeholder=placeholder(), replacement=successor(scheduling_message="0/3 nodes")),
            "hand over to new: nominate n2",
        ),
        "hold: node of the place gone": (
            claimed(),
            left(placeholder=placeholder(), replacement=successor(), place_exists=False),
            "hand over to new",
        ),
        "hold: place lost": (
            claimed(),
            left(replacement=successor()),
            "wait +Eviction=True/EvictComplete",
        ),
        "yield: the scheduler preempts": (
            claimed(settings=YIELD),
            left(placeholder=placeholder(), replacement=successor()),
            "wait +Eviction=True/EvictComplete",
        ),
        "gate: stops with the claim": (
            claimed(settings=GATE, gating=True),
            left(placeholder=placeholder(), replacement=successor(gated=True)),
            "stop gating",
        ),
        "gate: replacement is pinned": (
            claimed(settings=GATE),
            left(placeholder=placeholder(), replacement=successor(gated=True)),
            "hand over to new: pin n2 nominate n2 ungate",
        ),
        "gate: another revision is not pinned": (
            claimed(settings=GATE),
            left(placeholder=placeholder(), replacement=successor(gated=True, revision="7a")),
            "hand over to new ungate",
        ),
        "gate: another controller is not pinned": (
            claimed(settings=GATE),
            left(placeholder=placeholder(), replacement=successor(gated=True, owner=SET)),
            "hand over to new ungate",
        ),
        "gate: place lost": (
            claimed(settings=GATE),
            left(replacement=successor(gated=True)),
            "hand over to new ungate",
        ),
        "gate: other pods of the workload": (
            claimed(settings=GATE, gating=True),
            left(
                placeholder=placeholder(),
                replacement=successor(gated=True),
                other_gated=(PodReference("shop", "web-9", "extra"),),
            ),
            "ungate extra",
        ),
        "replacement is scheduled": (
            claimed(),
            left(placeholder=placeholder(), replacement=successor(node="n2")),
            "delete placeholder",
        ),
        "replacement not ready": (
            claimed(),
            left(replacement=successor(node="n2")),
            "wait +BoundPodReady=False/WaitForBoundPodReady",
        ),
        "replacement ready, pod still there": (
            claimed(),
            left(victim=live(terminating=True), replacement=successor(node="n2", ready=True)),
            "wait +BoundPodReady=True/Ready",
        ),
        "replacement ready": (
            claimed(),
            left(replacement=successor(node="n2", ready=True)),
            "Succeeded/Complete",
        ),
        "replacement has done its work": (
            claimed(),
            left(replacement=successor(node="n2", phase="Succeeded")),
            "Succeeded/Complete",
        ),
        "StatefulSet: ready under the same name": (
            claimed(),
            left(
                victim=live(uid="new", node="n2", ready=True),
                replacement=successor(node="n2", ready=True),
            ),
            "Succeeded/Complete",
        ),
        "claimed replacement gone, another one there": (
            claimed(),
            left(replacement=successor("web-3", "newer")),
            "record +podRef=newer",
        ),
        "claimed replacement gone": (
            claimed(),
            left(),
            "wait +PodBoundReservation=False/WaitForPodBindReservation",
        ),
    }
)
def test_the_place_goes_to_the_replacement(
    job: MigrationJob, observed: Observed, step: str
) -> None:
    assert text_of(next_step(job, observed, NOW)) == step


@rows(
    {
        "start": (
            job(settings=DIRECT),
            seen(),
            "-Eviction=Unknown/Evicting evict victim +Eviction=False/Evicting",
        ),
        "steering means nothing": (
            job(settings={**DIRECT, **SOFT}),
            seen(steered=False),
            "-Eviction=Unknown/Evicting evict victim +Eviction=False/Evicting",
        ),
        "bare pod": (
            job(settings=DIRECT, source={"owner": None}),
            seen(),
            "-Eviction=Unknown/Evicting evict victim +Eviction=False/Evicting",
        ),
        "refused": (job(settings=DIRECT), seen(refusal=NO), "Failed/ForbiddenMigratePod"),
        "no node would take it": (
            job(settings=DIRECT),
            seen(refusal=NOWHERE),
            "Failed/ForbiddenMigratePod",
        ),
        "refused for now": (job(settings=DIRECT), seen(refusal=BUSY), "wait +WaitingForLimit"),
        "rollout": (
            job(settings=DIRECT),
            seen(rolling_out="web rolls out"),
            "wait +WorkloadRollingOut",
        ),
        "pod replaced": (job(settings=DIRECT), seen(victim=live(uid="x")), "Failed/PodReplaced"),
        "pod missing": (job(settings=DIRECT), left(), "Failed/MissingPod"),
        "pod terminating": (
            leaving(settings=DIRECT),
            seen(victim=live(terminating=True)),
            "wait",
        ),
        "pod gone": (leaving(settings=DIRECT), left(), "Succeeded/Complete"),
        "pod gone after the ttl": (
            leaving(settings=DIRECT, age=LATE),
            left(),
            "Succeeded/Complete",
        ),
        "pod stays": (
            leaving(settings=DIRECT, age=LATE),
            seen(victim=live(terminating=True)),
            "Failed/Timeout",
        ),
    }
)
def test_without_a_place_the_job_ends_when_the_pod_is_gone(
    job: MigrationJob, observed: Observed, step: str
) -> None:
    assert text_of(next_step(job, observed, NOW)) == step


@rows(
    {
        "before a place": (job(age=LATE), seen(), "Failed/Timeout"),
        "with a place": (held(age=LATE), place(), "-Failed/Timeout delete placeholder"),
        "budget spent": (
            held(conditions=ASKING, age=LATE),
            place(),
            "-Failed/Timeout delete placeholder",
        ),
        "pod never leaves": (
            leaving(age=LATE),
            left(victim=live(terminating=True), placeholder=placeholder()),
            "-Failed/Timeout delete placeholder",
        ),
        "no replacement": (
            leaving(age=LATE),
            left(placeholder=placeholder()),
            "-Failed/NoReplacement delete placeholder",
        ),
        "replacement never scheduled": (
            claimed(age=LATE),
            left(replacement=successor()),
            "Failed/HandoverTimeout",
        ),
        "yield: replacement never scheduled": (
            claimed(age=LATE, settings=YIELD),
            left(placeholder=placeholder(), replacement=successor()),
            "-Failed/HandoverTimeout delete placeholder",
        ),
        "replacement never ready": (
            claimed(age=LATE),
            left(replacement=successor(node="n2")),
            "Failed/ReplacementNotReady",
        ),
        "replacement ready, pod never leaves": (
            claimed(age=LATE),
            left(victim=live(terminating=True), replacement=successor(node="n2", ready=True)),
            "Failed/Timeout",
        ),
        "all done, a little late": (
            claimed(age=LATE),
            left(replacement=successor(node="n2", ready=True)),
            "Succeeded/Complete",
        ),
        "nothing can be read": (
            held(age=LATE),
            left(placeholder=placeholder(), unreadable="forbidden"),
            "-Failed/Timeout delete placeholder",
        ),
    }
)
def test_when_the_ttl_is_over_the_reason_is_what_was_missing(
    job: MigrationJob, observed: Observed, step: str
) -> None:
    assert text_of(next_step(job, observed, NOW)) == step


ENDING = {"ending": {"phase": "Failed", "reason": "Unschedulable", "message": "no place"}}


@rows(
    {
        "gate first": (
            job(status=ENDING, gating=True),
            place(replacement=successor(gated=True)),
            "stop gating",
        ),
        "then gated pods": (
            job(status=ENDING),
            place(
                replacement=successor(gated=True),
                other_gated=(PodReference("shop", "web-9", "extra"),),
            ),
            "ungate extra new",
        ),
        "then the placeholder": (job(status=ENDING), place(), "delete placeholder"),
        "then the phase": (job(status=ENDING), left(), "Failed/Unschedulable"),
        "whatever else happens": (
            job(status=ENDING, spec={"paused": True}, metadata={"annotations": {ABORT: ""}}),
            left(unreadable="forbidden"),
            "Failed/Unschedulable",
        ),
    }
)
def test_a_job_ends_after_all_of_it_is_released(
    job: MigrationJob, observed: Observed, step: str
) -> None:
    assert text_of(next_step(job, observed, NOW)) == step


ABORTING = {"annotations": {ABORT: "true"}}
DELETED = {"deletionTimestamp": before("1s")}


@rows(
    {
        "not accepted": (job(accepted=False), left(), "wait"),
        "running without arbitration": (
            job(accepted=False, status={"phase": "Running", "source": SOURCE}),
            place(),
            "wait",
        ),
        "unreadable": (held(), left(unreadable="forbidden"), "wait +Unreadable"),
        "unreadable after the eviction": (
            leaving(),
            left(unreadable="forbidden"),
            "wait +Unreadable",
        ),
        "paused": (held(spec={"paused": True}), place(), "wait"),
        "paused, ttl over": (held(spec={"paused": True}, age=LATE), place(), "wait"),
        "paused after the eviction": (
            claimed(spec={"paused": True}),
            left(placeholder=placeholder(), replacement=successor(scheduling_message="0/3 nodes")),
            "hand over to new: nominate n2",
        ),
        "aborted by annotation": (
            held(metadata=ABORTING),
            place(),
            "-Aborted/Aborted delete placeholder",
        ),
        "aborted by annotation, nothing held": (job(metadata=ABORTING), seen(), "Aborted/Aborted"),
        "aborted before arbitration": (
            job(accepted=False, metadata=ABORTING),
            left(),
            "Aborted/Aborted",
        ),
        "aborted while gated": (
            claimed(metadata=ABORTING, settings=GATE),
            left(placeholder=placeholder(), replacement=successor(gated=True)),
            "-Aborted/Aborted ungate new",
        ),
        "aborted by phase": (held(status={"phase": "Aborted"}), place(), "delete placeholder"),
        "aborted by phase, all released": (
            held(status={"phase": "Aborted"}),
            seen(),
            "leave alone",
        ),
        "ended": (held(status={"phase": "Succeeded"}), left(), "leave alone"),
        "deleted": (held(metadata=DELETED), place(), "delete placeholder"),
        "deleted, all released": (held(metadata=DELETED), seen(), "leave alone"),
        "newer version": (
            held(spec={"color": "red"}),
            place(),
            "leave alone +Supported=False/NewerVersion",
        ),
        "newer version, said already": (
            held(
                spec={"color": "red"},
                status={
                    "conditions": [
                        {
                            "type": "Supported",
                            "status": "False",
                            "reason": "NewerVersion",
                            "message": "this version does not know spec.color; upgrade resettle",
                        }
                    ]
                },
            ),
            place(),
            "leave alone",
        ),
        "phase of a newer version": (
            held(status={"phase": "Resting"}),
            place(),
            "leave alone +Supported=False/NewerVersion",
        ),
        "newer version, deleted": (
            held(spec={"color": "red"}, metadata=DELETED),
            place(),
            "leave alone",
        ),
        "ttl changed to nonsense": (
            held(spec={"ttl": "0s"}),
            place(),
            "-Failed/InvalidSpec delete placeholder",
        ),
    }
)
def test_what_stops_a_job_in_any_state(job: MigrationJob, observed: Observed, step: str) -> None:
    assert text_of(next_step(job, observed, NOW)) == step


def test_waiting_for_a_place_ends_at_the_earlier_of_both_limits() -> None:
    observed = seen(placeholder=placeholder(""))

    by_reservation = next_step(job(conditions=CREATED, age="1m", since="10s"), observed, NOW)
    by_ttl = next_step(job(conditions=CREATED, age="4m50s", since="10s"), observed, NOW)

    assert isinstance(by_reservation, Wait)
    assert by_reservation.until == NOW + timedelta(seconds=50)
    assert isinstance(by_ttl, Wait)
    assert by_ttl.until == NOW + timedelta(seconds=10)


def test_waiting_writes_its_condition_only_once() -> None:
    observed = left(placeholder=placeholder())
    first = next_step(leaving(), observed, NOW)
    second = next_step(change(leaving(), first.after), observed, NOW + timedelta(seconds=9))

    assert text_of(first) == "wait +PodBoundReservation=False/WaitForPodBindReservation"
    assert text_of(second) == "wait"


def test_pods_that_exist_before_the_request_are_recorded_with_it() -> None:
    first = next_step(held(), place(siblings=("b", "a")), NOW)
    asked = change(held(), first.before)
    again = next_step(asked, place(siblings=("b", "a")), NOW)
    later = next_step(asked, place(siblings=("c",)), NOW)

    refused = change(asked, note_eviction_refused(asked, NOW, "the budget is spent"))
    after_refusal = next_step(refused, place(siblings=("c",)), NOW)

    assert asked.siblings == ("a", "b")
    assert again.before is None
    # The request may have been granted; what was refused was not.
    assert change(asked, later.before).siblings == ("a", "b", "c")
    assert change(refused, after_refusal.before).siblings == ("c",)


def test_a_refused_request_is_no_eviction_if_the_pod_leaves_later() -> None:
    refused = held(conditions=(*HELD, "Eviction=False/EvictionRefused"))

    step = next_step(refused, left(placeholder=placeholder()), NOW)

    assert text_of(step) == "-Failed/MissingPod delete placeholder"


def test_a_place_that_cannot_be_created_ends_the_job() -> None:
    waits = job(conditions=["ReservationCreated=False/FailedCreateReservation"], since="59s")
    late = job(conditions=["ReservationCreated=False/FailedCreateReservation"], since="60s")

    assert text_of(next_step(waits, left(victim=live()), NOW)).startswith("create placeholder")
    assert text_of(next_step(late, left(victim=live()), NOW)) == "Failed/FailedCreateReservation"


def test_a_gate_that_is_not_in_force_ends_the_job_after_a_while() -> None:
    labels = {"labels": {GATE_LABEL: "true"}}

    def gating(*more: str, since: str = "0s") -> MigrationJob:
        return held(
            conditions=(*HELD, *more),
            since=since,
            settings={"steering": "Gate"},
            metadata=labels,
        )

    first = next_step(gating(), place(steered=False), NOW)
    soon = next_step(gating("Steered=False/NotInForce", since="8s"), place(steered=False), NOW)
    late = next_step(gating("Steered=False/NotInForce", since="30s"), place(steered=False), NOW)

    assert text_of(first) == "wait +Steered=False/NotInForce"
    assert isinstance(soon, Wait)
    assert soon.until == NOW + timedelta(seconds=8)
    assert text_of(late).startswith("-Failed/NotInForce")


def test_a_request_that_was_not_recorded_counts_from_the_moment_it_was_announced() -> None:
    started = held(conditions=ASKING, since="30s")

    step = next_step(started, left(placeholder=placeholder()), NOW)

    assert change(started, step.after).eviction_requested_at == at("30s")


def test_a_replacement_on_another_node_is_reported() -> None:
    step = next_step(claimed(), left(replacement=successor(node="n3", ready=True)), NOW)
    ended = change(claimed(), step.after)

    assert text_of(step) == "Succeeded/Complete"
    assert ended.object.status["message"] == (
        "shop/web-2 is on n3, not on n2, which was reserved, and ready"
    )
    assert ended.conditions["ReservationBound"].reason == "OnOtherNode"
    assert ended.conditions["Eviction"].status == "True"
    assert (ended.evicted_at, ended.finished_at) == (NOW, NOW)
    assert ended.object.status["status"] == "Complete"
    assert next_step(ended, left(), NOW).after is None
