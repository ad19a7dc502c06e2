"""The draft: three kinds of verdict, the order of checks, and what asking leaves behind."""

from __future__ import annotations

from typing import Any

import pytest

from resettle.framework import Draft, Limit, Limits, Plugin, Refusal
from resettle.framework.view import View
from resettle.testing import World, budget, cluster, node, pod
from tests.framework.harness import drawn, keeper, pod_named, proposing, verdicts, words

LOCAL = [{"name": "v", "emptyDir": {}}]


def two_nodes(*names: str, **settings: Any) -> World:
    return cluster(node("n1").holding(*(pod(name, **settings) for name in names)), node("n2"))


def test_an_admitted_pod_is_a_move_with_its_reason() -> None:
    plan = drawn(two_nodes("a"), proposing("a"))
    (verdict,) = verdicts(two_nodes("a"), "a")
    (move,) = plan.moves

    assert (verdict.admitted, verdict.is_leaving, verdict.refusal, verdict.limit) == (
        True,
        True,
        None,
        None,
    )
    assert (move.pod.key, move.plugin, move.profile, move.reason) == (
        "default/a",
        "Sweeper0",
        "it",
        "was asked",
    )


def test_a_pod_on_its_way_already_counts_as_gone_and_is_no_new_move() -> None:
    (verdict,) = verdicts(two_nodes("a"), "a", moving=["a"])

    assert (verdict.kind, verdict.admitted, verdict.is_leaving) == ("moving", False, True)
    assert drawn(two_nodes("a"), proposing("a"), moving=["a"]).moves == ()


def test_a_pod_on_its_way_is_asked_of_no_guard_and_spends_the_limits_just_once() -> None:
    world = two_nodes("a", "b", volumes=LOCAL)

    assert words(verdicts(world, "a", "a", moving=["a"], limits=Limits(total=1))) == ["moving"] * 2
    assert words(
        verdicts(two_nodes("a", "b"), "a", "a", "b", moving=["a"], limits=Limits(total=2))
    ) == ["moving", "moving", "admitted"]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        pytest.param(Limits(total=1), "limit-total", id="total"),
        pytest.param(Limits(node=1), "limit-node", id="node"),
        pytest.param(Limits(namespace=1), "limit-namespace", id="namespace"),
    ],
)
def test_pods_on_their_way_count_towards_every_limit(limits: Limits, code: str) -> None:
    assert words(verdicts(two_nodes("a", "b"), "b", moving=["a"], limits=limits)) == [code]


FROZEN = budget("frozen", allowed=0, labels={})


@pytest.mark.parametrize(
    ("world", "how", "code", "by", "sentence", "limit"),
    [
        pytest.param(
            two_nodes("a", volumes=LOCAL),
            {},
            "local-storage",
            "DefaultEvictor",
            "keeps data in local storage",
            None,
            id="DefaultEvictor",
        ),
        pytest.param(
            two_nodes("a"),
            {"guards": [keeper("a")]},
            "kept",
            "Keeper",
            "is kept here",
            None,
            id="a guard that does not sign is signed for",
        ),
        pytest.param(
            two_nodes("a"),
            {"guards": [keeper("a", by="the owner")]},
            "kept",
            "the owner",
            "is kept here",
            None,
            id="a guard that signs",
        ),
        pytest.param(
            two_nodes("a"),
            {"limits": Limits(total=0)},
            "limit-total",
            "limits",
            "the limit of 0 for this cycle is reached",
            Limit.TOTAL,
            id="total",
        ),
        pytest.param(
            two_nodes("a"),
            {"limits": Limits(node=0)},
            "limit-node",
            "limits",
            "the limit of 0 for node n1 is reached",
            Limit.NODE,
            id="node",
        ),
        pytest.param(
            two_nodes("a"),
            {"limits": Limits(namespace=0)},
            "limit-namespace",
            "limits",
            "the limit of 0 for namespace default is reached",
            Limit.NAMESPACE,
            id="namespace",
        ),
        pytest.param(
            cluster(node("n1").holding(pod("a")), node("n2"), FROZEN),
            {},
            "budget",
            "budget",
            "budget default/frozen allows no more disruptions now",
            None,
            id="budget",
        ),
    ],
)
def test_a_refusal_says_why_and_who_says_so(
    world: World, how: dict[str, Any], code: str, by: str, sentence: str, limit: Limit | None
) -> None:
    (verdict,) = verdicts(world, "a", **how)

    assert verdict.refusal is not None
    assert (verdict.refusal.code, verdict.refusal.by, verdict.refusal.sentence) == (
        code,
        by,
        sentence,
    )
    assert (verdict.limit, verdict.admitted, verdict.is_leaving) == (limit, False, False)


def test_facts_fill_the_sentence_of_a_refusal() -> None:
    assert Refusal("x", "needs {n} of {what}", facts={"n": 2, "what": "both"}).sentence == (
        "needs 2 of both"
    )
    assert Refusal("x", "says {nothing}").sentence == "says {nothing}"


@pytest.mark.parametrize(
    ("lifted", "code"),
    [
        pytest.param(0, "kept", id="filters"),
        pytest.param(1, "not-now", id="then pre-eviction filters"),
        pytest.param(2, "limit-total", id="then the total"),
        pytest.param(3, "limit-node", id="then the node"),
        pytest.param(4, "limit-namespace", id="then the namespace"),
        pytest.param(5, "budget", id="then budgets"),
        pytest.param(6, "admitted", id="and then it goes"),
    ],
)
def test_checks_come_in_a_fixed_order(lifted: int, code: str) -> None:
    """Everything stands in the way of the pod at first; one thing after the other is lifted."""
    later = keeper("a", code="not-now", point="preevictionfilter")
    guards = [*([keeper("a")] if lifted < 1 else []), *([later] if lifted < 2 else [])]
    limits = Limits(
        total=0 if lifted < 3 else None,
        node=0 if lifted < 4 else None,
        namespace=0 if lifted < 5 else None,
    )
    world = cluster(node("n1").holding(pod("a")), node("n2"), *([FROZEN] if lifted < 6 else []))

    assert words(verdicts(world, "a", guards=guards, limits=limits)) == [code]


def test_the_first_guard_to_object_gives_the_reason() -> None:
    guards = [keeper("b", code="first"), keeper("a", "b", code="second")]

    assert words(verdicts(two_nodes("a", "b"), "a", "b", guards=guards)) == ["second", "first"]


@pytest.mark.parametrize(
    ("limits", "answers"),
    [
        pytest.param(Limits(), ["admitted"] * 4, id="no limit"),
        pytest.param(
            Limits(total=2), ["admitted"] * 2 + ["limit-total"] * 2, id="two in the whole cycle"
        ),
        pytest.param(
            Limits(node=1), ["admitted", "limit-node", "admitted", "limit-node"], id="one of a node"
        ),
        pytest.param(
            Limits(namespace=1),
            ["admitted", "limit-namespace", "limit-namespace", "admitted"],
            id="one of a namespace",
        ),
        pytest.param(Limits(total=0, node=0, namespace=0), ["limit-total"] * 4, id="nothing goes"),
    ],
)
def test_limits_count_what_was_admitted(limits: Limits, answers: list[str]) -> None:
    world = cluster(
        node("n1").holding(pod("a"), pod("b")),
        node("n2").holding(pod("c"), pod("d", namespace="other")),
    )

    assert words(verdicts(world, "a", "b", "c", "other/d", limits=limits)) == answers


def test_a_refused_pod_spends_nothing() -> None:
    world = cluster(
        node("n1").holding(
            pod("kept", volumes=LOCAL), pod("frozen", labels={"x": "y"}), pod("free")
        ),
        node("n2"),
        budget("b", allowed=0, labels={"x": "y"}),
    )

    assert words(verdicts(world, "kept", "frozen", "free", limits=Limits(total=1))) == [
        "local-storage",
        "budget",
        "admitted",
    ]


def test_questions_leave_no_trace() -> None:
    """A thousand questions spend neither limits nor budgets, nor show in the account."""

    def ask(view: View, draft: Draft) -> None:
        for each_pod in view.pods * 500:
            assert draft.may_leave(each_pod)
            assert draft.could_go(each_pod)
            assert not draft.is_terminating(each_pod)

    world = cluster(
        node("n1").holding(pod("a"), pod("b")), node("n2"), budget("b", allowed=1, labels={})
    )
    plan = drawn(world, ask, proposing("a"), limits=Limits(total=1), watching=["default/a"])

    assert [move.pod.name for move in plan.moves] == ["a"]
    assert [run.proposed for run in plan.runs] == [0, 1]
    assert [note.plugin for note in plan.notes] == ["Sweeper1"]
    assert plan.errors == ()


@pytest.mark.parametrize(
    ("guard", "may_leave", "could_go"),
    [
        pytest.param(keeper("x"), True, True, id="no filter objects"),
        pytest.param(keeper("a"), False, False, id="a filter objects"),
        pytest.param(
            keeper("a", point="preevictionfilter"), True, False, id="a pre-eviction filter objects"
        ),
    ],
)
def test_could_go_asks_one_chain_more_than_may_leave(
    guard: Plugin, may_leave: bool, could_go: bool
) -> None:
    results: list[tuple[bool, bool]] = []

    def ask(view: View, draft: Draft) -> None:
        proposed = pod_named(view, "a")
        results.append((draft.may_leave(proposed), draft.could_go(proposed)))

    drawn(two_nodes("a"), ask, guards=[guard])

    assert results == [(may_leave, could_go)]


def test_limits_and_budgets_are_not_asked_about() -> None:
    results: list[bool] = []

    def ask(view: View, draft: Draft) -> None:
        results.append(draft.could_go(pod_named(view, "a")))

    drawn(cluster(node("n1").holding(pod("a")), node("n2"), FROZEN), ask, limits=Limits(total=0))

    assert results == [True]
