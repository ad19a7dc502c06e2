"""Which pod replaces the one that a job evicted, and which gated pods are let go."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.controllers.migration.replacement import (
    find_replacements,
    gates_to_release,
    young_siblings,
)
from resettle.controllers.migration.types import LivePod, read_live_pod
from resettle.model.migration_job import GATE, ControllerReference, MigrationJob
from resettle.testing.builders import NOW, before, pod
from tests.controllers.migration.builders import SET, at, job, live, successor

NEXT = ControllerReference("apps/v1", "ReplicaSet", "web-7a", "rs-next")
OTHER = ControllerReference("apps/v1", "ReplicaSet", "api", "rs-api")


def evicting(name: str = "j", asked: str = "30s", **more: Any) -> MigrationJob:
    status = {"evictionRequestedAt": before(asked), **more.pop("status", {})}
    return job(name, status=status, **more)


def created(uid: str, age: str, **more: Any) -> LivePod:
    return successor(more.pop("name", f"web-{uid}"), uid, created=at(age), **more)


def workload_of(pod: LivePod) -> str:
    owners = {"rs-web": "deploy-web", "rs-next": "deploy-web", "rs-api": "deploy-api"}
    return owners.get(pod.owner.uid, pod.owner.uid) if pod.owner else ""


def chosen(jobs: list[MigrationJob], pods: list[LivePod]) -> dict[str, str]:
    forward = find_replacements(jobs, pods, workload_of)
    backward = find_replacements(jobs[::-1], pods[::-1], workload_of)
    assert forward == backward
    return {name.removeprefix("uid-"): pod.uid for name, pod in sorted(forward.items())}


CLAIM = {"podRef": {"namespace": "shop", "name": "web-a", "uid": "a"}}
STATEFUL = {
    "owner": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set-db"}
}


@pytest.mark.parametrize(
    ("jobs", "pods", "expected"),
    [
        pytest.param([evicting()], [created("a", "20s")], {"j": "a"}, id="same controller"),
        pytest.param(
            [evicting()], [created("a", "20s", owner=NEXT)], {"j": "a"}, id="same Deployment"
        ),
        pytest.param([evicting()], [created("a", "20s", owner=OTHER)], {}, id="another workload"),
        pytest.param([evicting()], [created("a", "20s", owner=None)], {}, id="no controller"),
        pytest.param([evicting()], [created("a", "2m")], {}, id="created long before"),
        pytest.param([evicting()], [created("a", "59s")], {"j": "a"}, id="clocks differ"),
        pytest.param(
            [evicting(status={"siblings": ["a"]})],
            [created("a", "30s"), created("b", "30s")],
            {"j": "b"},
            id="existed before the request",
        ),
        pytest.param([evicting()], [live(created=at("1s"))], {}, id="the pod itself"),
        pytest.param([evicting()], [created("a", "20s", terminating=True)], {}, id="being deleted"),
        pytest.param([evicting()], [created("a", "20s", phase="Failed")], {}, id="failed"),
        pytest.param([job()], [created("a", "20s")], {}, id="eviction not requested yet"),
        pytest.param(
            [evicting(settings={"mode": "EvictDirectly"})],
            [created("a", "20s")],
            {},
            id="a job that holds no place",
        ),
        pytest.param(
            [evicting()],
            [created("b", "10s"), created("a", "20s"), created("c", "32s")],
            {"j": "a"},
            id="the first after the request",
        ),
        pytest.param(
            [evicting("j"), evicting("k", "29s"), evicting("l", "29s")],
            [created("a", "20s"), created("b", "19s")],
            {"j": "a", "k": "b"},
            id="a pod for each job, in the order of the evictions",
        ),
        pytest.param(
            [evicting("j"), evicting("k", status={"siblings": ["b"]})],
            [created("a", "30s"), created("b", "30s")],
            {"j": "b", "k": "a"},
            id="the first leaves the pod that the second can take",
        ),
        pytest.param(
            [
                evicting("j"),
                evicting("k", status={"siblings": ["c"]}),
                evicting("l", status={"siblings": ["b", "c"]}),
            ],
            [created("a", "30s"), created("b", "30s"), created("c", "30s")],
            {"j": "c", "k": "b", "l": "a"},
            id="three that were evicted one after the other",
        ),
        pytest.param(
            [evicting("j"), evicting("k", "10s", status=CLAIM)],
            [created("a", "5s"), created("b", "4s")],
            {"j": "b", "k": "a"},
            id="claims come first",
        ),
        pytest.param(
            [evicting("j"), evicting("k", status={**CLAIM, "phase": "Succeeded"})],
            [created("a", "20s")],
            {},
            id="taken by a job that has ended",
        ),
        pytest.param(
            [evicting("j", status=CLAIM)], [created("b", "4s")], {"j": "b"}, id="claimed pod gone"
        ),
        pytest.param(
            [evicting("j"), job("k", source={"uid": "a"})],
            [created("a", "20s")],
            {},
            id="a pod that is moved itself",
        ),
        pytest.param(
            [evicting("j", source=STATEFUL)],
            [created("a", "9s", owner=SET), created("b", "1s", owner=SET, name="web-1")],
            {"j": "b"},
            id="StatefulSet: the same name",
        ),
    ],
)
def test_the_replacement(
    jobs: list[MigrationJob], pods: list[LivePod], expected: dict[str, str]
) -> None:
    assert chosen(jobs, pods) == expected


def test_young_pods_of_the_workload_are_siblings() -> None:
    pods = [
        created("young", "59s"),
        created("ahead", "-3s", owner=NEXT),
        created("old", "61s"),
        created("foreign", "1s", owner=OTHER),
        live(created=at("1s")),
    ]

    assert young_siblings(job(), pods, workload_of, NOW) == ("ahead", "young")
    assert young_siblings(job(accepted=False), pods, workload_of, NOW) == ()


@pytest.mark.parametrize(
    ("jobs", "gated", "released"),
    [
        pytest.param([evicting()], [created("a", "9s")], [], id="awaited"),
        pytest.param([], [created("a", "1s")], ["a"], id="no job"),
        pytest.param([job()], [created("a", "1s")], ["a"], id="before the eviction"),
        pytest.param(
            [job(conditions=["Eviction=Unknown/Evicting"])],
            [created("a", "1s")],
            [],
            id="asked perhaps, and not recorded",
        ),
        pytest.param(
            [evicting()], [created("a", "9s"), created("b", "8s")], ["b"], id="more than awaited"
        ),
        pytest.param([evicting()], [created("a", "30s")], ["a"], id="gated for too long"),
        pytest.param(
            [evicting(status={"phase": "Failed"})], [created("a", "9s")], ["a"], id="job ended"
        ),
        pytest.param(
            [evicting(status={"ending": {"phase": "Failed", "reason": "Timeout"}})],
            [created("a", "9s")],
            ["a"],
            id="job about to end",
        ),
        pytest.param(
            [evicting(spec={"color": "red"})], [created("a", "9s")], [], id="newer version"
        ),
        pytest.param(
            [evicting(spec={"color": "red"})],
            [created("a", "31s")],
            ["a"],
            id="newer version, for too long",
        ),
    ],
)
def test_no_pod_stays_gated(
    jobs: list[MigrationJob], gated: list[LivePod], released: list[str]
) -> None:
    references = gates_to_release(jobs, gated, workload_of, NOW)

    assert [reference.uid for reference in references] == released


def test_a_pod_is_read_from_the_answer_of_the_api_server() -> None:
    document = pod(
        "web-1",
        namespace="shop",
        labels={"pod-template-hash": "6f"},
        priority=7,
        terminating=True,
        spec={"schedulingGates": [{"name": GATE}]},
        status={
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"},
                {"type": "DisruptionTarget", "status": "True"},
            ]
        },
    )

    assert read_live_pod(document) == LivePod(
        namespace="shop",
        name="web-1",
        uid="uid-shop-web-1",
        owner=ControllerReference("", "ReplicaSet", "web", "uid-shop-ReplicaSet-web"),
        revision="6f",
        priority=7,
        created=at("1d"),
        terminating=True,
        phase="Running",
        ready=True,
        gated=True,
        preempted=True,
        scheduling_message="0/3 nodes",
    )


def test_a_pod_with_a_node_has_no_scheduling_message() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "message": "old"}
    document = pod("x", owner=None, spec={"nodeName": "n"}, status={"conditions": [scheduled]})

    read = read_live_pod(document)

    assert (read.node, read.scheduling_message, read.owner) == ("n", "", None)
