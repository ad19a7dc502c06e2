"""The forecast: of the nodes that would take a pod, which one the scheduler would rather choose."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.placement.projection import Projection
from resettle.testing import World, cluster, node, pod, spread

WEB = {"app": "web"}
HOST = "kubernetes.io/hostname"
ANY = {"operator": "Exists"}


def expected_node(world: World, name: str = "it") -> str:
    """Where the pod's replacement is expected, among all nodes that would take it."""
    snapshot = world.snapshot()
    subject = snapshot.pod("default", name)
    assert subject is not None
    projection = Projection(snapshot)
    return projection.highest_scored_node(subject, projection.feasible_nodes(subject))


def liking(disk: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}
    rows = [{"weight": 10, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": rows}}


def avoiding(labels: dict[str, str]) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
    rows = [{"weight": 10, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": rows}}


def marks(count: int) -> list[str]:
    return [f"mark-{i}:PreferNoSchedule" for i in range(count)]


@pytest.mark.parametrize(
    ("world", "lands_on"),
    [
        pytest.param(
            cluster(
                node("n1", cpu="8").holding(pod("it", cpu="1"), pod("load", cpu="5")),
                node("n2", cpu="8").holding(pod("other", cpu="3", owner="ReplicaSet/other")),
                node("n3", cpu="8").holding(pod("more", cpu="2", owner="ReplicaSet/other")),
            ),
            "n3",
            id="the emptiest",
        ),
        pytest.param(
            cluster(
                node("n1", cpu="8").holding(pod("it", cpu="4")),
                node("n2", cpu="8").holding(pod("other", cpu="1", owner="ReplicaSet/other")),
            ),
            "n1",
            id="its own, which is empty once it has left",
        ),
        pytest.param(
            cluster(
                node("n1", cpu="8").holding(pod("it", affinity=liking("ssd")), pod("l", cpu="4")),
                node("n2", cpu="8", labels={"disk": "ssd"}).holding(
                    pod("other", cpu="6", owner="ReplicaSet/other")
                ),
                node("n3", cpu="8"),
            ),
            "n2",
            id="the preferred one, however full",
        ),
        pytest.param(
            cluster(
                node("n1", cpu="8").holding(pod("it"), pod("load", cpu="7")),
                node("n2", cpu="8", taints=["busy:PreferNoSchedule"]),
                node("n3", cpu="8").holding(pod("other", cpu="4", owner="ReplicaSet/other")),
            ),
            "n3",
            id="one without a soft taint",
        ),
        pytest.param(
            cluster(
                node("n1", taints=marks(3)).holding(pod("it")),
                node("n2", taints=marks(2)).holding(pod("load", cpu="1")),
                node("n3", taints=marks(1)).holding(pod("more", cpu="2")),
            ),
            "n3",
            id="the one with the fewest soft taints, if all have some",
        ),
        pytest.param(
            cluster(
                node("n1", cpu="8", taints=marks(3)).holding(pod("it"), pod("twin")),
                node("n2", cpu="8", taints=marks(2)).holding(pod("other", owner="ReplicaSet/b")),
                node("n3", cpu="8", taints=marks(1)).holding(*(pod(f"s{i}") for i in range(3))),
            ),
            "n2",
            id="one with a taint more, if that spreads its owner's pods better",
        ),
        pytest.param(
            cluster(
                node("n1", taints=marks(1)).holding(
                    pod("it", tolerations=[{"operator": "Exists"}])
                ),
                node("n2").holding(pod("load", cpu="1", owner="ReplicaSet/other")),
            ),
            "n1",
            id="its own, if it tolerates the taint",
        ),
        pytest.param(
            cluster(
                node("n1", cpu="8").holding(pod("it", affinity=liking("ssd")), pod("l", cpu="4")),
                node("n2", cpu="8", labels={"disk": "ssd"}, taints=marks(1)),
                node("n3", cpu="8"),
            ),
            "n3",
            id="one without a soft taint rather than the preferred one",
        ),
        pytest.param(
            cluster(
                node("n1", cpu="8").holding(pod("it"), pod("twin")),
                node("n2", cpu="8").holding(pod("sibling")),
                node("n3", cpu="8").holding(pod("load", cpu="6", owner="ReplicaSet/other")),
            ),
            "n3",
            id="one without a pod of the same owner",
        ),
        pytest.param(
            cluster(
                node("n1", cpu="8").holding(pod("it", affinity=avoiding(WEB)), pod("l", cpu="7")),
                node("n2", cpu="8").holding(pod("w", labels=WEB, owner="ReplicaSet/other")),
                node("n3", cpu="8").holding(pod("x", cpu="4", owner="ReplicaSet/third")),
            ),
            "n3",
            id="one without those it would rather not meet",
        ),
        pytest.param(
            cluster(
                node("n1", zone="a", cpu="8").holding(
                    pod("it", labels=WEB, spread=[spread(labels=WEB, when="ScheduleAnyway")]),
                    pod("load", cpu="7", owner="ReplicaSet/other"),
                ),
                node("n2", zone="b", cpu="8").holding(pod("w", labels=WEB)),
                node("n3", zone="c", cpu="8").holding(pod("x", cpu="4", owner="ReplicaSet/third")),
            ),
            "n3",
            id="the smallest domain of a soft constraint",
        ),
    ],
)
def test_a_replacement_is_expected_on(world: World, lands_on: str) -> None:
    assert expected_node(world) == lands_on
