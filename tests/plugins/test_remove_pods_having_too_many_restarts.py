"""RemovePodsHavingTooManyRestarts: how often, in which state, the worst first."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.plugins.remove_pods_having_too_many_restarts import PLUGIN
from resettle.testing import NodeBuilder, cluster, node, plan, pod
from tests.plugins.harness import faults

Object = dict[str, Any]


def restarting(
    *,
    regular: tuple[int, ...] = (0,),
    init: tuple[int, ...] = (),
    waits: str = "",
    phase: str = "Running",
) -> Object:
    """A pod whose containers restarted so often; the last init or else regular one may wait."""
    state = {"waiting": {"reason": waits}} if waits else {"running": {}}
    statuses = [{"name": f"c{i}", "restartCount": n, "state": {}} for i, n in enumerate(regular)]
    first = [{"name": f"i{i}", "restartCount": n, "state": {}} for i, n in enumerate(init)]
    (first or statuses)[-1]["state"] = state
    status = {"containerStatuses": statuses, "initContainerStatuses": first}
    return pod("it", phase=phase, status=status)


def leaves(made: Object, **args: Any) -> bool:
    world = cluster(node("n1").holding(made), node("n2"))
    return plan(PLUGIN, world, **({"podRestartThreshold": 10} | args)).evicts != []


@pytest.mark.parametrize(
    ("regular", "init", "counting_init", "goes"),
    [
        pytest.param((9,), (), False, False, id="below the threshold"),
        pytest.param((10,), (), False, True, id="exactly at the threshold leaves"),
        pytest.param((11,), (), False, True, id="above the threshold"),
        pytest.param((4, 6), (), False, True, id="containers add up"),
        pytest.param((4, 5), (9,), False, False, id="init containers not counted"),
        pytest.param((4, 5), (1,), True, True, id="init containers counted"),
        pytest.param((4, 5), (0,), True, False, id="init containers counted, still below"),
        pytest.param((0,), (10,), True, True, id="init containers alone"),
    ],
)
def test_pods_leave_once_their_restarts_reach_the_threshold(
    regular: tuple[int, ...], init: tuple[int, ...], counting_init: bool, goes: bool
) -> None:
    made = restarting(regular=regular, init=init)

    assert leaves(made, includingInitContainers=counting_init) is goes


CRASHING = "CrashLoopBackOff"


@pytest.mark.parametrize(
    ("made", "states", "init", "goes"),
    [
        pytest.param(restarting(regular=(10,)), [], False, True, id="no state asked for"),
        pytest.param(restarting(regular=(10,)), ["Running"], False, True, id="running"),
        pytest.param(
            restarting(regular=(10,)), [CRASHING], False, False, id="running, not crashing"
        ),
        pytest.param(
            restarting(regular=(10,), waits=CRASHING), [CRASHING], False, True, id="crashing"
        ),
        pytest.param(
            restarting(regular=(10,), waits=CRASHING),
            ["Running"],
            False,
            True,
            id="a crashing pod is in phase Running",
        ),
        pytest.param(
            restarting(regular=(10,), waits=CRASHING, phase="Pending"),
            ["Running"],
            False,
            False,
            id="pending is not running",
        ),
        pytest.param(
            restarting(regular=(10,), waits=CRASHING, phase="Pending"),
            ["Running", CRASHING],
            False,
            True,
            id="pending and crashing",
        ),
        pytest.param(
            restarting(regular=(10,), init=(0,), waits=CRASHING, phase="Pending"),
            [CRASHING],
            False,
            False,
            id="a crashing init container not looked at",
        ),
        pytest.param(
            restarting(regular=(0,), init=(10,), waits=CRASHING, phase="Pending"),
            [CRASHING],
            True,
            True,
            id="a crashing init container looked at",
        ),
        pytest.param(
            restarting(regular=(9,), waits=CRASHING),
            [CRASHING],
            False,
            False,
            id="below the threshold",
        ),
    ],
)
def test_states_narrow_the_choice(made: Object, states: list[str], init: bool, goes: bool) -> None:
    assert leaves(made, states=states, includingInitContainers=init) is goes


def test_on_each_node_the_worst_leave_first() -> None:
    world = cluster(
        node("n1").holding(pod("a", restarts=5), pod("b", restarts=50), pod("c", restarts=20)),
        node("n2").holding(pod("d", restarts=30), pod("e", restarts=99), pod("f", restarts=4)),
    )

    assert plan(PLUGIN, world, podRestartThreshold=5).evicts == ["b", "c", "a", "e", "d"]


@pytest.mark.parametrize(
    ("limits", "evicts"),
    [
        pytest.param({}, ["b", "c", "a", "e", "d"], id="none"),
        pytest.param({"maxNoOfPodsToEvictTotal": 1}, ["b"], id="total"),
        pytest.param({"maxNoOfPodsToEvictPerNode": 1}, ["b", "e"], id="node 1"),
        pytest.param({"maxNoOfPodsToEvictPerNode": 2}, ["b", "c", "e", "d"], id="node 2"),
        pytest.param({"maxNoOfPodsToEvictPerNamespace": 3}, ["b", "c", "a"], id="namespace"),
    ],
)
def test_under_a_limit_the_worst_have_gone(limits: Object, evicts: list[str]) -> None:
    world = cluster(
        node("n1").holding(pod("a", restarts=5), pod("b", restarts=50), pod("c", restarts=20)),
        node("n2").holding(pod("d", restarts=30), pod("e", restarts=99)),
    )

    assert plan(PLUGIN, world, policy=limits, podRestartThreshold=5).evicts == evicts


@pytest.mark.parametrize(
    ("other", "goes"),
    [
        pytest.param(node("n2"), True, id="enough cpu"),
        pytest.param(node("n2", cpu="1"), True, id="just enough cpu"),
        pytest.param(node("n2", cpu="999m"), False, id="cpu short"),
        pytest.param(node("n2", taints=["gpu:NoSchedule"]), False, id="tainted"),
        pytest.param(node("n2", cordoned=True), False, id="unschedulable"),
    ],
)
def test_with_node_fit_a_pod_needs_a_place_to_go(other: NodeBuilder, goes: bool) -> None:
    world = cluster(node("n1").holding(pod("it", cpu="1", restarts=10)), other)

    fitting = plan(PLUGIN, world, evictor={"nodeFit": True}, podRestartThreshold=10)

    assert (fitting.evicts != []) is goes
    assert plan(PLUGIN, world, podRestartThreshold=10).evicts == ["it"]


@pytest.mark.parametrize(
    ("made", "args"),
    [
        pytest.param({"terminating": True}, {}, id="terminating"),
        pytest.param({"namespace": "b"}, {"namespaces": {"include": ["a"]}}, id="namespace"),
        pytest.param({}, {"labelSelector": {"matchLabels": {"app": "web"}}}, id="labels"),
        pytest.param({"owner": None}, {}, id="no owner"),
    ],
)
def test_pods_out_of_view_stay(made: Object, args: Object) -> None:
    assert leaves(pod("it", restarts=10))
    assert not leaves(pod("it", restarts=10, **made), **args)


@pytest.mark.parametrize(
    ("args", "places"),
    [
        pytest.param({"podRestartThreshold": 1}, [], id="least threshold"),
        pytest.param({"podRestartThreshold": 1, "states": ["Running", CRASHING]}, [], id="states"),
        pytest.param({}, ["podRestartThreshold"], id="no threshold"),
        pytest.param({"podRestartThreshold": 0}, ["podRestartThreshold"], id="zero"),
        pytest.param({"podRestartThreshold": -1}, ["podRestartThreshold"], id="negative"),
        pytest.param({"podRestartThreshold": 2**31}, ["podRestartThreshold"], id="beyond int32"),
        pytest.param({"podRestartThreshold": 1, "states": ["Pending"]}, ["states[0]"], id="state"),
        pytest.param(
            {"podRestartThreshold": 1, "namespaces": {"include": ["a"], "exclude": ["b"]}},
            ["namespaces"],
            id="both ways",
        ),
    ],
)
def test_arguments_are_checked(args: Object, places: list[str]) -> None:
    assert faults(PLUGIN, **args) == places
