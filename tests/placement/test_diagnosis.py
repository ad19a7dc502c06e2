"""Every node that does not take a pod stands under one ground, and no other node does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from resettle.model import NodeSet, Pod, Snapshot
from resettle.placement.diagnosis import NodeChecks, NodeRejection
from resettle.placement.projection import Projection
from resettle.placement.upstream_fit import NodeFit
from resettle.testing import cluster, node, pod
from tests.parity.corpus import FILES, cases


def union(grounds: list[NodeRejection]) -> NodeSet:
    """The nodes of all grounds; an error if one stands under two."""
    nodes = 0
    for ground in grounds:
        assert ground.nodes
        assert not nodes & ground.nodes
        nodes |= ground.nodes
    return nodes


def others(subject: Pod, snapshot: Snapshot) -> NodeSet:
    return snapshot.node_index.all_nodes & ~snapshot.node_index.only(subject.node)


@pytest.mark.parametrize("file", FILES)
def test_grounds_and_takers_make_up_all_other_nodes(file: str) -> None:
    for case in list(cases(file))[::20]:
        fit, projection = NodeFit(case.snapshot), Projection(case.snapshot)
        for subject in case.snapshot.pods:
            among = others(subject, case.snapshot)
            takers = fit.feasible_elsewhere(subject, among)
            places = projection.safe_nodes(subject) & among

            assert union(fit.ruled_out(subject, among)) == among & ~takers
            assert union(projection.ruled_out(subject, among)) == among & ~places


@pytest.mark.parametrize("checks", [NodeFit, Projection], ids=["weak fit", "full fit"])
def test_what_a_node_lacks_is_listed_to_the_unit(checks: Callable[[Snapshot], NodeChecks]) -> None:
    asking = pod("it", cpu="1500m", memory="2Gi", requests={"vendor.example/gpu": "1"})
    world = cluster(
        node("n1").holding(asking),
        node("n2", cpu="4", memory="4Gi", pods=2).holding(
            pod("a", cpu="3", memory="1Gi"), pod("b", memory="2Gi")
        ),
    )
    snapshot = world.snapshot()
    subject = snapshot.pod("default", "it")
    assert subject is not None

    assert checks(snapshot).lacking(subject, "n2") == {
        "cpu": 500,
        "memory": 2**30,
        "pods": 1,
        "vendor.example/gpu": 1,
    }


def test_several_pods_kept_away_from_are_counted() -> None:
    rivals = [pod(f"rival-{i}", labels={"app": "web"}) for i in (1, 2, 3)]
    world = cluster(
        node("n1").holding(pod("it", away_from={"app": "web"})), node("n2").holding(*rivals)
    )
    snapshot = world.snapshot()
    subject = snapshot.pod("default", "it")
    assert subject is not None

    (ground,) = NodeFit(snapshot).ruled_out(subject, others(subject, snapshot))

    assert ground.says == "anti-affinity with default/rival-1 and 2 more"
