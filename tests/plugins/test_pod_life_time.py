"""PodLifeTime: how old, in which state, of whose making."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.plugins.pod_life_time import PLUGIN, STATES
from resettle.testing import cluster, node, plan, pod
from tests.plugins.harness import faults

Object = dict[str, Any]


def leaves(made: Object, **args: Any) -> bool:
    """Whether the pod is evicted, alone on its node."""
    return plan(PLUGIN, cluster(node("n1").holding(made), node("n2")), **args).evicts != []


def waiting(reason: str) -> Object:
    return {"name": "it", "state": {"waiting": {"reason": reason}}}


def ended(reason: str = "Error", code: int = 1) -> Object:
    return {"name": "it", "state": {"terminated": {"reason": reason, "exitCode": code}}}


def with_container(status: Object, kind: str = "containerStatuses", **more: Any) -> Object:
    return pod("it", status={kind: [status]}, **more)


@pytest.mark.parametrize(
    ("age", "goes"),
    [
        pytest.param("595s", False, id="within its life"),
        pytest.param("600s", False, id="exactly at the limit stays"),
        pytest.param("601s", True, id="a whole second over leaves"),
        pytest.param("605s", True, id="over the limit"),
        pytest.param("-1h", False, id="created in the future stays"),
    ],
)
def test_pods_leave_when_they_outlive_the_limit(age: str, goes: bool) -> None:
    assert leaves(pod("it", age=age), maxPodLifeTimeSeconds=600) is goes


def test_parts_of_a_second_do_not_count() -> None:
    made = pod("it", metadata={"creationTimestamp": "2026-01-31T11:49:59.100000Z"})

    assert not leaves(made, maxPodLifeTimeSeconds=600)


def test_a_pod_without_a_creation_time_has_no_age() -> None:
    assert not leaves(pod("it", metadata={"creationTimestamp": None}), maxPodLifeTimeSeconds=0)


def test_the_oldest_leave_first_wherever_they_are() -> None:
    world = cluster(
        node("n1").holding(pod("b", age="3h"), pod("d", age="90m"), pod("young", age="1m")),
        node("n2").holding(pod("a", age="4h"), pod("c", age="2h")),
    )

    assert plan(PLUGIN, world, maxPodLifeTimeSeconds=3600).evicts == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("limits", "evicts"),
    [
        pytest.param({}, ["a", "b", "c", "d"], id="no limit"),
        pytest.param({"maxNoOfPodsToEvictTotal": 0}, [], id="total 0"),
        pytest.param({"maxNoOfPodsToEvictTotal": 3}, ["a", "b", "c"], id="total 3"),
        pytest.param(
            {"maxNoOfPodsToEvictPerNode": 1}, ["a", "b"], id="node 1, the other node goes on"
        ),
        pytest.param({"maxNoOfPodsToEvictPerNamespace": 1}, ["a", "c"], id="namespace 1"),
        pytest.param(
            {"maxNoOfPodsToEvictPerNode": 1, "maxNoOfPodsToEvictPerNamespace": 1},
            ["a", "d"],
            id="both",
        ),
    ],
)
def test_a_limit_leaves_the_oldest_gone(limits: Object, evicts: list[str]) -> None:
    world = cluster(
        node("n1").holding(pod("a", age="5h"), pod("c", age="3h", namespace="other")),
        node("n2").holding(pod("b", age="4h"), pod("d", age="2h", namespace="other")),
    )

    assert plan(PLUGIN, world, policy=limits, maxPodLifeTimeSeconds=60).evicts == evicts


@pytest.mark.parametrize(
    ("made", "args", "goes"),
    [
        pytest.param({"terminating": True}, {}, False, id="terminating"),
        pytest.param(
            {"namespace": "b"}, {"namespaces": {"include": ["a"]}}, False, id="not included"
        ),
        pytest.param({"namespace": "a"}, {"namespaces": {"include": ["a"]}}, True, id="included"),
        pytest.param({"namespace": "b"}, {"namespaces": {"exclude": ["b"]}}, False, id="excluded"),
        pytest.param(
            {"namespace": "a"}, {"namespaces": {"exclude": ["b"]}}, True, id="not excluded"
        ),
        pytest.param(
            {"labels": {"app": "db"}},
            {"labelSelector": {"matchLabels": {"app": "web"}}},
            False,
            id="labels differ",
        ),
        pytest.param(
            {"labels": {"app": "web"}},
            {"labelSelector": {"matchLabels": {"app": "web"}}},
            True,
            id="labels match",
        ),
        pytest.param({}, {"labelSelector": {}}, True, id="an empty selector selects all"),
        pytest.param({"phase": "Succeeded"}, {}, True, id="finished pods are in reach"),
        pytest.param({"phase": "Succeeded", "owner": None}, {}, False, id="finished without owner"),
    ],
)
def test_only_pods_in_view_leave(made: Object, args: Object, goes: bool) -> None:
    assert leaves(pod("it", **made), maxPodLifeTimeSeconds=60, **args) is goes


@pytest.mark.parametrize(("flag", "goes"), [(False, True), (True, False)])
def test_volume_claims_hold_pods_back_only_when_asked(flag: bool, goes: bool) -> None:
    made = pod("it", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}])

    assert leaves(made, maxPodLifeTimeSeconds=60, evictor={"ignorePvcPods": flag}) is goes


@pytest.mark.parametrize("phase", ["Running", "Pending", "Succeeded", "Failed", "Unknown"])
def test_a_pod_is_in_the_state_of_its_phase(phase: str) -> None:
    others = sorted(STATES - {phase})

    assert leaves(pod("it", phase=phase), states=[phase])
    assert not leaves(pod("it", phase=phase), states=others)


@pytest.mark.parametrize(
    "reason", ["NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError"]
)
def test_a_pod_is_in_the_state_of_its_reason(reason: str) -> None:
    made = pod("it", phase="Failed", status={"reason": reason})

    assert leaves(made, states=[reason])
    assert not leaves(made, states=["Running"])


WAITING = [
    "PodInitializing",
    "ContainerCreating",
    "ImagePullBackOff",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "ErrImagePull",
    "CreateContainerError",
    "InvalidImageName",
]
ENDED = [
    "OOMKilled",
    "Error",
    "Completed",
    "DeadlineExceeded",
    "Evicted",
    "ContainerCannotRun",
    "StartError",
]
STATUSES = [waiting(reason) for reason in WAITING] + [ended(reason) for reason in ENDED]


@pytest.mark.parametrize(
    ("kind", "flag"),
    [
        ("containerStatuses", None),
        ("initContainerStatuses", "includingInitContainers"),
        ("ephemeralContainerStatuses", "includingEphemeralContainers"),
    ],
)
@pytest.mark.parametrize(("status", "reason"), list(zip(STATUSES, WAITING + ENDED, strict=True)))
def test_a_pod_is_in_the_states_of_the_containers_asked_about(
    status: Object, reason: str, kind: str, flag: str | None
) -> None:
    made = with_container(status, kind)
    flags = {"includingInitContainers": False, "includingEphemeralContainers": False}

    assert leaves(made, states=[reason], **(flags | ({flag: True} if flag else {})))
    assert leaves(made, states=[reason], **flags) is (flag is None)
    assert not leaves(made, states=["Failed"], **dict.fromkeys(flags, True))


def test_what_a_container_was_before_does_not_count() -> None:
    before = {"name": "it", "state": {"running": {}}, "lastState": ended("OOMKilled")["state"]}

    assert not leaves(with_container(before), states=["OOMKilled"])


@pytest.mark.parametrize(
    ("made", "codes", "init", "goes"),
    [
        pytest.param(with_container(ended(code=137)), [1, 137], False, True, id="code listed"),
        pytest.param(with_container(ended(code=2)), [1, 137], False, False, id="code not listed"),
        pytest.param(with_container(ended(code=0)), [0], False, True, id="code zero"),
        pytest.param(with_container(waiting("Error")), [0], False, False, id="not ended"),
        pytest.param(
            with_container(ended(), "initContainerStatuses"), [1], False, False, id="init unasked"
        ),
        pytest.param(with_container(ended(), "initContainerStatuses"), [1], True, True, id="init"),
        pytest.param(
            with_container(ended(), "ephemeralContainerStatuses"),
            [1],
            True,
            False,
            id="ephemeral never",
        ),
    ],
)
def test_exit_codes_are_those_of_ended_containers(
    made: Object, codes: list[int], init: bool, goes: bool
) -> None:
    args = {"includingInitContainers": init, "includingEphemeralContainers": True}

    assert leaves(made, exitCodes=codes, **args) is goes


@pytest.mark.parametrize(
    ("owner", "kinds", "goes"),
    [
        pytest.param("Job/a", {"include": ["Job"]}, True, id="included"),
        pytest.param("ReplicaSet/a", {"include": ["Job"]}, False, id="not included"),
        pytest.param(
            ["ReplicaSet/a", "Job/b"], {"include": ["Job"]}, True, id="one of two included"
        ),
        pytest.param(None, {"include": ["Job"]}, False, id="no owner is never included"),
        pytest.param("Job/a", {"exclude": ["Job"]}, False, id="excluded"),
        pytest.param("ReplicaSet/a", {"exclude": ["Job"]}, True, id="not excluded"),
        pytest.param(
            ["ReplicaSet/a", "Job/b"], {"exclude": ["Job"]}, False, id="one of two excluded"
        ),
        pytest.param(None, {"exclude": ["Job"]}, True, id="no owner is never excluded"),
        pytest.param("Job/a", {}, True, id="neither list"),
    ],
)
def test_owner_kinds_are_kept_to_or_kept_out(owner: Any, kinds: Object, goes: bool) -> None:
    made = pod("it", owner=owner, phase="Failed")
    evictor = {"evictFailedBarePods": True}

    assert leaves(made, maxPodLifeTimeSeconds=60, ownerKinds=kinds, evictor=evictor) is goes


@pytest.mark.parametrize(
    ("made", "goes"),
    [
        pytest.param(with_container(waiting("CrashLoopBackOff"), age="2h"), True, id="all agree"),
        pytest.param(with_container(waiting("CrashLoopBackOff"), age="1m"), False, id="too young"),
        pytest.param(with_container(waiting("ErrImagePull"), age="2h"), False, id="other state"),
        pytest.param(
            with_container(waiting("CrashLoopBackOff"), age="2h", owner="Job/a"),
            False,
            id="other owner",
        ),
    ],
)
def test_every_category_must_agree(made: Object, goes: bool) -> None:
    args = {"states": ["CrashLoopBackOff"], "ownerKinds": {"exclude": ["Job"]}}

    assert leaves(made, maxPodLifeTimeSeconds=3600, **args) is goes


@pytest.mark.parametrize(
    ("args", "places"),
    [
        pytest.param({"maxPodLifeTimeSeconds": 0}, [], id="life time"),
        pytest.param({"states": sorted(STATES)}, [], id="every state"),
        pytest.param({"exitCodes": [-1, 0, 255]}, [], id="exit codes"),
        pytest.param({"conditions": [{"type": "Ready"}]}, [], id="a condition"),
        pytest.param({}, [""], id="no criterion"),
        pytest.param({"ownerKinds": {"include": ["Job"]}}, [""], id="owner kinds are no criterion"),
        pytest.param({"maxPodLifeTimeSeconds": -1}, ["maxPodLifeTimeSeconds"], id="negative"),
        pytest.param({"states": ["Running", "Sleeping"]}, ["states[1]"], id="unknown state"),
        pytest.param({"conditions": [{"type": "A"}, {}]}, ["conditions[1]"], id="empty condition"),
        pytest.param(
            {"states": ["Running"], "namespaces": {"include": ["a"], "exclude": ["b"]}},
            ["namespaces"],
            id="namespaces both ways",
        ),
        pytest.param(
            {"states": ["Running"], "ownerKinds": {"include": ["A"], "exclude": ["B"]}},
            ["ownerKinds"],
            id="owner kinds both ways",
        ),
        pytest.param(
            {
                "states": ["Running"],
                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
            },
            ["labelSelector.matchExpressions[0].values"],
            id="selector",
        ),
    ],
)
def test_arguments_are_checked(args: Object, places: list[str]) -> None:
    assert faults(PLUGIN, **args) == places
