"""Reading a PodMigrationJob: settings, what is unknown, what can never work; and a new job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from resettle.model.kinds import Kind
from resettle.model.migration_job import (
    ABORT,
    DEFAULTS,
    JOBS_PATH,
    KIND,
    ConditionType,
    JobMode,
    JobOptions,
    JobPhase,
    JobReason,
    JobSettings,
    MigrationJob,
    PlaceholderPriority,
    PodMigrationJob,
    PodReference,
    Steering,
    build_job,
    job_of_json,
)
from resettle.testing.builders import NOW, before

POD_REF = {"namespace": "shop", "name": "web-1"}
OLD = JobSettings(
    mode=JobMode.EVICT_DIRECTLY, ttl=timedelta(minutes=7), steering=Steering.SOFT, node_name=""
)


def job(
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    defaults: JobSettings = DEFAULTS,
    **metadata: Any,
) -> MigrationJob:
    return job_of_json(
        {
            "metadata": {"name": "j", "uid": "u", "creationTimestamp": before("1m"), **metadata},
            "spec": {"podRef": POD_REF} | (spec or {}),
            "status": status or {},
        },
        defaults,
    )


def test_a_job_that_says_little_has_the_settings_of_the_controller() -> None:
    read = job(defaults=OLD)

    assert read.phase is JobPhase.PENDING
    assert read.settings == OLD
    assert read.pod == PodReference("shop", "web-1")
    assert read.deadline == NOW + timedelta(minutes=6)
    assert (read.unknown, read.problems, read.is_accepted, read.has_asked) == ((), (), False, False)


def test_settings_of_the_job_win_over_those_of_the_controller() -> None:
    spec = {
        "mode": "ReservationFirst",
        "ttl": "1h30m",
        "reservationOptions": {
            "nodeName": "n2",
            "placeholderPriority": "Yield",
            "steering": "Hard",
            "reserveTimeout": "500ms",
        },
    }

    read = job(spec, defaults=OLD)

    assert read.settings == JobSettings(
        mode=JobMode.RESERVATION_FIRST,
        ttl=timedelta(minutes=90),
        placeholder_priority=PlaceholderPriority.YIELD,
        steering=Steering.HARD,
        reserve_timeout=timedelta(seconds=0.5),
        node_name="n2",
    )


def test_settings_are_fixed_at_acceptance_but_the_ttl_may_change() -> None:
    status = {"effective": JobSettings(reserve_timeout=timedelta(seconds=0.25)).to_json()}

    assert job({}, status, OLD).settings == JobSettings(reserve_timeout=timedelta(seconds=0.25))
    assert job({"ttl": "2h"}, status, OLD).settings.ttl == timedelta(hours=2)


@pytest.mark.parametrize(
    ("spec", "status", "unknown"),
    [
        pytest.param({"color": "red"}, {}, ["spec.color"], id="key of the spec"),
        pytest.param(
            {"podRef": POD_REF | {"shard": 1}}, {}, ["spec.podRef.shard"], id="key further down"
        ),
        pytest.param({"mode": "Copy"}, {}, ["spec.mode: Copy"], id="mode"),
        pytest.param(
            {"reservationOptions": {"steering": "Pull"}},
            {},
            ["spec.reservationOptions.steering: Pull"],
            id="steering",
        ),
        pytest.param({}, {"phase": "Resting"}, ["status.phase: Resting"], id="phase"),
        pytest.param(
            {},
            {"effective": {"mode": "Copy", "speed": 2}},
            ["status.effective.speed", "status.effective.mode: Copy"],
            id="settings at acceptance",
        ),
        pytest.param({}, {"phase": "Running", "heat": 3}, [], id="other fields of the status"),
    ],
)
def test_what_a_newer_version_wrote_is_unknown(
    spec: dict[str, Any], status: dict[str, Any], unknown: list[str]
) -> None:
    assert list(job(spec, status).unknown) == unknown


@pytest.mark.parametrize(
    ("spec", "reason", "says"),
    [
        pytest.param(
            {"podRef": {"name": "web-1"}}, JobReason.INVALID_POD_REF, "namespace", id="no namespace"
        ),
        pytest.param({"podRef": {}}, JobReason.INVALID_POD_REF, "a name", id="no pod"),
        pytest.param({"ttl": "0s"}, JobReason.INVALID_SPEC, "above zero", id="ttl of zero"),
        pytest.param({"ttl": "soon"}, JobReason.INVALID_SPEC, "spec.ttl is `soon`", id="no ttl"),
        pytest.param({"ttl": 5}, JobReason.INVALID_SPEC, "spec.ttl is `5`", id="ttl as a number"),
        pytest.param(
            {"deleteOptions": {"dryRun": ["All"]}}, JobReason.INVALID_SPEC, "dryRun", id="dry run"
        ),
    ],
)
def test_what_can_never_work_is_a_problem(
    spec: dict[str, Any], reason: JobReason, says: str
) -> None:
    ((got, sentence),) = job(spec).problems

    assert got is reason
    assert says in sentence
    assert job(spec).unknown == ()


def test_the_status_is_read_with_types() -> None:
    status = {
        "phase": "Running",
        "conditions": [
            {"type": "Arbitrated", "status": "True", "reason": "Accepted"},
            {"type": "Eviction", "status": "Unknown", "reason": "Evicting"},
            {"type": "Later", "status": "True"},
        ],
        "source": {
            "nodeName": "n1",
            "uid": "v",
            "priority": 7,
            "workload": "d",
            "owner": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r"},
        },
        "podRef": POD_REF | {"uid": "new"},
        "nodeName": "n2",
        "ending": {"phase": "Failed", "reason": "Timeout", "message": "m"},
        "startedAt": before("30s"),
        "evictionRequestedAt": "nonsense",
    }

    read = job({"paused": True}, status, annotations={ABORT: "true"})

    assert read.is_accepted
    assert read.has_asked
    assert read.paused
    assert read.is_abort_requested
    assert read.is_true(ConditionType.ARBITRATED)
    assert not read.is_true(ConditionType.EVICTION)
    assert read.source is not None
    assert read.source.owner is not None
    assert (read.source.workload, read.source.owner.kind, read.source.priority) == (
        "d",
        "ReplicaSet",
        7,
    )
    assert read.replacement == PodReference("shop", "web-1", "new")
    assert read.ending is not None
    assert (read.ending.phase, read.ending.reason) == (JobPhase.FAILED, "Timeout")
    assert read.started_at == NOW - timedelta(seconds=30)
    assert read.eviction_requested_at is None


@pytest.mark.parametrize("status", [{"conditions": 3}, {"source": []}, {"podRef": "x"}])
def test_a_malformed_status_is_read_as_empty(status: dict[str, Any]) -> None:
    read = job({}, status)

    assert (read.conditions, read.source, read.replacement) == ({}, None, None)


def test_the_struct_serves_as_a_declared_kind() -> None:
    kind = Kind(KIND, PodMigrationJob, JOBS_PATH)
    document = {"metadata": {"name": "j", "labels": None}, "spec": {"x": [1]}, "status": {"y": 2}}

    wire = msgspec.json.decode(msgspec.json.encode(document), type=PodMigrationJob)

    assert (kind.group, kind.plural) == ("resettle.dev", "podmigrationjobs")
    assert (wire.spec, wire.status) == ({"x": [1]}, {"y": 2})
    assert msgspec.json.decode(msgspec.json.encode(wire), type=PodMigrationJob) == wire


def test_a_new_job_says_only_what_is_asked_for() -> None:
    plain = build_job(PodReference("shop", "web-1", "v"))
    full = build_job(
        PodReference("shop", "web-1", "v"),
        JobOptions(
            mode=JobMode.RESERVATION_FIRST,
            ttl=timedelta(minutes=3),
            steering=Steering.SOFT,
            node_name="n2",
            delete_options={"gracePeriodSeconds": 5},
            trigger="LowNodeLoad",
            reason="n1 is hot",
            profile="p",
            created_by="resettle",
        ),
        name="j",
    )

    assert plain["metadata"] == {"generateName": "web-1-"}
    assert plain["spec"] == {"podRef": {"namespace": "shop", "name": "web-1", "uid": "v"}}
    assert full["metadata"] == {
        "name": "j",
        "labels": {"resettle.dev/created-by": "resettle"},
        "annotations": {
            "resettle.dev/evict-trigger": "LowNodeLoad",
            "resettle.dev/evict-reason": "n1 is hot",
            "resettle.dev/profile": "p",
        },
    }
    assert full["spec"] == {
        "mode": "ReservationFirst",
        "ttl": "3m",
        "podRef": {"namespace": "shop", "name": "web-1", "uid": "v"},
        "deleteOptions": {"gracePeriodSeconds": 5},
        "reservationOptions": {"nodeName": "n2", "steering": "Soft"},
    }
    assert not job_of_json(full).problems
