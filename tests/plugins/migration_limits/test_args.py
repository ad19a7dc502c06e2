"""MigrationLimits: arguments that are refused when a policy is loaded, and what explains a pod."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.explain.smallest_change import find_smallest_change
from resettle.explain.what_if import PlanInputs
from resettle.framework import build_descheduler, default_registry, load_policy
from resettle.model.workloads import WORKLOAD_KINDS, ScaleKind
from resettle.plugins.migration_limits import PLUGIN
from resettle.plugins.migration_limits.args import Args, ObjectLimiter, ObjectLimiters
from resettle.testing import World, workload

from .builders import UNREADY, document, plan_of, pods, web, world


@pytest.mark.parametrize(
    ("args", "place", "what"),
    [
        pytest.param(
            {"skipEvictionGates": ["Rollout", "MaxMigratingPerNod"]},
            "skipEvictionGates[1]",
            "no eviction gate is named `MaxMigratingPerNod`; did you mean `MaxMigratingPerNode`?",
            id="an unknown gate",
        ),
        pytest.param(
            {"skipEvictionGates": ["NodeFit"]},
            "skipEvictionGates[0]",
            "`NodeFit` is not a check of MigrationLimits; DefaultEvictor decides this: use its "
            "`nodeFit`",
            id="a gate of another filter",
        ),
        pytest.param(
            {"maxMigratingPerWorkload": 0},
            "maxMigratingPerWorkload",
            "0 is out of range; write a whole number of 1 or more",
            id="no pod at all",
        ),
        pytest.param(
            {"maxUnavailablePerWorkload": "120%"},
            "maxUnavailablePerWorkload",
            "`120%` is not a percentage such as `10%`",
            id="more than all",
        ),
        pytest.param(
            {"objectLimiters": {"namespace": {"duration": "1m", "maxMigrating": "10%"}}},
            "objectLimiters.namespace.maxMigrating",
            "a namespace has no number of replicas to take a percentage of; write a number",
            id="a percentage of a namespace",
        ),
        pytest.param(
            {"objectLimiters": {"namespace": {"duration": "1m"}}},
            "objectLimiters.namespace",
            "`duration` without `maxMigrating` limits nothing; add `maxMigrating`, or remove "
            "`duration`",
            id="half of a limiter",
        ),
        pytest.param(
            {"objectLimiters": {"workload": {"duration": "-1m"}}},
            "objectLimiters.workload.duration",
            "the duration -1m is negative; write a positive one",
            id="a negative duration",
        ),
        pytest.param(
            {"scaleKinds": ["CloneSet"]},
            "scaleKinds[0]",
            "`CloneSet` does not name a kind with its group and version; write "
            "`GROUP/VERSION/KIND`, such as `apps.kruise.io/v1alpha1/CloneSet`",
            id="a kind without its group",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place(args: dict[str, Any], place: str, what: str) -> None:
    with pytest.raises(PolicyError) as error:
        plan_of(world([]), **args)

    assert str(error.value).splitlines()[1:] == [
        f"{str(error.value).splitlines()[1].partition(': ')[0]}: "
        f"profiles[0].pluginConfig[0].args.{place}",
        f"    {what}",
    ]


def test_workloads_are_read_unless_nothing_needs_them() -> None:
    gates = ("MaxMigratingPerWorkload", "MaxUnavailablePerWorkload", "ExpectedReplicas", "Rollout")
    clone_sets = ("apps.kruise.io/v1alpha1/CloneSet",)

    assert PLUGIN.reads(Args()) == WORKLOAD_KINDS
    assert PLUGIN.reads(Args(skip_eviction_gates=gates)) == frozenset()
    assert PLUGIN.scales(Args(scale_kinds=clone_sets)) == {
        ScaleKind("apps.kruise.io", "v1alpha1", "CloneSet")
    }


def test_evictions_matter_until_the_slowest_limiter_has_filled_up() -> None:
    slow = ObjectLimiter(duration="10m", max_migrating=1, burst=3)
    limiters = ObjectLimiters(workload=ObjectLimiter(duration="20m"), namespace=slow)

    assert PLUGIN.eviction_window(Args(object_limiters=limiters)) == timedelta(minutes=30)
    assert PLUGIN.eviction_window(Args()) == timedelta()


def test_leaving_out_every_check_is_worth_a_warning() -> None:
    gates = (
        *("MaxMigratingGlobally", "MaxMigratingPerNode", "MaxMigratingPerNamespace"),
        *("MaxMigratingPerWorkload", "MaxUnavailablePerWorkload", "ExpectedReplicas", "Rollout"),
    )
    policy = load_policy(
        _text(skipEvictionGates=list(gates)), name="policy", plugins=default_registry()
    )

    assert build_descheduler(policy, default_registry()).cautions == (
        "profile main: MigrationLimits: `skipEvictionGates` leaves out every check, so nothing is "
        "limited",
    )


# -- the smallest change --------------------------------------------------------------------------


def _text(**args: Any) -> str:
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    return json.dumps({**head, **document(**args)})


def changes_for(placed: World, **args: Any) -> set[str]:
    """What would have to be different so that the first pod that is refused moves."""
    plugins = default_registry()
    policy = load_policy(_text(**args), name="policy", plugins=plugins)
    inputs = PlanInputs(build_descheduler(policy, plugins), placed.snapshot())
    proposals = inputs.draw_plan(*(pod.key for pod in inputs.snapshot.pods)).proposals
    key = next(proposal.subject for proposal in proposals if proposal.verdict == "refused")
    stays = inputs.snapshot.pod(*key.split("/"))
    assert stays is not None
    smallest = find_smallest_change(inputs, stays, inputs.draw_plan(stays.key))
    return {" and ".join(change.says for change in changes) for changes in smallest.change_sets}


JOB = [workload("Job/sums", replicas=1)]


@pytest.mark.parametrize(
    ("placed", "args", "change"),
    [
        pytest.param(
            world(pods(1), *web(1)), {}, "`skipCheckExpectedReplicas` were true", id="one replica"
        ),
        pytest.param(world(pods(1, "Job/sums"), *JOB), {}, "`evictJobPods` were true", id="a Job"),
        pytest.param(
            world(pods(2), *web(2)),
            {"maxMigratingPerWorkload": 2},
            "`maxMigratingPerWorkload` were 1",
            id="a limit that is too wide",
        ),
        pytest.param(
            world(pods(9), *web(9)),
            {"maxMigratingGlobally": 1},
            "`maxMigratingGlobally` were 2",
            id="in all",
        ),
        pytest.param(
            world(pods(3), *web(3, status={"updatedReplicas": 1})),
            {},
            "`skipEvictionGates` listed `Rollout`",
            id="a rollout",
        ),
        pytest.param(
            world(pods(3, status=UNREADY), *web(3)),
            {"maxMigratingPerWorkload": 2},
            "",
            id="no change helps where all are unavailable",
        ),
        pytest.param(
            world(pods(3), *web(3)),
            {
                "maxMigratingPerWorkload": 2,
                "maxUnavailablePerWorkload": 2,
                "objectLimiters": {"workload": {"duration": "10s"}},
            },
            "`objectLimiters.workload.burst` were 2",
            id="too often",
        ),
    ],
)
def test_the_smallest_change_that_moves_a_pod_is_named(
    placed: World, args: dict[str, Any], change: str
) -> None:
    offered = changes_for(placed, **args)

    assert change in offered if change else not offered
