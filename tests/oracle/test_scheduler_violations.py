"""What the oracle finds broken in a cluster as it is."""

from __future__ import annotations

import pytest

from resettle.testing import NodeBuilder, node, pod, spread
from tests.oracle.objects import (
    DRIVER,
    ZONE,
    Object,
    away,
    bound_claim,
    container,
    csi_node,
    host_port,
    labelled,
    mounting,
    near,
    on_nodes,
    oracle,
    row,
    term,
    volume,
    where,
)

WEB = {"app": "web"}
APART = away(term(labelled(app="web")))
TOGETHER = near(term(labelled(app="db"), ZONE))
EVEN = spread(labels=WEB)
PORT = {"containers": [container("a", ports=[host_port(80)])]}
PORT_AND_ADDRESS = {
    "containers": [container("a", ports=[host_port(80), host_port(80, hostIP="10.0.0.1")])]
}


@pytest.mark.parametrize(
    ("parts", "broken"),
    [
        pytest.param([node("n1").holding(pod("a", cpu="1"))], set(), id="nothing"),
        pytest.param(
            [node("n1", labels={"x": "y"}).holding(pod("a", node_selector={"x": "y"}))],
            set(),
            id="a selector that is met",
        ),
        pytest.param(
            [node("n1").holding(pod("a", node_selector={"x": "y"}))],
            {"default/a: not on a node that it asks for"},
            id="a selector",
        ),
        pytest.param(
            [node("n1").holding(pod("a", affinity=on_nodes(where(row("x", "Exists")))))],
            {"default/a: not on a node that it asks for"},
            id="an affinity",
        ),
        pytest.param(
            [node("n1", taints=["x:NoSchedule"]).holding(pod("a"))],
            {"default/a: on a node with a taint that it does not tolerate"},
            id="a taint",
        ),
        pytest.param(
            [node("n1", taints=["x:PreferNoSchedule"]).holding(pod("a"))], set(), id="a soft taint"
        ),
        pytest.param(
            [node("n1", cpu="2").holding(pod("a", cpu="1"), pod("b", cpu="1"))], set(), id="full"
        ),
        pytest.param(
            [node("n1", cpu="2").holding(pod("a", cpu="1"), pod("b", cpu="1001m"))],
            {"node n1: too much of cpu"},
            id="more than full",
        ),
        pytest.param(
            [node("n1", pods=1).holding(pod("a"), pod("b"))],
            {"node n1: too much of pods"},
            id="too many pods",
        ),
        pytest.param(
            [node("n1", pods=1).holding(pod("a"), pod("b", phase="Failed"))],
            set(),
            id="a finished pod takes no room",
        ),
        pytest.param(
            [node("n1").holding(pod("a", spec=PORT), pod("b", spec=PORT))],
            {"node n1: too much of host port TCP/80"},
            id="a port twice",
        ),
        pytest.param(
            [node("n1").holding(pod("a", spec=PORT)), node("n2").holding(pod("b", spec=PORT))],
            set(),
            id="a port on each node",
        ),
        pytest.param(
            [node("n1").holding(pod("a", spec=PORT_AND_ADDRESS))],
            set(),
            id="what a pod opens twice itself",
        ),
        pytest.param(
            [node("n1").holding(pod("a", affinity=APART), pod("b", labels=WEB))],
            {"default/a: not kept away from default/b"},
            id="too near",
        ),
        pytest.param(
            [node("n1").holding(pod("a", affinity=APART), pod("b", labels=WEB, terminating=True))],
            {"default/a: not kept away from default/b"},
            id="too near until it is gone",
        ),
        pytest.param(
            [
                node("n1").holding(pod("a", affinity=APART)),
                node("n2").holding(pod("b", labels=WEB)),
            ],
            set(),
            id="far enough",
        ),
        pytest.param(
            [node("n1", zone="a").holding(pod("a", affinity=TOGETHER))],
            {f"default/a: not near those it wants in its {ZONE}"},
            id="no pod near",
        ),
        pytest.param(
            [
                node("n1", zone="a").holding(pod("a", affinity=TOGETHER)),
                node("n2", zone="a").holding(pod("b", labels={"app": "db"})),
            ],
            set(),
            id="a pod near",
        ),
        pytest.param(
            [node("n1", zone="a").holding(pod("a", affinity=TOGETHER, labels={"app": "db"}))],
            set(),
            id="alone of its own kind",
        ),
        pytest.param(
            [
                node("n1", zone="a").holding(
                    pod("a", labels=WEB, spread=[EVEN]), pod("b", labels=WEB)
                ),
                node("n2", zone="b"),
            ],
            {f"default/a: not spread over {ZONE} (rule 1)"},
            id="lopsided",
        ),
        pytest.param(
            [
                node("n1", zone="a").holding(
                    pod("a", labels=WEB, spread=[EVEN]), pod("b", labels=WEB, terminating=True)
                ),
                node("n2", zone="b"),
            ],
            set(),
            id="even without the pod that leaves",
        ),
        pytest.param(
            [
                node("n1", zone="a").holding(
                    pod("a", labels=WEB, spread=[{**EVEN, "minDomains": 2}]), pod("b", labels=WEB)
                )
            ],
            {f"default/a: not spread over {ZONE} (rule 1)"},
            id="too few domains",
        ),
        pytest.param(
            [
                node("n1", zone="b").holding(pod("a", volumes=mounting("data"))),
                bound_claim("data", "v"),
                volume("v", where(row(ZONE, "In", "a"))),
            ],
            {"default/a: volume v out of reach"},
            id="a volume elsewhere",
        ),
        pytest.param(
            [
                node("n1", zone="b").holding(pod("a", volumes=mounting("data"))),
                bound_claim("data", "v"),
                volume("v", labels={ZONE: "a"}),
            ],
            {"default/a: volume v out of reach"},
            id="a volume in another zone",
        ),
        pytest.param(
            [
                node("n1").holding(pod("a", volumes=mounting("data", "more"))),
                bound_claim("data", "v"),
                bound_claim("more", "w"),
                volume("v", handle="v"),
                volume("w", handle="w"),
                csi_node("n1", {DRIVER: 1}),
            ],
            {f"node n1: too much of {DRIVER}"},
            id="too many volumes",
        ),
        pytest.param(
            [node("n1").holding(pod("a", node_selector={"x": "y"}, terminating=True))],
            set(),
            id="what a pod on its way out wants",
        ),
        pytest.param(
            [node("n1"), pod("a", spec={"nodeName": "gone", "nodeSelector": {"x": "y"}})],
            set(),
            id="what a pod on an unknown node wants",
        ),
    ],
)
def test_what_does_not_hold_is_named(parts: list[NodeBuilder | Object], broken: set[str]) -> None:
    assert oracle(*parts).broken() == broken


def test_a_sentence_stays_the_same_while_its_constraint_is_broken() -> None:
    lonely = pod("a", affinity=TOGETHER, node_selector={"x": "y"}, spread=[EVEN])
    crowd = [pod(f"web-{i}", labels=WEB) for i in range(3)]
    asked = oracle(
        node("n1", zone="a").holding(lonely), node("n2", zone="b").holding(*crowd), node("n3")
    )
    before = asked.broken()
    asked.move("default/a", "n2")

    assert len(before) == 2
    assert asked.broken() == before


def test_a_move_repairs_what_it_should() -> None:
    pair = [pod(name, labels=WEB, affinity=APART) for name in ("a", "b")]
    asked = oracle(node("n1").holding(*pair), node("n2"))
    assert len(asked.broken()) == 2

    asked.move("default/b", "n2")

    assert asked.broken() == set()
    assert asked.refuses("default/b", "n1") == "default/a keeps such pods away"
