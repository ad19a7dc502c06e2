"""MigrationController in a policy: its arguments, its permissions, and what its jobs move."""

from __future__ import annotations

import pytest
from msgspec import Struct

from resettle.controllers.migration.plugin import PLUGIN, Args, holds_place, process_permissions
from resettle.framework import Kind
from resettle.kube.leader_election.lease import LeaseSettings
from resettle.model.migration_job import JobMode, Steering
from resettle.policy.profiles import build_args


class Widget(Struct, frozen=True):
    """Whatever a plugin reads."""


WIDGET = Kind("Widget", Widget, "/apis/example.com/v1/widgets")


def migration_writes(*steerings: str) -> set[str]:
    """What the controller may do apart from reading, with the namespace if limited to one."""
    rights = process_permissions([], steerings or ["None"], "home")
    return {
        f"{right.verb} {right.title}" + (f" in {right.namespace}" if right.namespace else "")
        for right in rights
        if right.verb not in ("list", "watch", "get")
    }


WRITES = {
    "create pods/eviction",
    "create events.events.k8s.io",
    *(f"{verb} podmigrationjobs.resettle.dev" for verb in ("patch", "delete")),
    "patch podmigrationjobs/status.resettle.dev",
    "patch pods/status",
    *(f"{verb} priorityclasses.scheduling.k8s.io" for verb in ("create", "delete")),
    *(f"{verb} pods in home" for verb in ("create", "delete")),
}


@pytest.mark.parametrize(
    ("steerings", "more"),
    [
        ([], set()),
        (["None"], set()),
        (["Soft"], {"patch nodes"}),
        (["Hard"], {"patch nodes"}),
        (["Gate"], {"patch pods"}),
        (["Soft", "Gate"], {"patch nodes", "patch pods"}),
    ],
)
def test_the_migration_controller_writes_no_more_than_its_steering_takes(
    steerings: list[str], more: set[str]
) -> None:
    assert migration_writes(*steerings) == WRITES | more


def test_the_migration_controller_reads_workloads_and_what_filters_read() -> None:
    lease = LeaseSettings(name="l", namespace="ops")
    rights = process_permissions([WIDGET], ["None"], "home", lease)
    watched = {right.title for right in rights if right.verb == "watch"}

    assert watched == {
        *("nodes", "pods", "poddisruptionbudgets.policy", "priorityclasses.scheduling.k8s.io"),
        *("deployments.apps", "replicasets.apps", "statefulsets.apps", "jobs.batch"),
        *("replicationcontrollers", "podmigrationjobs.resettle.dev", "widgets.example.com"),
    }
    assert len(rights) == len(set(rights))
    assert {right.name for right in rights if right.namespace == "ops"} == {"", "l"}


@pytest.mark.parametrize(
    ("args", "key"),
    [
        pytest.param({"defaultJobTTL": "0s"}, "defaultJobTTL", id="no time at all"),
        pytest.param({"reserveTimeout": "-5s"}, "reserveTimeout", id="a time in the past"),
        pytest.param({"namespace": ""}, "namespace", id="no namespace"),
        pytest.param(
            {"defaultJobMode": "EvictDirectly", "steering": "Gate"}, "steering", id="no place held"
        ),
    ],
)
def test_arguments_that_cannot_work_are_problems(args: dict[str, str], key: str) -> None:
    made = build_args(PLUGIN, args)

    assert isinstance(made, Args)
    assert [problem.at for problem in made.problems()] == [(key,)]


@pytest.mark.parametrize(
    ("args", "steering"),
    [
        pytest.param({}, Steering.HARD, id="as it comes"),
        pytest.param({"steering": "Gate"}, Steering.GATE, id="exactly to the reserved node"),
        pytest.param({"defaultJobMode": "EvictDirectly", "steering": "None"}, None, id="no place"),
    ],
)
def test_the_planner_knows_how_jobs_steer(args: dict[str, str], steering: Steering | None) -> None:
    made = build_args(PLUGIN, args)

    assert isinstance(made, Args)
    assert not list(made.problems())
    assert holds_place(made) is steering
    assert made.settings.mode is (
        JobMode.EVICT_DIRECTLY if steering is None else JobMode.RESERVATION_FIRST
    )
