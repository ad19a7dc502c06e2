"""MigrationLimits: which pods it refuses, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from resettle.framework.verdict import Refusal
from resettle.framework.view import View
from resettle.model.semantics import IMPROVED
from resettle.model.workloads import DepartedPod
from resettle.plugins.migration_limits import PLUGIN
from resettle.plugins.migration_limits.args import Args
from resettle.plugins.migration_limits.rules import MovesInView
from resettle.policy.profiles import build_args
from resettle.testing import World, cluster, node, pod, workload
from resettle.testing.builders import Object

from .builders import UNREADY, plan_of, pods, web, world


def asked(
    placed: World, name: str, *, leaving: tuple[str, ...] = (), **args: Any
) -> Refusal | None:
    """The refusal of the pod, while pods of these names are on their way."""
    made = build_args(PLUGIN, args)
    assert isinstance(made, Args)
    snapshot = placed.snapshot()
    view = View(snapshot, IMPROVED)
    for other in leaving:
        known = snapshot.pod("default", other)
        assert known is not None
        view.leaving.add(known)
    candidate = snapshot.pod("default", name)
    assert candidate is not None
    return MovesInView(made, view).refusal(candidate)


# -- how many at a time ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "moves"), [(1, 0), (2, 1), (3, 1), (4, 2), (10, 2), (11, 2), (25, 2), (30, 3)]
)
def test_so_many_pods_of_a_deployment_move_at_a_time(replicas: int, moves: int) -> None:
    planned = plan_of(world(pods(replicas), *web(replicas)))

    assert len(planned.evicts) == moves
    refused = {"moving-workload": replicas - moves} if replicas > 1 else {"too-few-replicas": 1}
    assert planned.refused == refused
    assert planned.errors == []


@pytest.mark.parametrize("owner", ["StatefulSet/db", "ReplicaSet/db", "ReplicationController/db"])
def test_workloads_of_every_kind_have_limits(owner: str) -> None:
    planned = plan_of(world(pods(5, owner), workload(owner, replicas=5)))

    assert len(planned.evicts) == 2


@pytest.mark.parametrize(
    ("args", "moves"),
    [
        pytest.param({"maxMigratingPerWorkload": 3, "maxUnavailablePerWorkload": 5}, 3, id="three"),
        pytest.param({"maxMigratingPerWorkload": 5, "maxUnavailablePerWorkload": 3}, 3, id="away"),
        pytest.param(
            {"maxMigratingPerWorkload": "39%", "maxUnavailablePerWorkload": "50%"},
            3,
            id="a percentage is rounded down",
        ),
        pytest.param(
            {"maxMigratingPerWorkload": "1%", "maxUnavailablePerWorkload": "1%"}, 1, id="at least 1"
        ),
        pytest.param({"skipEvictionGates": ["MaxMigratingPerWorkload"]}, 2, id="one gate"),
        pytest.param(
            {"skipEvictionGates": ["MaxMigratingPerWorkload", "MaxUnavailablePerWorkload"]},
            10,
            id="both gates",
        ),
        pytest.param({"maxMigratingGlobally": 1}, 1, id="in all"),
        pytest.param({"maxMigratingPerNamespace": 1}, 1, id="in the namespace"),
        pytest.param({"maxMigratingPerNamespace": 0}, 2, id="0 is no limit"),
    ],
)
def test_limits_are_those_of_the_arguments(args: dict[str, Any], moves: int) -> None:
    assert len(plan_of(world(pods(10), *web(10)), **args).evicts) == moves


@pytest.mark.parametrize(
    ("args", "moves", "refused"),
    [
        pytest.param({}, 2, {"moving-node": 3}, id="two by default"),
        pytest.param({"maxMigratingPerNode": 4}, 4, {"moving-node": 1}, id="four"),
        pytest.param({"maxMigratingPerNode": 0}, 5, {}, id="no limit"),
        pytest.param({"skipEvictionGates": ["MaxMigratingPerNode"]}, 5, {}, id="skipped"),
    ],
)
def test_so_many_pods_leave_a_node(
    args: dict[str, Any], moves: int, refused: dict[str, int]
) -> None:
    owners = [f"StatefulSet/s{i}" for i in range(5)]
    placed = cluster(
        node("n1").holding(*(pod(f"p{i}", owner=owner) for i, owner in enumerate(owners))),
        node("n2"),
        *(workload(owner, replicas=2) for owner in owners),
        *(pod(f"q{i}", owner=owner, spec={"nodeName": "x"}) for i, owner in enumerate(owners)),
    )

    planned = plan_of(placed, **args)

    assert (len(planned.evicts), planned.refused) == (moves, refused)


def test_a_limit_holds_for_the_pods_of_all_replica_sets_together() -> None:
    placed = world(
        [*pods(2), *pods(2, "ReplicaSet/web-2")],
        *web(4),
        workload("ReplicaSet/web-2", replicas=2, owner="Deployment/web"),
    )

    planned = plan_of(placed, maxMigratingPerWorkload=1, skipEvictionGates=["Rollout"])

    assert len(planned.evicts) == 1


# -- availability ---------------------------------------------------------------------------------


def three(**second: Any) -> World:
    """Three replicas, of which the second one is different."""
    first, _, third = pods(3)
    return world([first, pod("web-1-1", owner="ReplicaSet/web-1", **second), third], *web(3))


@pytest.mark.parametrize(
    ("placed", "name", "code"),
    [
        pytest.param(three(status=UNREADY), "web-1-0", "unavailable-workload", id="a ready one"),
        pytest.param(three(status=UNREADY), "web-1-1", None, id="the one that is not ready"),
        pytest.param(three(terminating=True), "web-1-0", "unavailable-workload", id="terminating"),
        pytest.param(three(phase="Failed"), "web-1-0", "unavailable-workload", id="failed"),
        pytest.param(three(phase="Failed"), "web-1-1", None, id="the failed one"),
        pytest.param(world(pods(2), *web(3)), "web-1-0", "unavailable-workload", id="missing"),
        pytest.param(world(pods(4), *web(3)), "web-1-0", None, id="one more than it should have"),
    ],
)
def test_enough_replicas_stay_available(placed: World, name: str, code: str | None) -> None:
    refusal = asked(placed, name)

    assert (refusal.code if refusal else None) == code
    assert refusal is None or refusal.temporary


def test_a_pod_on_its_way_counts_once_as_unavailable() -> None:
    placed = world(pods(5), *web(5))

    assert asked(placed, "web-1-0", leaving=("web-1-1",)) is None
    assert asked(placed, "web-1-0", leaving=("web-1-0", "web-1-1")) is None
    refusal = asked(placed, "web-1-0", leaving=("web-1-1", "web-1-2"))
    assert refusal is not None
    assert refusal.code == "moving-workload"


def test_a_pod_that_is_not_ready_moves_only_while_enough_others_are() -> None:
    first, second, third = pods(3, status=UNREADY)

    refusal = asked(world([first, second, third], *web(3)), "web-1-0")

    assert refusal is not None
    assert refusal.code == "unavailable-workload"
    assert refusal.sentence == (
        "2 other replicas of Deployment web are unavailable or on the way, and the limit is 1"
    )


# -- the workload ---------------------------------------------------------------------------------


ROLLING = {"status": {"updatedReplicas": 1}}


@pytest.mark.parametrize(
    ("objects", "args", "code", "temporary"),
    [
        pytest.param([], {}, "workload-unknown", False, id="not there"),
        pytest.param(
            [workload("ReplicaSet/web-1", metadata={"uid": "x"})],
            {},
            "workload-unknown",
            False,
            id="replaced",
        ),
        pytest.param(
            [],
            {
                "skipEvictionGates": [
                    *("MaxMigratingPerWorkload", "MaxUnavailablePerWorkload"),
                    *("ExpectedReplicas", "Rollout"),
                ]
            },
            None,
            False,
            id="nothing needs it",
        ),
        pytest.param(web(3, **ROLLING), {}, "rolling-out", True, id="a rollout"),
        pytest.param(
            web(3, **ROLLING), {"skipEvictionGates": ["Rollout"]}, None, False, id="skipped"
        ),
        pytest.param(web(0), {}, "too-few-replicas", False, id="scaled to zero"),
        pytest.param(
            web(3), {"maxMigratingPerWorkload": 3}, "limit-too-wide", False, id="all at once"
        ),
        pytest.param(
            web(3), {"maxUnavailablePerWorkload": "100%"}, "limit-too-wide", False, id="all away"
        ),
        pytest.param(
            web(3),
            {"maxMigratingPerWorkload": 3, "skipCheckExpectedReplicas": True},
            None,
            False,
            id="all at once is meant",
        ),
        pytest.param(
            web(3),
            {"maxMigratingPerWorkload": 3, "skipEvictionGates": ["MaxMigratingPerWorkload"]},
            None,
            False,
            id="a limit that is not checked",
        ),
    ],
)
def test_the_workload_decides(
    objects: list[Object], args: dict[str, Any], code: str | None, temporary: bool
) -> None:
    refusal = asked(world(pods(3), *objects), "web-1-0", **args)

    assert (refusal.code if refusal else None) == code
    assert (refusal is not None and refusal.temporary) == temporary


@pytest.mark.parametrize(
    ("api_version", "kind", "args", "temporary"),
    [
        pytest.param("apps/v1", "ReplicaSet", {}, True, id="a kind of Kubernetes"),
        pytest.param(
            "apps.kruise.io/v1alpha1",
            "CloneSet",
            {"scaleKinds": ["apps.kruise.io/v1beta1/CloneSet"]},
            True,
            id="a kind whose scale is read, in another version",
        ),
        pytest.param(
            "apps.kruise.io/v1alpha1", "CloneSet", {}, False, id="a kind that is not read"
        ),
    ],
)
def test_a_workload_that_is_only_not_read_yet_refuses_for_now(
    api_version: str, kind: str, args: dict[str, Any], temporary: bool
) -> None:
    owner = {"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u"}
    owners = {"ownerReferences": [{**owner, "controller": True}]}

    refusal = asked(world([pod("web-0", metadata=owners)]), "web-0", **args)

    assert refusal is not None
    assert (refusal.code, refusal.temporary) == ("workload-unknown", temporary)


@pytest.mark.parametrize(
    "args", [{"skipCheckExpectedReplicas": True}, {"skipEvictionGates": ["ExpectedReplicas"]}]
)
def test_the_only_replica_moves_where_that_is_not_checked(args: dict[str, Any]) -> None:
    placed = world(pods(1), *web(1))

    assert plan_of(placed).refused == {"too-few-replicas": 1}
    assert plan_of(placed, **args).evicts == ["web-1-0"]


@pytest.mark.parametrize(
    ("parallelism", "args", "moves", "refused"),
    [
        pytest.param(1, {}, 0, {"job-pod": 1}, id="refused"),
        pytest.param(1, {"evictJobPods": True}, 1, {}, id="exempted"),
        pytest.param(
            5, {"evictJobPods": True}, 2, {"moving-workload": 3}, id="limited by its parallelism"
        ),
    ],
)
def test_pods_of_a_job(
    parallelism: int, args: dict[str, Any], moves: int, refused: dict[str, int]
) -> None:
    placed = world(pods(parallelism, "Job/sums"), workload("Job/sums", replicas=parallelism))

    planned = plan_of(placed, **args)

    assert (len(planned.evicts), planned.refused) == (moves, refused)


def test_a_finished_pod_takes_nothing_from_its_workload() -> None:
    placed = world(pods(1, phase="Failed"), *web(1))

    assert plan_of(placed).evicts == ["web-1-0"]


def test_a_bare_pod_has_limits_of_node_and_namespace_only() -> None:
    placed = world([pod("bare", owner=None), pod("other", owner=None)])

    assert asked(placed, "bare") is None
    refusal = asked(placed, "bare", leaving=("other",), maxMigratingPerNamespace=1)
    assert refusal is not None
    assert refusal.sentence == (
        "1 pod of namespace default is on the way already, and the limit is 1"
    )


def test_the_evict_annotation_does_not_override_limits() -> None:
    marked = {"descheduler.alpha.kubernetes.io/evict": "true"}

    assert plan_of(world(pods(1, annotations=marked), *web(1))).refused == {"too-few-replicas": 1}


def test_moves_in_flight_count() -> None:
    snapshot = world(pods(3), *web(3)).snapshot()
    view = View(replace(snapshot, moving=frozenset({"uid-default-web-1-1"})), IMPROVED)
    made = build_args(PLUGIN, {})
    candidate = snapshot.pod("default", "web-1-0")
    assert candidate is not None
    assert isinstance(made, Args)

    refusal = MovesInView(made, view).refusal(candidate)

    assert refusal is not None
    assert refusal.code == "moving-workload"


@pytest.mark.parametrize(
    ("args", "gone", "code"),
    [
        pytest.param({}, {}, "moving-workload", id="one of its workload"),
        pytest.param({}, {"owner": "uid-other"}, None, id="one of another workload"),
        pytest.param(
            {"maxMigratingPerNode": 1}, {"owner": ""}, "moving-node", id="one of its node"
        ),
        pytest.param({"maxMigratingPerNode": 1}, {"owner": "", "node": "n1"}, None, id="elsewhere"),
        pytest.param(
            {"maxMigratingPerNamespace": 1},
            {"owner": "", "node": "n1"},
            "moving-namespace",
            id="one of its namespace",
        ),
        pytest.param(
            {"maxMigratingGlobally": 1},
            {"owner": "", "node": "n1", "namespace": "other"},
            "moving-total",
            id="any",
        ),
    ],
)
def test_pods_that_are_gone_count_while_their_moves_go_on(
    args: dict[str, Any], gone: dict[str, str], code: str | None
) -> None:
    snapshot = world(pods(3), *web(3)).snapshot()
    candidate = snapshot.pod("default", "web-1-0")
    assert candidate is not None
    assert candidate.controller is not None
    place = {"node": "n0", "namespace": "default", "owner": candidate.controller.uid}
    view = View(snapshot, IMPROVED, departed=(DepartedPod(uid="gone", **{**place, **gone}),))
    made = build_args(PLUGIN, args)
    assert isinstance(made, Args)

    refusal = MovesInView(made, view).refusal(candidate)

    assert (refusal.code if refusal else None) == code
