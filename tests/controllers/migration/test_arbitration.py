"""Arbitration: who may start, in which order, and who never starts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resettle.controllers.migration.arbitration import (
    Arbitrated,
    Judgement,
    WaitingJob,
    arbitrate,
    pods_accepted_later,
)
from resettle.controllers.migration.types import MoveRefusal
from resettle.model.migration_job import ABORT, JobReason, MigrationJob
from resettle.model.pod import DELETION_COST, Pod
from resettle.testing import cluster, node
from resettle.testing.builders import NOW, before
from resettle.testing.builders import pod as pod_object
from tests.controllers.migration.builders import TestRefusal, change, job, live


def waiting(name: str = "j", *, age: str = "1m", **more: Any) -> WaitingJob:
    """A job that waits, with its pod of the same name; `pod` has fields of that pod."""
    fields = {"owner": "ReplicaSet/web", **more.pop("pod", {})}
    chosen = more.pop("job", None) or job(name, accepted=False, age=age, pod=name)
    world = cluster(node("n1").holding(pod_object(name, namespace="shop", **fields)))
    (pod,) = world.snapshot().pods
    defaults = {"job": chosen, "live": live(name, pod.uid), "pod": pod, "workload": "web"}
    return WaitingJob(**{**defaults, **more})


def permit(pod: Pod, accepted: frozenset[str]) -> MoveRefusal | None:
    return None


def refuse_as(sentence: str, *, temporary: bool, code: str = "") -> Any:
    return lambda pod, accepted: TestRefusal(sentence, temporary, code=code)


def at_most(count: int) -> Any:
    def refuse(pod: Pod, accepted: frozenset[str]) -> MoveRefusal | None:
        return TestRefusal("waits for others", temporary=True) if len(accepted) >= count else None

    return refuse


def judge(entry: WaitingJob, refuse: Any = permit, **more: Any) -> Arbitrated:
    (result,) = arbitrate([entry], refuse, NOW, **more)
    return result


def outcome(result: Arbitrated) -> str:
    return f"{result.judgement}{f' {result.reason}' if result.reason else ''}"


BUSY = refuse_as("waits for n1", temporary=True)
NO = refuse_as("has a local disk", temporary=False)
NOWHERE = refuse_as("would take it", temporary=False, code="no-node-fits")


@pytest.mark.parametrize(
    ("entry", "refuse", "expected"),
    [
        pytest.param(waiting(), permit, "accepted Accepted", id="nothing against it"),
        pytest.param(waiting(), BUSY, "waits WaitingForLimit", id="limit of the moment"),
        pytest.param(waiting(), NO, "ended ForbiddenMigratePod", id="never"),
        pytest.param(waiting(), NOWHERE, "ended Unschedulable", id="no place can be held"),
        pytest.param(
            waiting(hold="budget web-pdb allows none"),
            permit,
            "waits WaitingForLimit",
            id="spent budget",
        ),
        pytest.param(
            waiting(hold="rolls out", hold_reason=JobReason.WORKLOAD_ROLLING_OUT),
            permit,
            "waits WorkloadRollingOut",
            id="rollout",
        ),
        pytest.param(
            waiting(hold="budget web-pdb allows none"),
            NO,
            "ended ForbiddenMigratePod",
            id="a budget does not hide that it can never move",
        ),
        pytest.param(
            waiting(unreadable="forbidden"), permit, "waits Unreadable", id="workload unreadable"
        ),
        pytest.param(
            waiting(unreadable="timeout", live=None),
            permit,
            "waits Unreadable",
            id="pod unreadable, not missing",
        ),
        pytest.param(
            WaitingJob(job=job(accepted=False), live=live()),
            permit,
            "waits Unreadable",
            id="pod not in the snapshot yet",
        ),
        pytest.param(waiting(live=None), permit, "ended MissingPod", id="pod missing"),
        pytest.param(
            waiting(live=live("j", "u", terminating=True)),
            permit,
            "ended ForbiddenMigratePod",
            id="pod is being deleted",
        ),
        pytest.param(
            waiting(
                job=job(
                    accepted=False,
                    spec={"podRef": {"namespace": "shop", "name": "j", "uid": "earlier"}},
                )
            ),
            permit,
            "ended PodReplaced",
            id="another pod of that name",
        ),
        pytest.param(
            waiting(live=live("j", "u", owner=None)),
            permit,
            "ended ForbiddenMigratePod",
            id="bare pod",
        ),
        pytest.param(
            waiting(
                live=live("j", "u", owner=None),
                job=job(accepted=False, spec={"mode": "EvictDirectly"}),
            ),
            permit,
            "accepted Accepted",
            id="bare pod, without a place",
        ),
        pytest.param(waiting(age="5m"), permit, "ended Timeout", id="ttl over"),
        pytest.param(
            waiting(age="5m", unreadable="forbidden"),
            permit,
            "ended Timeout",
            id="ttl over, unreadable",
        ),
        pytest.param(
            waiting(job=job(accepted=False, spec={"paused": True})),
            permit,
            "left alone",
            id="paused",
        ),
        pytest.param(
            waiting(job=job(accepted=False, age="1h", spec={"paused": True})),
            permit,
            "left alone",
            id="paused, ttl over",
        ),
        pytest.param(
            waiting(job=job(accepted=False, metadata={"annotations": {ABORT: ""}})),
            permit,
            "ended Aborted",
            id="aborted",
        ),
        pytest.param(
            waiting(job=job(accepted=False, spec={"podRef": {"name": "x"}})),
            permit,
            "ended InvalidPodRef",
            id="half a reference",
        ),
        pytest.param(
            waiting(job=job(accepted=False, spec={"ttl": "0s"})),
            permit,
            "ended InvalidSpec",
            id="ttl of zero",
        ),
    ],
)
def test_each_job_is_accepted_waits_or_ends(entry: WaitingJob, refuse: Any, expected: str) -> None:
    assert outcome(judge(entry, refuse)) == expected


@pytest.mark.parametrize(
    "untouched",
    [
        pytest.param(job(accepted=False, status={"phase": "Succeeded"}), id="succeeded"),
        pytest.param(job(accepted=False, age="1h", status={"phase": "Failed"}), id="failed"),
        pytest.param(job(accepted=False, status={"phase": "Aborted"}), id="aborted"),
        pytest.param(
            job(accepted=False, age="1h", metadata={"deletionTimestamp": before("1s")}),
            id="being deleted, even after its ttl",
        ),
        pytest.param(job(), id="accepted before"),
    ],
)
def test_other_jobs_are_never_written(untouched: MigrationJob) -> None:
    result = judge(WaitingJob(job=untouched), NO)

    assert (result.judgement, result.change) == (Judgement.LEFT_ALONE, None)


def test_a_job_of_a_newer_version_is_left_alone_and_says_so() -> None:
    newer = job(accepted=False, age="1h", spec={"color": "red"})
    result = judge(waiting(job=newer), NO)

    assert result.judgement is Judgement.LEFT_ALONE
    assert change(newer, result.change).conditions["Supported"].reason == "NewerVersion"


def test_an_accepted_job_has_all_that_the_next_process_needs() -> None:
    entry = waiting()
    started = change(entry.job, judge(entry).change)

    assert started.is_accepted
    assert started.phase == "Running"
    assert started.source == (entry.live or live()).to_source("web")
    assert started.object.status["effective"]["mode"] == "ReservationFirst"
    assert started.started_at == NOW


def test_a_job_that_waits_says_why_and_is_written_once() -> None:
    entry = waiting()
    first = change(entry.job, judge(entry, BUSY).change)
    second = judge(waiting(job=first), BUSY)

    assert first.phase == "Pending"
    assert first.conditions["Arbitrated"].message == "waits for n1"
    assert (second.judgement, second.change) == (Judgement.WAITS, None)
    assert change(first, judge(waiting(job=first)).change).is_accepted


def test_a_pod_that_moves_already_is_not_moved_by_a_second_job() -> None:
    entry = waiting()
    uid = (entry.live or live()).uid
    again = waiting(job=job("k", accepted=False))

    moving = judge(entry, moving={uid: "web"})
    first, second = arbitrate(
        [entry, WaitingJob(job=again.job, live=entry.live, pod=entry.pod)], permit, NOW
    )

    assert outcome(moving) == "waits WaitingForLimit"
    assert (outcome(first), outcome(second)) == ("accepted Accepted", "waits WaitingForLimit")


def test_the_order_is_total_and_documented() -> None:
    def cost(value: str) -> dict[str, Any]:
        return {"annotations": {DELETION_COST: value}}

    ordered = [
        waiting("a", pod={"priority": -1}),
        waiting("b", pod={"priority": 0}),
        waiting("c", pod={"cpu": "1"}),
        waiting("d", pod={"cpu": "1", **cost("5")}, workload="quiet"),
        waiting("e", pod={"cpu": "1", **cost("5")}, eviction_cost=1, workload="quiet", age="1s"),
        waiting("f", pod={"cpu": "1", **cost("5")}, eviction_cost=1, workload="busy", age="4m"),
        waiting("g", pod={"cpu": "1", **cost("5")}, eviction_cost=1, workload="busy", age="3m"),
        waiting("h", pod={"cpu": "1", **cost("5")}, eviction_cost=1, workload="busy", age="3m"),
        waiting("i", pod={"priority": 5}),
    ]
    moving = {"other-1": "busy", "other-2": "busy"}

    for entries in (ordered, ordered[::-1]):
        results = arbitrate(entries, BUSY, NOW, moving)
        assert [result.job.name for result in results] == list("abcdefghi")


def test_an_acceptance_counts_at_once_also_for_the_order() -> None:
    entries = [waiting(name, workload=name[0], age="1m") for name in ("a1", "a2", "a3", "b1")]

    results = arbitrate(entries, at_most(3), NOW)

    assert [(r.job.name, r.judgement is Judgement.ACCEPTED) for r in results] == [
        ("a1", True),
        ("b1", True),
        ("a2", True),
        ("a3", False),
    ]


@given(
    jobs=st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 2)), min_size=1, max_size=12),
    limit=st.integers(1, 3),
    duration=st.integers(1, 3),
)
def test_every_job_starts_after_finitely_many_passes(
    jobs: list[tuple[int, int]], limit: int, duration: int
) -> None:
    """More jobs than a limit allows once held each other up for ever, when waiting jobs counted."""
    names = {f"p{i}": f"w{workload}" for i, (_, workload) in enumerate(jobs)}
    entries = {
        name: waiting(name, pod={"priority": jobs[i][0]}, workload=names[name])
        for i, name in enumerate(names)
    }
    running: dict[str, tuple[int, str]] = {}
    passes = 0
    while entries:
        passes += 1
        assert passes <= len(jobs) * duration
        running = {uid: (left - 1, w) for uid, (left, w) in running.items() if left > 1}
        moving = {uid: workload for uid, (_, workload) in running.items()}

        def refuse(
            pod: Pod, accepted: frozenset[str], counted: frozenset[str] = frozenset(moving)
        ) -> MoveRefusal | None:
            total = len(counted | accepted)
            return TestRefusal("waits", temporary=True) if total >= limit else None

        for result in arbitrate(entries.values(), refuse, NOW, moving):
            if result.judgement is Judgement.ACCEPTED:
                entry = entries.pop(result.job.name)
                assert entry.live is not None
                running[entry.live.uid] = (duration, entry.workload)
        assert len(running) <= limit


# -- accepted jobs that wait -----------------------------------------------------------------------


def accepted(name: str, started: str, *conditions: str, **status: Any) -> MigrationJob:
    return job(
        name,
        conditions=conditions,
        source={"uid": name},
        status={"startedAt": before(started), **status},
    )


def test_of_accepted_jobs_only_those_before_hold_a_job_up() -> None:
    jobs = [
        accepted("third", "1m"),
        accepted("first", "3m"),
        accepted("asked", "1m", "Eviction=Unknown/Evicting"),
        accepted("ended", "1m", phase="Failed"),
        accepted("second", "2m"),
        job("waits", accepted=False),
    ]

    assert pods_accepted_later(jobs) == {
        "uid-first": {"second", "third"},
        "uid-second": {"third"},
        "uid-third": set(),
    }
