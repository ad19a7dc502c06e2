"""How a limit or a disruption budget would have to differ, in the words an operator reads."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.testing import budget, cluster, node, pod

from .builders import OURS, hints

EVERYTHING = {"maxPercentOfPodsToEvict": 100, "maxPercentOfNodesToEvictFrom": 100}
WEB = {"app": "web"}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(
            {"maxNoOfPodsToEvictTotal": 1},
            ["would move if `maxNoOfPodsToEvictTotal` were 3"],
            id="for the cycle",
        ),
        pytest.param(
            {"maxNoOfPodsToEvictPerNode": 1},
            ["would move if `maxNoOfPodsToEvictPerNode` were 2"],
            id="for its node",
        ),
        pytest.param(
            {"maxNoOfPodsToEvictPerNamespace": 2},
            ["would move if `maxNoOfPodsToEvictPerNamespace` were 3"],
            id="for its namespace",
        ),
        pytest.param(
            {"maxNoOfPodsToEvictTotal": 2, "maxNoOfPodsToEvictPerNode": 1},
            [
                "would move if `maxNoOfPodsToEvictTotal` were 3 and "
                "`maxNoOfPodsToEvictPerNode` were 2"
            ],
            id="two at once",
        ),
    ],
)
def test_a_limit_that_refuses_shows_how_high_it_would_have_to_be(
    limits: dict[str, Any], expected: list[str]
) -> None:
    world = cluster(
        node("n1").holding(pod("oldest", age="9d"), pod("it", age="1h")),
        node("n2").holding(pod("older", age="8d")),
    )

    assert hints(world, **limits) == expected


def test_a_share_that_refuses_is_raised_in_half_percents() -> None:
    held = [pod(f"p{i}", age="9d") for i in range(9)]
    world = cluster(node("n1").holding(*held, pod("it", age="1h")), node("n2"))
    limits: dict[str, Any] = EVERYTHING | {"maxPercentOfPodsToEvict": 50}

    assert hints(world, api_version=OURS, evictor={"minReplicas": 0}, **limits) == [
        "would move if `maxPercentOfPodsToEvict` were 90.5"
    ]


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        pytest.param(
            [budget("web", allowed=0, labels=WEB)],
            ["would move if budget default/web allowed one more disruption"],
            id="one more",
        ),
        pytest.param(
            [
                budget(
                    "web",
                    allowed=0,
                    labels=WEB,
                    status={"currentHealthy": 2, "desiredHealthy": 2},
                )
            ],
            [
                "would move if budget default/web allowed one more disruption, "
                "as it does with 1 more pod ready"
            ],
            id="one more, and what it takes",
        ),
        pytest.param(
            [
                budget(
                    "web",
                    allowed=1,
                    labels=WEB,
                    status={"observedGeneration": 1},
                )
                | {"metadata": {"name": "web", "namespace": "default", "generation": 2}}
            ],
            ["would move if the status of budget default/web had caught up with its spec"],
            id="once it has caught up",
        ),
        pytest.param(
            [budget("a", allowed=1, labels=WEB), budget("b", allowed=0, labels=WEB)],
            ["would move if default/a were the only budget that covers it"],
            id="with one budget in place of two",
        ),
    ],
)
def test_a_budget_that_refuses_shows_what_it_would_have_to_allow(
    budgets: list[dict[str, Any]], expected: list[str]
) -> None:
    world = cluster(node("n1").holding(pod("it", labels=WEB)), node("n2"), *budgets)

    assert hints(world) == expected
