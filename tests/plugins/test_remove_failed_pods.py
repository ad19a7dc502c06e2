"""RemoveFailedPods: failed, old enough, for the reasons asked about."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.plugins.remove_failed_pods import PLUGIN
from resettle.testing import NodeBuilder, cluster, node, plan, pod
from tests.plugins.harness import faults

Object = dict[str, Any]


def waiting(reason: str) -> Object:
    return {"name": "it", "state": {"waiting": {"reason": reason}}}


def ended(reason: str = "Error", code: int = 1) -> Object:
    return {"name": "it", "state": {"terminated": {"reason": reason, "exitCode": code}}}


def failed(name: str = "it", **made: Any) -> Object:
    return pod(name, **({"phase": "Failed"} | made))


def failed_with(status: Object, kind: str = "containerStatuses") -> Object:
    return failed(status={kind: [status]})


def leaves(made: Object, **args: Any) -> bool:
    return plan(PLUGIN, cluster(node("n1").holding(made), node("n2")), **args).evicts != []


@pytest.mark.parametrize("phase", ["Running", "Pending", "Succeeded", "Unknown", "Failed"])
def test_only_failed_pods_leave(phase: str) -> None:
    assert leaves(pod("it", phase=phase)) is (phase == "Failed")


@pytest.mark.parametrize(
    ("age", "args", "goes"),
    [
        pytest.param("3599s", {}, False, id="younger than an hour by default"),
        pytest.param("3600s", {}, True, id="exactly an hour old leaves"),
        pytest.param("10s", {"minPodLifetimeSeconds": 0}, True, id="no minimum"),
        pytest.param("10s", {"minPodLifetimeSeconds": None}, False, id="null is the default"),
        pytest.param("59s", {"minPodLifetimeSeconds": 60}, False, id="a second short"),
        pytest.param(
            "60s", {"minPodLifetimeSeconds": 60}, True, id="exactly at the minimum leaves"
        ),
        pytest.param(
            "-1h", {"minPodLifetimeSeconds": 60}, False, id="created in the future is new"
        ),
    ],
)
def test_failed_pods_are_left_alone_until_old_enough(age: str, args: Object, goes: bool) -> None:
    assert leaves(failed(age=age), **args) is goes


@pytest.mark.parametrize(
    ("made", "reasons", "init", "goes"),
    [
        pytest.param(failed(), ["Error"], False, False, id="no reason given"),
        pytest.param(failed_with(ended("Error")), ["Error"], False, True, id="ended"),
        pytest.param(
            failed_with(ended("OOMKilled")), ["Error"], False, False, id="ended otherwise"
        ),
        pytest.param(failed_with(ended("A")), ["B", "A"], False, True, id="one of several"),
        pytest.param(
            failed_with(waiting("CreateContainerConfigError")),
            ["CreateContainerConfigError"],
            False,
            True,
            id="waiting",
        ),
        pytest.param(
            failed(status={"reason": "Shutdown"}), ["Shutdown"], False, True, id="of the pod"
        ),
        pytest.param(
            failed(status={"reason": "Evicted"}), ["Shutdown"], False, False, id="of the pod, other"
        ),
        pytest.param(
            failed_with(ended(), "initContainerStatuses"),
            ["Error"],
            False,
            False,
            id="init unasked",
        ),
        pytest.param(
            failed_with(ended(), "initContainerStatuses"), ["Error"], True, True, id="init"
        ),
        pytest.param(failed_with(ended()), ["Error"], True, True, id="regular ones with init on"),
    ],
)
def test_reasons_narrow_the_choice(
    made: Object, reasons: list[str], init: bool, goes: bool
) -> None:
    assert leaves(made, reasons=reasons, includingInitContainers=init) is goes


@pytest.mark.parametrize(
    ("made", "codes", "init", "goes"),
    [
        pytest.param(failed_with(ended(code=137)), [137], False, True, id="listed"),
        pytest.param(failed_with(ended(code=1)), [137], False, False, id="not listed"),
        pytest.param(failed_with(ended(code=0)), [0], False, True, id="zero"),
        pytest.param(failed_with(waiting("Error")), [0], False, False, id="not ended"),
        pytest.param(
            failed_with(ended(), "initContainerStatuses"), [1], False, False, id="init unasked"
        ),
        pytest.param(failed_with(ended(), "initContainerStatuses"), [1], True, True, id="init"),
    ],
)
def test_exit_codes_narrow_the_choice(
    made: Object, codes: list[int], init: bool, goes: bool
) -> None:
    assert leaves(made, exitCodes=codes, includingInitContainers=init) is goes


@pytest.mark.parametrize(
    ("reason", "code", "goes"),
    [("Error", 1, True), ("Error", 2, False), ("Other", 1, False), ("Other", 2, False)],
)
def test_reason_and_exit_code_must_both_agree(reason: str, code: int, goes: bool) -> None:
    assert leaves(failed_with(ended(reason, code)), reasons=["Error"], exitCodes=[1]) is goes


@pytest.mark.parametrize(
    ("made", "args", "goes"),
    [
        pytest.param(
            {"owner": "Job/a"}, {"excludeOwnerKinds": ["Job"]}, False, id="excluded owner"
        ),
        pytest.param(
            {"owner": "Job/a"}, {"excludeOwnerKinds": ["ReplicaSet"]}, True, id="other owner"
        ),
        pytest.param(
            {"owner": ["ReplicaSet/a", "Job/b"]},
            {"excludeOwnerKinds": ["Job"]},
            False,
            id="one of two owners excluded",
        ),
        pytest.param({"terminating": True}, {}, False, id="terminating"),
        pytest.param({"owner": None}, {}, False, id="no owner"),
        pytest.param(
            {"owner": None},
            {"evictor": {"evictFailedBarePods": True}},
            True,
            id="no owner, allowed",
        ),
        pytest.param({"namespace": "b"}, {"namespaces": {"exclude": ["b"]}}, False, id="namespace"),
        pytest.param(
            {"labels": {"a": "b"}},
            {"labelSelector": {"matchLabels": {"a": "c"}}},
            False,
            id="labels",
        ),
    ],
)
def test_only_pods_in_view_leave(made: Object, args: Object, goes: bool) -> None:
    assert leaves(failed(**made), **args) is goes


@pytest.mark.parametrize(
    ("other", "goes"),
    [
        pytest.param(node("n2"), True, id="fits"),
        pytest.param(node("n2", cordoned=True), False, id="unschedulable"),
        pytest.param(node("n2", cpu="500m"), False, id="no room"),
    ],
)
def test_with_node_fit_a_failed_pod_needs_a_place_to_go(other: NodeBuilder, goes: bool) -> None:
    world = cluster(node("n1").holding(failed(cpu="1")), other)

    assert (plan(PLUGIN, world, evictor={"nodeFit": True}).evicts != []) is goes
    assert plan(PLUGIN, world).evicts == ["it"]


def test_without_a_failed_pod_there_is_nothing_to_do() -> None:
    assert plan(PLUGIN, cluster(node("n1").holding(pod("a")), node("n2"))).stopped == [
        "no-candidate"
    ]


@pytest.mark.parametrize(
    ("args", "places"),
    [
        pytest.param({}, [], id="defaults"),
        pytest.param({"reasons": ["Any"], "exitCodes": [1]}, [], id="any reason"),
        pytest.param(
            {"namespaces": {"include": ["a"], "exclude": ["b"]}}, ["namespaces"], id="both ways"
        ),
        pytest.param({"minPodLifetimeSeconds": -1}, ["minPodLifetimeSeconds"], id="negative"),
        pytest.param(
            {"minPodLifeTimeSeconds": 1}, ["minPodLifeTimeSeconds"], id="key in another case"
        ),
        pytest.param(
            {"labelSelector": {"matchLabels": {"a": "b c"}}},
            ["labelSelector.matchLabels.a"],
            id="selector",
        ),
    ],
)
def test_arguments_are_checked(args: Object, places: list[str]) -> None:
    assert faults(PLUGIN, **args) == places
