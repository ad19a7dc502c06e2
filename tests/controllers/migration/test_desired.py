"""What all jobs need together: taints, placeholders, PriorityClasses."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.controllers.migration.desired import (
    desired_taints,
    nodes_left_alone,
    unneeded_placeholders,
    unneeded_priority_classes,
)
from resettle.model.migration_job import ABORT, MigrationJob
from resettle.testing.builders import before
from tests.controllers.migration.builders import job, placeholder

HELD = ("ReservationCreated=True/Created", "ReservationScheduled=True/Scheduled")
ASKED = (*HELD, "Eviction=Unknown/Evicting")
REFUSED = (*HELD, "Eviction=False/EvictionRefused")
BOUND = (*ASKED, "ReservationBound=True/OnReservedNode")
PREFER, NO = "PreferNoSchedule", "NoSchedule"
ENDED = {"phase": "Failed"}
ENDING = {"ending": {"phase": "Failed", "reason": "Timeout"}}
NEWER = {"color": "red"}


def steered(how: str = "Soft", *, node: str = "n1", **more: Any) -> MigrationJob:
    settings = {"steering": how, **more.pop("settings", {})}
    defaults: dict[str, Any] = {"conditions": ASKED, "settings": settings}
    return job(**{**defaults, "source": {"nodeName": node}, **more})


@pytest.mark.parametrize(
    ("jobs", "taints"),
    [
        pytest.param([steered("Soft")], {"n1": PREFER}, id="soft"),
        pytest.param([steered("Hard")], {"n1": NO}, id="hard"),
        pytest.param([steered("None")], {}, id="none"),
        pytest.param([steered("Gate")], {}, id="gate"),
        pytest.param([steered("Soft"), steered("Hard")], {"n1": NO}, id="hard wins"),
        pytest.param([steered("Hard"), steered("Soft")], {"n1": NO}, id="hard wins in any order"),
        pytest.param(
            [steered(node="n2"), steered(node="n1")], {"n1": PREFER, "n2": PREFER}, id="two nodes"
        ),
        pytest.param([steered(conditions=HELD[:1])], {}, id="no place yet"),
        pytest.param([steered(conditions=BOUND)], {}, id="the replacement has a node"),
        pytest.param(
            [steered(conditions=BOUND), steered()], {"n1": PREFER}, id="another job needs it"
        ),
        pytest.param([steered(status=ENDED)], {}, id="ended"),
        pytest.param([steered(status=ENDING)], {}, id="about to end"),
        pytest.param([steered(conditions=HELD)], {}, id="waits for its turn"),
        pytest.param([steered(conditions=REFUSED)], {}, id="waits for a budget"),
        pytest.param([steered(spec={"paused": True})], {"n1": PREFER}, id="paused too late"),
        pytest.param([steered(metadata={"annotations": {ABORT: ""}})], {}, id="aborted"),
        pytest.param(
            [steered(metadata={"deletionTimestamp": before("1s")})], {}, id="being deleted"
        ),
        pytest.param([steered(settings={"mode": "EvictDirectly"})], {}, id="no place is wanted"),
        pytest.param([job(accepted=False)], {}, id="not accepted"),
        pytest.param([steered(spec=NEWER)], {}, id="newer version"),
    ],
)
def test_a_node_is_tainted_while_a_pod_leaves_it(
    jobs: list[MigrationJob], taints: dict[str, str]
) -> None:
    assert desired_taints(jobs) == taints


def test_a_job_that_is_about_to_evict_keeps_the_taint_it_has_just_set() -> None:
    about_to_evict = steered(conditions=REFUSED)

    assert desired_taints([about_to_evict], {about_to_evict.uid}) == {"n1": PREFER}
    assert desired_taints([steered(conditions=HELD[:1])], {about_to_evict.uid}) == {}


def test_taints_of_a_newer_version_are_left_alone() -> None:
    jobs = [steered(spec=NEWER), steered(spec=NEWER, node="n2", status=ENDED), steered(node="n3")]

    assert nodes_left_alone(jobs) == {"n1"}


@pytest.mark.parametrize(
    ("jobs", "is_needed"),
    [
        pytest.param([], False, id="no job"),
        pytest.param([job("k")], False, id="another job"),
        pytest.param([job()], True, id="under way"),
        pytest.param([job(spec={"paused": True})], True, id="paused"),
        pytest.param([job(status=ENDED)], False, id="ended"),
        pytest.param([job(status=ENDING)], False, id="about to end"),
        pytest.param([job(conditions=BOUND)], False, id="handed over"),
        pytest.param([job(metadata={"deletionTimestamp": before("1s")})], False, id="deleted"),
        pytest.param([job(spec=NEWER)], True, id="newer version"),
        pytest.param([job(status={"phase": "Resting"})], True, id="phase of a newer version"),
        pytest.param([job(spec=NEWER, status=ENDED)], False, id="newer version, ended"),
    ],
)
def test_a_placeholder_stays_while_its_job_may_need_it(
    jobs: list[MigrationJob], is_needed: bool
) -> None:
    held = placeholder()

    assert unneeded_placeholders(jobs, [held]) == ([] if is_needed else [held])


def test_priority_classes_stay_while_a_job_or_a_placeholder_uses_them() -> None:
    existing = ["resettle-hold-0", "resettle-hold-7", "resettle-hold-9", "resettle-yield"]
    jobs = [
        job(source={"priority": 7}),
        job(source={"priority": 9}, status=ENDED),
        job(accepted=False),
    ]

    assert unneeded_priority_classes(jobs, existing) == [
        "resettle-hold-0",
        "resettle-hold-9",
        "resettle-yield",
    ]
    yielding = job(settings={"placeholderPriority": "Yield"})
    assert unneeded_priority_classes([yielding], ["resettle-yield"]) == []
