"""Workloads: how many pods they should have, which pods are theirs, and whether they roll out."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.model.pod import Pod
from resettle.model.snapshot import Snapshot
from resettle.model.workloads import (
    ScaleKind,
    UnknownWorkload,
    Workload,
    parse_scale_kind,
)
from resettle.testing import cluster, node, pod, workload
from resettle.testing.builders import Object


def snapshot_of(*objects: Object) -> Snapshot:
    """A cluster of one node and these objects."""
    return cluster(node("n1"), *objects).snapshot()


def read(obj: Object) -> Workload:
    """The workload that a snapshot has of the object."""
    snapshot = snapshot_of(obj)
    owner = f"{obj['kind']}/{obj['metadata']['name']}"
    (read_pod,) = snapshot_of(pod("p", owner=owner)).pods
    answer = snapshot.workload_of(read_pod)
    assert isinstance(answer, Workload)
    return answer


def first(snapshot: Snapshot, name: str) -> Pod:
    """The pod of this name."""
    answer = snapshot.pod("default", name)
    assert answer is not None
    return answer


# -- which workload -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job", "ReplicationController"]
)
def test_a_pod_belongs_to_the_workload_that_controls_it(kind: str) -> None:
    snapshot = snapshot_of(workload(f"{kind}/web"), pod("p", owner=f"{kind}/web"))

    answer = snapshot.workload_of(first(snapshot, "p"))

    assert isinstance(answer, Workload)
    assert (answer.title, answer.desired, answer.key) == (f"{kind} web", 3, "default/web")


def test_pods_of_all_replica_sets_belong_to_the_deployment() -> None:
    snapshot = snapshot_of(
        workload("Deployment/web"),
        workload("ReplicaSet/web-1", replicas=0, owner="Deployment/web"),
        workload("ReplicaSet/web-2", owner="Deployment/web"),
        workload("ReplicaSet/other"),
        pod("old", owner="ReplicaSet/web-1", terminating=True),
        pod("new", owner="ReplicaSet/web-2"),
        pod("other", owner="ReplicaSet/other"),
    )

    answer = snapshot.workload_of(first(snapshot, "old"))

    assert isinstance(answer, Workload)
    assert answer is snapshot.workload_of(first(snapshot, "new"))
    assert answer.title == "Deployment web"
    assert {item.name for item in snapshot.pods_of(answer)} == {"old", "new"}


@pytest.mark.parametrize(
    ("objects", "owner", "answer"),
    [
        pytest.param([], None, None, id="a bare pod has none"),
        pytest.param(
            [], "ReplicaSet/web", UnknownWorkload("ReplicaSet", "web"), id="not in the snapshot"
        ),
        pytest.param(
            [workload("ReplicaSet/web", metadata={"uid": "newer"})],
            "ReplicaSet/web",
            UnknownWorkload("ReplicaSet", "web", replaced=True),
            id="replaced by another of its name",
        ),
        pytest.param(
            [workload("ReplicaSet/web", owner="Deployment/web")],
            "ReplicaSet/web",
            UnknownWorkload("Deployment", "web"),
            id="a ReplicaSet whose Deployment is not known",
        ),
        pytest.param(
            [workload("ReplicaSet/web", owner="Rollout/web")],
            "ReplicaSet/web",
            UnknownWorkload("Rollout", "web"),
            id="a ReplicaSet of another kind of owner",
        ),
        pytest.param(
            [workload("ReplicaSet/web", namespace="shop")],
            "ReplicaSet/web",
            UnknownWorkload("ReplicaSet", "web"),
            id="in another namespace",
        ),
        pytest.param(
            [workload("ReplicaSet/web")],
            "DaemonSet/web",
            UnknownWorkload("DaemonSet", "web"),
            id="of a kind that is not read",
        ),
    ],
)
def test_what_is_not_known_is_an_answer_of_its_own(
    objects: list[Object], owner: str | None, answer: object
) -> None:
    snapshot = snapshot_of(*objects, pod("p", owner=owner))

    assert snapshot.workload_of(first(snapshot, "p")) == answer


@pytest.mark.parametrize(
    ("marks", "name"),
    [
        pytest.param([None, True], "b", id="the one that is marked"),
        pytest.param([None, None], "a", id="without a mark the first"),
    ],
)
def test_one_of_several_owners_is_the_controller(marks: list[bool | None], name: str) -> None:
    references = [
        {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": mark}
        for owner, mark in zip("ab", marks, strict=True)
    ]
    snapshot = snapshot_of(pod("p", metadata={"ownerReferences": references}))

    controller = first(snapshot, "p").controller

    assert controller is not None
    assert controller.name == name


# -- how many pods --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "status", "desired"),
    [
        pytest.param({}, {}, 3, id="as many as run at once"),
        pytest.param({"completions": 10}, {"succeeded": 2}, 3, id="more are left to do"),
        pytest.param({"completions": 10}, {"succeeded": 9}, 1, id="the last one"),
        pytest.param({"completions": 10}, {"succeeded": 10}, 0, id="none is left"),
    ],
)
def test_a_job_should_have_as_many_pods_as_run_at_once(
    spec: Object, status: Object, desired: int
) -> None:
    assert read(workload("Job/sums", spec=spec, status=status)).desired == desired


@pytest.mark.parametrize("kind", ["Complete", "Failed", "FailureTarget"])
def test_a_job_that_has_ended_is_finished(kind: str) -> None:
    ended = workload("Job/sums", status={"conditions": [{"type": kind, "status": "True"}]})

    assert read(ended).finished
    assert not read(workload("Job/sums")).finished


def test_a_suspended_job_says_so() -> None:
    assert read(workload("Job/sums", spec={"suspend": True})).suspended


def test_replicas_that_are_not_given_are_one() -> None:
    given = workload("StatefulSet/db", spec={"replicas": None})

    assert read(given).desired == 1


# -- rollouts -------------------------------------------------------------------------------------


def progressing(reason: str) -> dict[str, Any]:
    """The status with this reason of the condition `Progressing`."""
    return {"conditions": [{"type": "Progressing", "status": "True", "reason": reason}]}


@pytest.mark.parametrize(
    ("kind", "parts", "expected"),
    [
        pytest.param("Deployment", {}, False, id="complete"),
        pytest.param("Deployment", {"metadata": {"generation": 2}}, True, id="not observed yet"),
        pytest.param("Deployment", {"status": {"updatedReplicas": 2}}, True, id="old pods left"),
        pytest.param("Deployment", {"status": {"replicas": 4}}, True, id="more than it wants"),
        pytest.param(
            "Deployment",
            {"status": {"availableReplicas": 2, **progressing("ReplicaSetUpdated")}},
            True,
            id="new pods are not available yet",
        ),
        pytest.param(
            "Deployment",
            {"status": {"availableReplicas": 2, **progressing("NewReplicaSetAvailable")}},
            False,
            id="a pod became unavailable after the rollout",
        ),
        pytest.param(
            "Deployment",
            {
                "status": {
                    "replicas": 2,
                    "updatedReplicas": 2,
                    "availableReplicas": 2,
                    **progressing("NewReplicaSetAvailable"),
                }
            },
            False,
            id="a pod was evicted after the rollout",
        ),
        pytest.param(
            "Deployment",
            {
                "status": {
                    "replicas": 2,
                    "updatedReplicas": 2,
                    "availableReplicas": 2,
                    **progressing("ReplicaSetUpdated"),
                }
            },
            True,
            id="new pods are still to be created",
        ),
        pytest.param("ReplicaSet", {}, False, id="a ReplicaSet"),
        pytest.param("ReplicaSet", {"metadata": {"generation": 2}}, True, id="a changed one"),
        pytest.param("ReplicationController", {"metadata": {"generation": 2}}, True, id="an RC"),
        pytest.param("StatefulSet", {}, False, id="a StatefulSet"),
        pytest.param("StatefulSet", {"metadata": {"generation": 2}}, True, id="a changed set"),
        pytest.param(
            "StatefulSet",
            {"status": {"currentRevision": "a", "updateRevision": "b"}},
            True,
            id="another revision",
        ),
        pytest.param(
            "StatefulSet",
            {
                "spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}},
                "status": {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1},
            },
            False,
            id="all above the partition are updated",
        ),
        pytest.param(
            "StatefulSet",
            {
                "spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}},
                "status": {"currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1},
            },
            True,
            id="not all above the partition",
        ),
    ],
)
def test_a_rollout_is_under_way(kind: str, parts: dict[str, Any], expected: bool) -> None:
    assert read(workload(f"{kind}/web", **parts)).rolling_out is expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param({}, False, id="seen by its controller"),
        pytest.param({"metadata": {"generation": 2}}, True, id="changed since"),
        pytest.param({"status": {"replicas": 2, "updatedReplicas": 1}}, False, id="a rollout"),
    ],
)
def test_a_change_that_its_controller_has_not_seen_is_not_yet_a_rollout(
    parts: dict[str, Any], expected: bool
) -> None:
    snapshot = snapshot_of(workload("Deployment/web", **parts))
    (deployment,) = snapshot.deployments.values()

    assert snapshot.workloads.is_outdated(deployment) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({"replicas": 0}, {}, False, id="the old one is empty"),
        pytest.param({"replicas": 1}, {}, True, id="two have pods"),
        pytest.param(
            {"replicas": 0, "metadata": {"generation": 5}}, {}, False, id="an empty one is behind"
        ),
        pytest.param({"replicas": 0}, {"metadata": {"generation": 5}}, True, id="the new one is"),
    ],
)
def test_a_deployment_with_pods_in_two_replica_sets_rolls_out(
    old: dict[str, Any], new: dict[str, Any], expected: bool
) -> None:
    snapshot = snapshot_of(
        workload("Deployment/web"),
        workload("ReplicaSet/web-1", owner="Deployment/web", **old),
        workload("ReplicaSet/web-2", owner="Deployment/web", **new),
    )
    (deployment,) = snapshot.deployments.values()

    assert snapshot.workloads.is_rolling_out(deployment) is expected


# -- kinds with a scale ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("apps.kruise.io/v1alpha1/CloneSet", ScaleKind("apps.kruise.io", "v1alpha1", "CloneSet")),
        ("v1/Widget", None),
        ("a//Widget", None),
        ("CloneSet", None),
    ],
)
def test_a_kind_is_named_by_group_version_and_kind(text: str, kind: ScaleKind | None) -> None:
    assert parse_scale_kind(text) == kind


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("CloneSet", "clonesets"), ("Proxy", "proxies"), ("Redis", "redises")],
)
def test_the_plural_is_guessed_as_kubernetes_does(kind: str, plural: str) -> None:
    assert ScaleKind("example.com", "v1", kind).plural == plural
