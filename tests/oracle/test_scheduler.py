"""The oracle on a node's state, labels and taints, on pods it knows too little of, and on moves."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import NodeBuilder, node, pod

from .objects import away, labelled, named, on_nodes, oracle, refusal, row, term, where

CORDON = "node.kubernetes.io/unschedulable"
NOT_ASKED_FOR = "the node is none of those that selector and affinity ask for"
EXISTS = {"operator": "Exists"}


@pytest.mark.parametrize(
    ("other", "made", "why"),
    [
        pytest.param(node("n2"), {}, None, id="a ready node"),
        pytest.param(node("n2", ready=None), {}, None, id="no Ready condition is ready"),
        pytest.param(node("n2", ready=False), {}, "the node is not ready", id="unready"),
        pytest.param(node("n2", cordoned=True), {}, "the node is cordoned", id="cordoned"),
        pytest.param(
            node("n2", cordoned=True),
            {"tolerations": [{"key": CORDON, "effect": "NoSchedule", **EXISTS}]},
            None,
            id="cordoned, and tolerated",
        ),
        pytest.param(
            node("n2", cordoned=True, taints=[f"{CORDON}:NoSchedule"]),
            {"tolerations": [EXISTS]},
            None,
            id="cordoned with its taint, and all is tolerated",
        ),
        pytest.param(
            node("n2", cordoned=True),
            {"tolerations": [{"key": CORDON, "effect": "NoExecute", **EXISTS}]},
            "the node is cordoned",
            id="cordoned, and another effect is tolerated",
        ),
    ],
)
def test_a_node_takes_pods_while_it_is_ready_and_not_cordoned(
    other: NodeBuilder, made: dict[str, Any], why: str | None
) -> None:
    assert refusal(other, **made) == why


BLUE = node("n2", labels={"pool": "blue", "rank": "7"})


@pytest.mark.parametrize(
    ("made", "takes"),
    [
        pytest.param({"node_selector": {"pool": "blue"}}, True, id="selector met"),
        pytest.param({"node_selector": {"pool": "red"}}, False, id="selector not met"),
        pytest.param({"node_selector": {"pool": "blue", "x": "y"}}, False, id="selector half met"),
        pytest.param({"node_selector": {}}, True, id="empty selector"),
        *(
            pytest.param({"affinity": on_nodes(where(row(*asks)))}, takes, id=" ".join(asks))
            for asks, takes in (
                (("pool", "In", "red", "blue"), True),
                (("pool", "In", "red"), False),
                (("pool", "NotIn", "red"), True),
                (("pool", "NotIn", "blue"), False),
                (("disk", "NotIn", "ssd"), True),
                (("pool", "Exists"), True),
                (("disk", "Exists"), False),
                (("disk", "DoesNotExist"), True),
                (("pool", "DoesNotExist"), False),
                (("rank", "Gt", "6"), True),
                (("rank", "Gt", "7"), False),
                (("rank", "Lt", "8"), True),
                (("rank", "Lt", "7"), False),
                (("pool", "Gt", "0"), False),
                (("disk", "Lt", "9"), False),
            )
        ),
        pytest.param(
            {"affinity": on_nodes(where(row("pool", "In", "blue"), row("rank", "In", "8")))},
            False,
            id="all conditions of a term must hold",
        ),
        pytest.param(
            {"affinity": on_nodes(where(row("rank", "In", "8")), where(row("pool", "Exists")))},
            True,
            id="one term is enough",
        ),
        pytest.param({"affinity": on_nodes({})}, False, id="an empty term matches nothing"),
        pytest.param({"affinity": on_nodes()}, False, id="no term matches nothing"),
        pytest.param(
            {"affinity": on_nodes(named(row("metadata.name", "In", "n2")))}, True, id="by name"
        ),
        pytest.param(
            {"affinity": on_nodes(named(row("metadata.name", "In", "n1")))},
            False,
            id="pinned to the node it is on",
        ),
        pytest.param(
            {"affinity": on_nodes(named(row("metadata.name", "NotIn", "n1")))},
            True,
            id="any but the node it is on",
        ),
        pytest.param(
            {
                "affinity": on_nodes(
                    {**named(row("metadata.name", "In", "n2")), **where(row("pool", "In", "red"))}
                )
            },
            False,
            id="by name, and labels not met",
        ),
        pytest.param(
            {"node_selector": {"pool": "red"}, "affinity": on_nodes(where(row("pool", "Exists")))},
            False,
            id="affinity met and selector not",
        ),
    ],
)
def test_a_node_must_be_one_that_selector_and_required_affinity_ask_for(
    made: dict[str, Any], takes: bool
) -> None:
    assert refusal(BLUE, **made) == (None if takes else NOT_ASKED_FOR)


@pytest.mark.parametrize(
    ("taints", "toleration", "takes"),
    [
        pytest.param(["gpu=yes:NoSchedule"], {}, False, id="NoSchedule"),
        pytest.param(["gpu=yes:NoExecute"], {}, False, id="NoExecute"),
        pytest.param(
            ["gpu=yes:PreferNoSchedule"], {}, True, id="PreferNoSchedule is only preferred"
        ),
        pytest.param(["gpu=yes:NoSchedule"], {"key": "gpu", **EXISTS}, True, id="Exists"),
        pytest.param(["gpu=yes:NoSchedule"], {"key": "cpu", **EXISTS}, False, id="another key"),
        pytest.param(["gpu=yes:NoSchedule"], EXISTS, True, id="no key and Exists is everything"),
        pytest.param(["gpu=yes:NoSchedule"], {"key": "gpu", "value": "yes"}, True, id="Equal"),
        pytest.param(["gpu=yes:NoSchedule"], {"key": "gpu", "value": "no"}, False, id="not equal"),
        pytest.param(["gpu:NoSchedule"], {"key": "gpu", "operator": "Equal"}, True, id="no value"),
        pytest.param(
            ["gpu:NoSchedule"],
            {"key": "gpu", "effect": "NoExecute", **EXISTS},
            False,
            id="another effect",
        ),
        pytest.param(
            ["gpu:NoSchedule", "old:NoExecute"],
            {"key": "gpu", **EXISTS},
            False,
            id="every hard taint must be tolerated",
        ),
        *(
            pytest.param(
                [f"rank={have}:NoSchedule"],
                {"key": "rank", "operator": operator, "value": limit},
                takes,
                id=f"{have} {operator} {limit}",
            )
            for have, operator, limit, takes in (
                ("4", "Lt", "5", True),
                ("5", "Lt", "5", False),
                ("6", "Gt", "5", True),
                ("5", "Gt", "5", False),
                ("five", "Gt", "4", False),
            )
        ),
    ],
)
def test_every_hard_taint_must_be_tolerated(
    taints: list[str], toleration: dict[str, Any], takes: bool
) -> None:
    why = refusal(node("n2", taints=taints), tolerations=[toleration] if toleration else [])

    assert (why is None) == takes
    assert takes or "is not tolerated" in str(why)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
            "the snapshot does not know its devices",
            id="devices",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "example.com/wait"}]},
            "it is held back by scheduling gates",
            id="gates",
        ),
        pytest.param({"resourceClaims": [], "schedulingGates": []}, None, id="neither"),
    ],
)
def test_pods_with_devices_or_gates_are_refused_everywhere(
    spec: dict[str, Any], why: str | None
) -> None:
    asked = oracle(node("n1").holding(pod("it", spec=spec)), node("n2"))

    assert [asked.refuses("default/it", name) for name in ("n1", "n2")] == [why, why]


def test_a_pod_can_be_replaced_where_it_is_because_it_has_left_before() -> None:
    alone = pod("it", cpu="3", labels={"app": "web"}, affinity=away(term(labelled(app="web"))))
    asked = oracle(node("n1", cpu="4", pods=1).holding(alone))

    assert asked.refuses("default/it", "n1") is None


def test_pods_that_are_finished_unbound_or_on_unknown_nodes_count_nowhere() -> None:
    others = [pod("done", cpu="4", phase="Succeeded"), pod("lost", cpu="4", phase="Failed")]
    waiting = pod("waiting", cpu="4", phase="Pending")
    stray = pod("stray", cpu="4", spec={"nodeName": "gone"})

    assert refusal(node("n2", cpu="4").holding(*others), waiting, stray, cpu="4") is None


def test_a_terminating_pod_still_takes_its_room() -> None:
    leaving = pod("leaving", cpu="4", terminating=True)

    why = refusal(node("n2", cpu="4").holding(leaving), cpu="4")
    assert why == "the node has too little cpu"


def test_a_moved_pod_leaves_its_room_behind_and_takes_room_where_it_lands() -> None:
    first, second = pod("first", cpu="3"), pod("second", cpu="3")
    asked = oracle(node("n1", cpu="4").holding(first), node("n2", cpu="4").holding(second))
    crowded = "the node has too little cpu"
    assert asked.refuses("default/first", "n2") == crowded

    spare = oracle(
        node("n1", cpu="4").holding(first), node("n2", cpu="4").holding(second), node("n3", cpu="4")
    )
    spare.move("default/second", "n3")

    assert spare.refuses("default/first", "n2") is None
    assert spare.refuses("default/first", "n3") == crowded
