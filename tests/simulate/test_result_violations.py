"""What is wrong with how pods lie, whatever a policy says."""

from __future__ import annotations

import pytest

from resettle.simulate.measures import violations
from resettle.testing import World, cluster, node, pod, spread

WEB = {"app": "web"}
NEAR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"app": "db"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
EVEN = [spread(labels=WEB)]


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        pytest.param(cluster(node("n1").holding(pod("a")), node("n2")), {}, id="all is well"),
        pytest.param(
            cluster(node("n1", taints=["old:NoSchedule"]).holding(pod("a"), pod("b"))),
            {"taints": 2},
            id="taints that are not tolerated",
        ),
        pytest.param(
            cluster(node("n1", taints=["old:PreferNoSchedule"]).holding(pod("a"))),
            {},
            id="soft taints are no rule",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("a", node_selector={"pool": "blue"}))),
            {"node affinity": 1},
            id="a node of the wrong kind",
        ),
        pytest.param(
            cluster(
                node("n1").holding(
                    pod("a", labels=WEB, away_from=WEB), pod("b", labels=WEB, away_from=WEB)
                )
            ),
            {"anti-affinity": 2},
            id="pods that keep apart from each other",
        ),
        pytest.param(
            cluster(
                node("n1").holding(pod("a", affinity=NEAR)),
                node("n2").holding(pod("b", labels={"app": "db"})),
            ),
            {"pod affinity": 1},
            id="a pod without the company it needs",
        ),
        pytest.param(
            cluster(
                node("n1", zone="a").holding(
                    pod("a", labels=WEB, spread=EVEN), pod("b", labels=WEB, spread=EVEN)
                ),
                node("n2", zone="b"),
            ),
            {"spread": 1},
            id="a spread rule out of balance counts once",
        ),
        pytest.param(
            cluster(node("n1"), pod("a", phase="Pending")), {"pending": 1}, id="a pod that waits"
        ),
        pytest.param(
            cluster(
                node("n1", taints=["old:NoSchedule"]).holding(
                    pod("a", phase="Succeeded"), pod("b", terminating=True)
                )
            ),
            {},
            id="finished and ending pods violate nothing",
        ),
    ],
)
def test_broken_rules_are_counted_by_kind(world: World, expected: dict[str, int]) -> None:
    assert violations(world.snapshot()) == expected
