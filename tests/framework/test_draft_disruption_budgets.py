"""Disruption budgets, debited as the API server would when it is asked to evict."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.framework import Limits
from resettle.testing import budget, cluster, node, pod
from resettle.testing.builders import Object
from tests.framework.harness import drawn, proposing, verdicts, words

WEB = {"app": "web"}
LAGGING = {"metadata": {"name": "web", "namespace": "default", "generation": 2}}
UNREADY = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
UNCERTAIN = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
ALWAYS = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}
IF_HEALTHY = {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}


def web_budget(allowed: int, **more: Any) -> Object:
    return budget("web", **{"allowed": allowed, "labels": WEB, **more})


def healthy(current: int, desired: int) -> dict[str, int]:
    return {"currentHealthy": current, "desiredHealthy": desired}


def answers(budgets: list[Object], *pods: dict[str, Any]) -> list[str]:
    """What comes of proposing a pod of each make, one after the other, with no guard about."""
    names = [f"p{i}" for i in range(len(pods))]
    held = [pod(name, **{"labels": WEB, **make}) for name, make in zip(names, pods, strict=True)]
    world = cluster(node("n1").holding(*held), node("n2"), *budgets)
    return words(verdicts(world, *names, guards=[]))


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        pytest.param(0, ["budget"] * 3, id="none"),
        pytest.param(1, ["admitted", "budget", "budget"], id="one"),
        pytest.param(2, ["admitted", "admitted", "budget"], id="two"),
        pytest.param(3, ["admitted"] * 3, id="all"),
        pytest.param(-1, ["budget"] * 3, id="less than none"),
    ],
)
def test_a_budget_pays_for_as_many_as_it_allows(allowed: int, expected: list[str]) -> None:
    assert answers([web_budget(allowed)], {}, {}, {}) == expected


@pytest.mark.parametrize(
    "free",
    [
        pytest.param({"phase": "Pending"}, id="not running yet"),
        pytest.param({"phase": "Succeeded"}, id="succeeded"),
        pytest.param({"phase": "Failed"}, id="failed"),
        pytest.param({"terminating": True}, id="terminating"),
    ],
)
@pytest.mark.parametrize(
    "budgets",
    [
        pytest.param([web_budget(0)], id="spent"),
        pytest.param([{**web_budget(5), **LAGGING}], id="lagging"),
        pytest.param([web_budget(0), budget("too", allowed=0, labels={})], id="two of them"),
    ],
)
def test_pods_that_serve_no_traffic_are_free(free: dict[str, Any], budgets: list[Object]) -> None:
    assert answers(budgets, free) == ["admitted"]


def test_a_free_pod_leaves_the_budget_to_others() -> None:
    assert answers([web_budget(1)], {"phase": "Pending"}, {}, {}) == [
        "admitted",
        "admitted",
        "budget",
    ]


@pytest.mark.parametrize(
    ("spec", "status", "free"),
    [
        pytest.param({}, healthy(3, 3), True, id="a healthy budget lets it go"),
        pytest.param(IF_HEALTHY, healthy(4, 3), True, id="the same, said aloud"),
        pytest.param({}, healthy(2, 3), False, id="one short of the healthy ones it desires"),
        pytest.param({}, healthy(0, 0), False, id="a budget that desires none"),
        pytest.param({}, {}, False, id="a budget that does not say"),
        pytest.param(ALWAYS, healthy(0, 3), True, id="AlwaysAllow in any health"),
        pytest.param(ALWAYS, {}, True, id="AlwaysAllow with no word about health"),
    ],
)
@pytest.mark.parametrize(
    "unready",
    [
        pytest.param(UNREADY, id="not ready"),
        pytest.param(UNCERTAIN, id="perhaps ready"),
        pytest.param({"status": {"conditions": []}}, id="no word of readiness"),
    ],
)
def test_an_unready_pod_is_free_or_pays_as_the_budget_says(
    unready: dict[str, Any], spec: dict[str, Any], status: dict[str, int], free: bool
) -> None:
    spent = web_budget(0, spec=spec, status=status)
    single = web_budget(1, spec=spec, status=status)

    assert answers([spent], unready) == (["admitted"] if free else ["budget"])
    # Where it pays, it takes the one disruption that the ready pod would have needed.
    assert answers([single], unready, {}) == ["admitted", "admitted" if free else "budget"]


def test_a_ready_pod_pays_whatever_the_policy_for_unready_ones() -> None:
    assert answers([web_budget(0, spec=ALWAYS, status=healthy(3, 3))], {}) == ["budget"]


@pytest.mark.parametrize("make", [{}, UNREADY], ids=["ready", "unready"])
def test_two_budgets_refuse_even_when_both_would_allow(make: dict[str, Any]) -> None:
    second = budget("all", allowed=9, labels={}, spec=ALWAYS)
    world = cluster(
        node("n1").holding(pod("p", labels=WEB, **make)),
        node("n2"),
        web_budget(9, spec=ALWAYS),
        second,
    )
    (verdict,) = verdicts(world, "p")

    assert verdict.refusal is not None
    assert verdict.refusal.code == "several-budgets"
    assert "(default/all, default/web)" in verdict.refusal.sentence


@pytest.mark.parametrize(
    ("observed", "make", "expected"),
    [
        pytest.param(1, {}, "budget-not-ready", id="the status lags"),
        pytest.param(2, {}, "admitted", id="the status is of this spec"),
        pytest.param(3, {}, "admitted", id="the status is ahead"),
        pytest.param(1, UNREADY, "admitted", id="a pod that is free does not wait for it"),
    ],
)
def test_a_budget_whose_status_lags_refuses(
    observed: int, make: dict[str, Any], expected: str
) -> None:
    status = {"observedGeneration": observed, **healthy(3, 3)}

    assert answers([{**web_budget(9, status=status), **LAGGING}], make) == [expected]


@pytest.mark.parametrize(
    ("selector", "namespace", "expected"),
    [
        pytest.param({"matchLabels": WEB}, "default", "budget", id="by label"),
        pytest.param({"matchLabels": {"app": "db"}}, "default", "admitted", id="another label"),
        pytest.param({}, "default", "budget", id="an empty selector covers all"),
        pytest.param(None, "default", "admitted", id="no selector covers none"),
        pytest.param({}, "other", "admitted", id="another namespace"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
            "default",
            "budget",
            id="by expression",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "Resembles"}]},
            "default",
            "admitted",
            id="an unreadable selector covers none",
        ),
    ],
)
def test_which_pods_a_budget_covers(
    selector: dict[str, Any] | None, namespace: str, expected: str
) -> None:
    covering = budget("it", allowed=0, labels={}, namespace=namespace)
    covering["spec"]["selector"] = selector

    assert answers([covering], {}) == [expected]


def test_a_budget_is_one_for_all_plugins() -> None:
    world = cluster(
        node("n1").holding(pod("a", labels=WEB), pod("b", labels=WEB)), node("n2"), web_budget(1)
    )
    plan = drawn(world, proposing("a"), proposing("b"))

    assert [move.pod.name for move in plan.moves] == ["a"]
    assert [run.refused for run in plan.runs] == [{}, {"budget": 1}]


def test_a_pod_that_a_limit_refuses_spends_no_budget() -> None:
    world = cluster(
        node("n1").holding(pod("a"), pod("b", labels=WEB)),
        node("n2").holding(pod("c", labels=WEB)),
        web_budget(1),
    )

    assert words(verdicts(world, "a", "b", "c", limits=Limits(node=1))) == [
        "admitted",
        "limit-node",
        "admitted",
    ]
