"""The draft over several turns: what later plugins see, notes, memory, needs and mishaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from resettle.errors import PolicyError
from resettle.framework import (
    Args,
    Descheduler,
    Draft,
    Limits,
    Plugin,
    PreparedFilter,
    Problem,
    Profile,
    Refusal,
    Stopped,
    summarize_node_utilization,
)
from resettle.framework.view import View
from resettle.model.measurements import METRICS_API
from resettle.model.pod import Pod
from resettle.model.semantics import IMPROVED, PARITY, Semantics
from resettle.testing import World, cluster, node, pod
from tests.framework.harness import (
    EVICT,
    EVICTOR,
    drawn,
    guarded_by,
    instance,
    pod_named,
    proposing,
    sweeper,
    verdicts,
    words,
)

LOCAL = [{"name": "v", "emptyDir": {}}]


def two_nodes(*names: str, **settings: Any) -> World:
    return cluster(node("n1").holding(*(pod(name, **settings) for name in names)), node("n2"))


def test_an_admitted_pod_looks_terminating_to_all_that_come_later() -> None:
    seen: list[tuple[bool, bool, bool]] = []

    def look(view: View, draft: Draft) -> None:
        seen_pod: Pod = pod_named(view, "a")
        seen.append(
            (draft.is_terminating(seen_pod), draft.may_leave(seen_pod), draft.could_go(seen_pod))
        )

    drawn(two_nodes("a"), look, proposing("a"), look)

    assert seen == [(False, True, True), (True, False, False)]


@pytest.mark.parametrize("semantics", [PARITY, IMPROVED], ids=["v1alpha2", "resettle"])
def test_no_pod_moves_twice(semantics: Semantics) -> None:
    again = proposing("plain", "marked", "plain", "marked")
    world = cluster(node("n1").holding(pod("plain"), pod("marked", annotations=EVICT)), node("n2"))
    plan = drawn(world, again, again, semantics=semantics)

    assert [move.pod.name for move in plan.moves] == ["plain", "marked"]


@pytest.mark.parametrize(
    ("marks", "semantics", "total", "answers"),
    [
        pytest.param(
            EVICT, PARITY, 2, ["moving", "limit-total"], id="v1alpha2: it spends the limit"
        ),
        pytest.param(EVICT, PARITY, 1, ["limit-total"] * 2, id="v1alpha2: it needs the limit too"),
        pytest.param(EVICT, IMPROVED, 2, ["moving", "admitted"], id="resettle: it spends nothing"),
        pytest.param(
            EVICT, IMPROVED, 1, ["moving", "limit-total"], id="resettle: it needs nothing"
        ),
        pytest.param({}, IMPROVED, 2, ["moving", "admitted"], id="resettle: nor does a plain pod"),
    ],
)
def test_a_pod_proposed_again_by_a_later_plugin(
    marks: dict[str, str], semantics: Semantics, total: int, answers: list[str]
) -> None:
    world = cluster(node("n1").holding(pod("a", annotations=marks), pod("b")), node("n2"))
    results: list[Any] = []
    drawn(
        world,
        proposing("a"),
        proposing("a", "b", into=results),
        semantics=semantics,
        limits=Limits(total=total),
    )

    assert words(results) == answers


def test_a_plain_pod_proposed_again_by_a_later_plugin_is_refused_and_spends_nothing() -> None:
    results: list[Any] = []
    drawn(
        two_nodes("a", "b"),
        proposing("a"),
        proposing("a", "b", into=results),
        limits=Limits(total=2),
    )

    assert words(results) == ["already-planned", "admitted"]


@pytest.mark.parametrize(
    ("semantics", "answers"),
    [
        pytest.param(PARITY, ["admitted", "moving", "limit-total"], id="v1alpha2: it spends"),
        pytest.param(IMPROVED, ["admitted", "moving", "admitted"], id="resettle: it does not"),
    ],
)
def test_a_pod_proposed_again_in_one_turn(semantics: Semantics, answers: list[str]) -> None:
    world = two_nodes("a", "b")

    assert (
        words(verdicts(world, "a", "a", "b", semantics=semantics, limits=Limits(total=2)))
        == answers
    )


def test_the_account_of_a_turn_adds_up() -> None:
    def sweep(view: View, draft: Draft) -> Stopped:
        proposing("a", "kept", "moving", "b")(view, draft)
        return Stopped("done", "is done")

    world = cluster(
        node("n1").holding(pod("a"), pod("b"), pod("kept", volumes=LOCAL), pod("moving")),
        node("n2"),
    )
    (run,) = drawn(world, sweep, moving=["moving"], limits=Limits(total=2), guards=[EVICTOR]).runs

    assert (run.profile, run.plugin, run.point) == ("it", "Sweeper0", "deschedule")
    assert (run.proposed, run.admitted, run.already_moving) == (4, 1, 1)
    assert run.refused == {"limit-total": 1, "local-storage": 1}
    assert run.stopped == Stopped("done", "is done")
    assert run.error == ""


# -- notes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watching", "noted"),
    [
        pytest.param([], [], id="nothing is watched"),
        pytest.param(
            ["default/a"],
            [("default/a", "admitted", "was asked")],
            id="an admitted pod, its reason",
        ),
        pytest.param(
            ["default/kept"],
            [("default/kept", "local-storage", "was asked, but keeps data in local storage")],
            id="a refused pod, reason and refusal",
        ),
        pytest.param(
            ["default/moving"], [("default/moving", "moving", "was asked")], id="one on its way"
        ),
        pytest.param(["n1"], [("n1", "seen", "is a node")], id="a node"),
        pytest.param(["a", "default/n1", "other/a"], [], id="other names"),
        pytest.param(
            ["n1", "default/a"],
            [("n1", "seen", "is a node"), ("default/a", "admitted", "was asked")],
            id="several, in the order of events",
        ),
    ],
)
def test_notes_are_kept_for_what_is_watched(
    watching: list[str], noted: list[tuple[str, str, str]]
) -> None:
    def sweep(view: View, draft: Draft) -> None:
        for each_node in view.nodes:
            draft.note(each_node, "seen", "is a node")
        proposing("a", "kept", "moving")(view, draft)

    world = cluster(
        node("n1").holding(pod("a"), pod("kept", volumes=LOCAL), pod("moving")), node("n2")
    )
    plan = drawn(world, sweep, moving=["moving"], watching=watching)

    assert [(note.subject, note.code, note.says) for note in plan.notes] == noted
    assert {(note.profile, note.plugin) for note in plan.notes} <= {("it", "Sweeper0")}


def test_watching_changes_no_decision() -> None:
    sweep = proposing("a", "b")
    unwatched = drawn(two_nodes("a", "b"), sweep, limits=Limits(total=1))
    watched = drawn(
        two_nodes("a", "b"), sweep, limits=Limits(total=1), watching=["default/a", "n1"]
    )

    assert [move.pod.name for move in watched.moves] == [move.pod.name for move in unwatched.moves]
    assert watched.runs == unwatched.runs


def test_a_survey_goes_with_the_account_of_its_turn_and_decides_nothing() -> None:
    def looking(view: View, draft: Draft) -> None:
        draft.record_utilization(
            summarize_node_utilization({"over": view.nodes}, {}, low={}, high={"cpu": 50.0})
        )
        proposing("a")(view, draft)

    plain = drawn(two_nodes("a"), proposing("a"))
    surveyed = drawn(two_nodes("a"), looking, proposing("a"))

    assert (
        [move.pod.name for move in surveyed.moves]
        == [move.pod.name for move in plain.moves]
        == ["a"]
    )
    (survey,) = surveyed.runs[0].utilization_summaries
    assert (survey.bands, survey.high) == ({"over": ("n1", "n2")}, {"cpu": 50.0})
    assert surveyed.runs[1].utilization_summaries == ()


# -- memory ---------------------------------------------------------------------------------------


def test_a_plugin_recalls_what_it_remembered_in_the_cycle_before() -> None:
    results: list[Any] = []

    def count(view: View, draft: Draft) -> None:
        results.append(draft.recall())
        draft.remember((draft.recall() or 0) + 1)

    history: Any = {}
    for _ in range(3):
        history = drawn(two_nodes("a"), count, history=history).history

    assert results == [None, 1, 2]
    assert history == {("it", "Sweeper0"): 3}


def test_every_plugin_of_every_profile_has_its_own_memory() -> None:
    results: list[Any] = []

    def keep(view: View, draft: Draft) -> None:
        results.append(draft.recall())

    history = {("it", "Sweeper1"): "mine", ("other", "Sweeper0"): "another profile's"}
    plan = drawn(two_nodes("a"), keep, keep, history=history)

    assert results == [None, "mine"]
    assert plan.history == {}


# -- what plugins read and need -------------------------------------------------------------------


def idle(view: View, draft: Draft) -> None:
    """Does nothing."""


def profile_of(*plugins: Plugin, name: str = "it") -> Profile:
    return guarded_by(EVICTOR, name=name, deschedule=tuple(map(instance, plugins)))


def test_what_is_read_is_declared() -> None:
    keeper = sweeper(idle, "Keeper", reads=lambda args: frozenset({"history"}))
    weather = sweeper(idle, "Weather", reads=lambda args: frozenset({"Forecast"}))

    assert Descheduler(profiles=()).reads == {"PodDisruptionBudget"}
    assert Descheduler(profiles=(profile_of(keeper), profile_of(weather))).reads == {
        "PodDisruptionBudget",
        "history",
        "Forecast",
    }


def test_what_is_measured_is_declared_once() -> None:
    metered = sweeper(idle, "Metered", measures=lambda args: frozenset({METRICS_API}))

    assert Descheduler(profiles=()).measures == frozenset()
    assert Descheduler(profiles=(profile_of(metered), profile_of(metered, name="b"))).measures == {
        METRICS_API
    }


def test_cautions_name_profile_and_plugin_once() -> None:
    loud = sweeper(idle, "Loud", cautions=lambda args, semantics: iter(["mind the step"]))

    assert Descheduler(profiles=(profile_of(loud, loud), profile_of(loud, name="b"))).cautions == (
        "profile it: Loud: mind the step",
        "profile b: Loud: mind the step",
    )


@pytest.mark.parametrize("world", [two_nodes("a"), cluster(node("only"))], ids=["two nodes", "one"])
def test_unmet_needs_end_the_cycle_with_all_of_them(world: World) -> None:
    ran: list[str] = []

    def lacks(args: Args, view: View) -> Iterator[Problem]:
        yield Problem(what="there is no forecast", fix="install a barometer")
        yield Problem(what="there is no map")

    needy = sweeper(lambda view, draft: ran.append("needy"), "Needy", needs=lacks)
    other = sweeper(lambda view, draft: ran.append("other"), "Other")
    descheduler = Descheduler(profiles=(profile_of(other), profile_of(needy, name="b")))

    with pytest.raises(PolicyError) as caught:
        descheduler.draw_plan(world.snapshot())
    assert str(caught.value).splitlines()[1:] == [
        "profile b: Needy: there is no forecast; install a barometer",
        "profile b: Needy: there is no map",
    ]
    assert ran == []


# -- mishaps --------------------------------------------------------------------------------------


def test_a_plugin_that_raises_costs_only_the_rest_of_its_turn() -> None:
    def trip(view: View, draft: Draft) -> None:
        proposing("a")(view, draft)
        raise ValueError("fell over")

    plan = drawn(two_nodes("a", "b"), trip, proposing("b"))

    assert [move.pod.name for move in plan.moves] == ["a", "b"]
    assert plan.errors == ("Sweeper0 in profile it: ValueError: fell over",)
    assert [run.admitted for run in plan.runs] == [1, 1]


def test_a_guard_that_raises_refuses_the_pod_it_was_asked_about() -> None:
    def brittle(args: Args, view: View, pod: Pod) -> Refusal | None:
        if pod.name == "bad":
            raise KeyError("no such thing")
        return None

    guard = Plugin(name="Brittle", filter=brittle)
    world = two_nodes("a", "bad", "b", "c")
    plan = drawn(world, proposing("a", "bad", "b"), proposing("c"), guards=[guard])

    assert [move.pod.name for move in plan.moves] == ["a", "b", "c"]
    assert [run.refused for run in plan.runs] == [{"guard-failed": 1}, {}]
    assert [run.error for run in plan.runs] == ["", ""]
    assert plan.errors == (
        "Sweeper0 in profile it: Brittle could not answer: KeyError: 'no such thing'",
    )


def test_a_guard_that_cannot_be_prepared_refuses_every_pod() -> None:
    def unready(args: Args, view: View) -> None:
        raise KeyError("no such thing")

    guard = Plugin(name="Unready", filter=PreparedFilter(unready, lambda made, pod: None))
    plan = drawn(two_nodes("a", "b"), proposing("a", "b"), guards=[guard])

    assert plan.moves == ()
    assert plan.refused == {"guard-failed": 2}
    assert plan.errors == (
        "Sweeper0 in profile it: Unready could not answer: KeyError: 'no such thing'",
    )


@pytest.mark.parametrize("answer", [True, False, "no", 0], ids=repr)
def test_a_guard_that_answers_nonsense_refuses_the_pod(answer: Any) -> None:
    guard = Plugin(name="Yes", filter=lambda args, view, pod: answer)
    plan = drawn(two_nodes("a"), proposing("a"), guards=[guard])

    assert plan.moves == ()
    assert plan.refused == {"guard-failed": 1}
    assert len(plan.errors) == 1
