from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from resettle.kube.leader_election.lease import (
    LeaseRecord,
    format_micro_time,
    new_lease,
    read_record,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def record(spec: Any) -> LeaseRecord:
    return LeaseRecord({"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": spec})


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"<html>welcome</html>", id="a page"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"kind": "Status", "metadata": {}}', id="a status"),
        pytest.param(b'{"metadata": 3}', id="no metadata"),
    ],
)
def test_what_is_no_lease_is_not_read(body: bytes) -> None:
    assert read_record(body) is None


@pytest.mark.parametrize(
    ("spec", "holder", "duration", "transitions"),
    [
        pytest.param(
            {"holderIdentity": "a", "leaseDurationSeconds": 9, "leaseTransitions": 2},
            *("a", 9, 2),
            id="a whole one",
        ),
        pytest.param(None, "", None, 0, id="no spec"),
        pytest.param({"holderIdentity": None}, "", None, 0, id="no holder"),
        pytest.param({"holderIdentity": 5}, "? 5", None, 0, id="an unreadable holder"),
        pytest.param({"leaseDurationSeconds": 0}, "", None, 0, id="no time at all"),
        pytest.param({"leaseDurationSeconds": True}, "", None, 0, id="a time that is a yes"),
        pytest.param({"leaseDurationSeconds": 2**31}, "", None, 0, id="more than there is"),
        pytest.param({"leaseTransitions": "x"}, "", None, 0, id="a count that is none"),
    ],
)
def test_what_a_lease_says_however_garbled(
    spec: Any, holder: str, duration: int | None, transitions: int
) -> None:
    lease = record(spec)

    assert (lease.holder, lease.duration_seconds, lease.transitions) == (
        holder,
        duration,
        transitions,
    )


def test_a_promise_to_others_is_rounded_up() -> None:
    assert new_lease("ns", "n", "me", 15.2, NOON)["spec"]["leaseDurationSeconds"] == 16


def test_times_are_written_in_utc_to_the_microsecond() -> None:
    paris = datetime(2026, 1, 31, 13, 0, 0, 5, timezone(timedelta(hours=1)))

    assert format_micro_time(paris) == "2026-01-31T12:00:00.000005Z"


def test_what_others_wrote_comes_back_with_ours() -> None:
    body = json.dumps(
        {
            "metadata": {"resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {"holderIdentity": "them", "strategy": "OldestEmulationVersion"},
        }
    )
    lease = read_record(body.encode())

    assert lease is not None
    taken = lease.with_holder("me", 137, NOON)
    assert taken["metadata"] == {"resourceVersion": "7", "labels": {"a": "b"}}
    assert taken["spec"]["strategy"] == "OldestEmulationVersion"
    assert taken["spec"]["holderIdentity"] == "me"
