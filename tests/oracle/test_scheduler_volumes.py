"""The oracle on claims, where their volumes are, and how many a node attaches."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import NodeBuilder, node, pod
from tests.oracle.objects import (
    DRIVER,
    REGION,
    ZONE,
    Object,
    bound_claim,
    csi_node,
    mounting,
    oracle,
    refusal,
    row,
    volume,
    where,
)

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
OUT_OF_REACH = "volume v cannot be had on the node"
IN_B = node("n2", zone="b")


@pytest.mark.parametrize(
    ("there", "why"),
    [
        pytest.param([], "claim default/data is not there", id="no such claim"),
        pytest.param(
            [bound_claim("data", namespace="shop")],
            "claim default/data is not there",
            id="a namesake elsewhere",
        ),
        pytest.param([bound_claim("data")], None, id="not bound yet"),
        pytest.param(
            [bound_claim("data", deleted=True)], "claim default/data is being deleted", id="leaving"
        ),
        pytest.param([bound_claim("data", "v")], "volume v is not there", id="no such volume"),
        pytest.param([bound_claim("data", "v"), volume("v")], None, id="a volume for any node"),
    ],
)
def test_a_claim_must_be_there_with_its_volume(there: list[Object], why: str | None) -> None:
    assert refusal(IN_B, *there, volumes=mounting("data")) == why


@pytest.mark.parametrize(
    ("other", "bound_to", "takes"),
    [
        pytest.param(IN_B, volume("v", where(row(ZONE, "In", "b"))), True, id="affinity met"),
        pytest.param(IN_B, volume("v", where(row(ZONE, "In", "a"))), False, id="affinity not met"),
        pytest.param(
            IN_B,
            volume("v", where(row(ZONE, "In", "a")), where(row(ZONE, "In", "b"))),
            True,
            id="one term of it is enough",
        ),
        pytest.param(
            node("n2"), volume("v", where(row(ZONE, "In", "a"))), False, id="no zone to meet it"
        ),
        pytest.param(IN_B, volume("v", labels={ZONE: "b"}), True, id="its zone"),
        pytest.param(IN_B, volume("v", labels={ZONE: "a"}), False, id="another zone"),
        pytest.param(IN_B, volume("v", labels={ZONE: "a__b"}), True, id="one of its zones"),
        pytest.param(IN_B, volume("v", labels={ZONE: "a__c"}), False, id="none of its zones"),
        pytest.param(node("n2"), volume("v", labels={ZONE: "a"}), True, id="node without labels"),
        pytest.param(
            IN_B, volume("v", labels={ZONE: "b", REGION: "x"}), False, id="zone met, no region"
        ),
        pytest.param(IN_B, volume("v", labels={BETA_ZONE: "b"}), True, id="old label of its zone"),
        pytest.param(IN_B, volume("v", labels={BETA_ZONE: "a"}), False, id="old label of another"),
        pytest.param(
            node("n2", labels={BETA_ZONE: "b"}),
            volume("v", labels={ZONE: "b"}),
            False,
            id="new label of the volume, old label of the node",
        ),
        pytest.param(IN_B, volume("v", labels={"app": "x"}), True, id="labels that say no zone"),
    ],
)
def test_a_volume_must_be_within_reach_of_the_node(
    other: NodeBuilder, bound_to: Object, takes: bool
) -> None:
    why = refusal(other, bound_claim("data", "v"), bound_to, volumes=mounting("data"))

    assert why == (None if takes else OUT_OF_REACH)


@pytest.mark.parametrize(
    ("mode", "beside", "why"),
    [
        pytest.param("ReadWriteOnce", {}, None, id="shared on one node"),
        pytest.param(
            "ReadWriteOncePod",
            {},
            "claim default/data is for one pod alone and has one",
            id="not shared at all",
        ),
        pytest.param(
            "ReadWriteOncePod",
            {"terminating": True},
            "claim default/data is for one pod alone and has one",
            id="not while the other is leaving",
        ),
        pytest.param("ReadWriteOncePod", {"phase": "Failed"}, None, id="the other has finished"),
        pytest.param("ReadWriteOncePod", {"namespace": "shop"}, None, id="a namesake elsewhere"),
    ],
)
def test_a_claim_for_one_pod_alone_is_refused_everywhere_while_it_has_one(
    mode: str, beside: dict[str, Any], why: str | None
) -> None:
    other = pod("beside", volumes=mounting("data"), **beside)
    there = [bound_claim("data", "v", mode=mode), volume("v")]

    for place in ("n2", "n3"):
        nodes = [node(name).holding(*([other] if name == place else [])) for name in ("n2", "n3")]
        assert refusal(*nodes, *there, volumes=mounting("data")) == why


FULL = f"the node attaches no more volumes of {DRIVER}"


def disks(*names: str, driver: str = DRIVER) -> list[Object]:
    """A bound claim and its volume for each name; `x=y` is a claim x on the volume y."""
    made = []
    for name in names:
        of, _, disk = name.partition("=")
        made += [
            bound_claim(of, f"v-{of}"),
            volume(f"v-{of}", handle=disk or of, driver=driver),
        ]
    return made


@pytest.mark.parametrize(
    ("limits", "theirs", "ours", "why"),
    [
        pytest.param({DRIVER: 2}, ["a"], ["b"], None, id="room for one more"),
        pytest.param({DRIVER: 1}, ["a"], ["b"], FULL, id="full"),
        pytest.param({DRIVER: 2}, ["a"], ["b", "c"], FULL, id="room for one of two"),
        pytest.param({DRIVER: 1}, ["a"], ["a"], None, id="attached already"),
        pytest.param({DRIVER: 1}, ["a"], ["b=a"], None, id="attached by another claim"),
        pytest.param({DRIVER: 1}, ["a", "b"], ["b"], None, id="brings nothing new to a full node"),
        pytest.param({DRIVER: 0}, [], [], None, id="brings nothing"),
        pytest.param({DRIVER: None}, ["a"], ["b"], None, id="a driver without a limit"),
        pytest.param({"other.example": 0}, ["a"], ["b"], None, id="the limit of another driver"),
    ],
)
def test_a_node_attaches_so_many_volumes_of_a_driver(
    limits: dict[str, int | None], theirs: list[str], ours: list[str], why: str | None
) -> None:
    names = sorted({*theirs, *ours})
    other = node("n2").holding(*(pod(f"on-{claim}", volumes=mounting(claim)) for claim in theirs))
    claims = [claim.partition("=")[0] for claim in ours]

    asked = refusal(other, csi_node("n2", limits), *disks(*names), volumes=mounting(*claims))
    assert asked == why


def test_volumes_made_for_a_pod_alone_do_not_hold_its_replacement_back() -> None:
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    in_a = volume("v", where(row(ZONE, "In", "a")), handle="v")
    made = bound_claim("it-scratch", "v")

    assert refusal(IN_B, made, in_a, csi_node("n2", {DRIVER: 0}), volumes=scratch) is None


def test_volumes_made_for_another_pod_are_attached_until_that_one_moves() -> None:
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    asked = oracle(
        node("n1").holding(pod("it", volumes=mounting("data"))),
        node("n2").holding(pod("beside", volumes=scratch)),
        *disks("data", "beside-scratch"),
        csi_node("n2", {DRIVER: 1}),
    )
    assert asked.refuses("default/it", "n2") == FULL

    asked.move("default/beside", "n1")
    assert asked.refuses("default/it", "n2") is None
