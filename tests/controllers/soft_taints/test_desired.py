"""Which soft taints each node should have."""

from __future__ import annotations

import pytest

from resettle.controllers.soft_taints.desired import no_taints
from resettle.model.constraints import Taint
from resettle.model.objects import Node
from resettle.model.selectors import parse_selector
from resettle.utilization.bands import BandLimits as Lines
from tests.controllers.soft_taints.builders import (
    APPROPRIATE,
    FIRST,
    LEVELS,
    OVER,
    SECOND,
    THIRD,
    node,
    off_mean,
    scheme,
    static,
    taints,
    view_of,
    wanted,
)

TEN_OFF, UP_ONLY, MEDIUM = off_mean(10, 10), off_mean(0, 10), static(20, 50)
NONE: tuple[()] = ()
CALM, BOTH = (APPROPRIATE,), (APPROPRIATE, OVER)


def used(*shares: float, cordoned: tuple[int, ...] = ()) -> dict[Node, float | None]:
    return {node(f"n{i}", unschedulable=i in cordoned): share for i, share in enumerate(shares)}


@pytest.mark.parametrize(
    ("use", "lines", "marks"),
    [
        pytest.param(used(10, 50, 90), TEN_OFF, [NONE, CALM, BOTH], id="ten off the mean"),
        pytest.param(used(10, 50, 90), UP_ONLY, [NONE, NONE, BOTH], id="under up to the mean"),
        pytest.param(used(10, 50, 90), MEDIUM, [NONE, CALM, BOTH], id="at percentages"),
        pytest.param(
            used(10, 50, 90, cordoned=(0,)), TEN_OFF, [NONE, NONE, BOTH], id="no node is under"
        ),
        pytest.param(used(10, 10, 10), TEN_OFF, [NONE] * 3, id="all alike and empty"),
        pytest.param(used(90, 90, 90), TEN_OFF, [NONE] * 3, id="all alike and full"),
        pytest.param(used(95, 97, 99), TEN_OFF, [NONE] * 3, id="no line above 100"),
        pytest.param(used(0, 0, 30), off_mean(20, 20), [NONE, NONE, CALM], id="nor below 0"),
        pytest.param(used(90), MEDIUM, [BOTH], id="the only node"),
        pytest.param(used(36, 35, 0), UP_ONLY, [BOTH, BOTH, NONE], id="two above"),
    ],
)
@pytest.mark.parametrize("style", ["OpenShift", "Levels"])
def test_a_node_is_marked_by_its_band(
    use: dict[Node, float | None], lines: Lines, marks: list[tuple[object, ...]], style: str
) -> None:
    desired_taints = taints(wanted(use, lines, scheme(style=style)))

    if style == "Levels":
        marks = [(FIRST,) if mark == BOTH else NONE for mark in marks]
    assert list(desired_taints.values()) == marks


def test_the_fuller_a_node_the_more_taints_it_has() -> None:
    use = used(10, 51, 84, 88)

    linear = taints(wanted(use, MEDIUM, scheme(levels=3)))
    exponential = taints(wanted(use, MEDIUM, scheme(levels=3, scale="Exponential")))

    assert list(linear.values()) == [NONE, (FIRST,), LEVELS, LEVELS]
    assert list(exponential.values()) == [NONE, (FIRST,), (FIRST, SECOND), LEVELS]


def test_no_two_taints_of_a_node_share_a_key() -> None:
    (marks,) = taints(wanted(used(100), MEDIUM, scheme(levels=10))).values()

    assert len({mark.key for mark in marks}) == 10
    assert {mark.effect for mark in marks} == {"PreferNoSchedule"}


# -- doubt ---------------------------------------------------------------------------------------


def test_who_was_not_measured_keeps_what_it_has() -> None:
    use = {node("marked", *LEVELS): None, node("plain"): None, node("hot"): 90.0}

    desired_taints = wanted(use, MEDIUM, scheme())

    assert taints(desired_taints) == {"hot": (FIRST,), "marked": LEVELS, "plain": NONE}
    assert {
        name: desired.problem for name, desired in desired_taints.items() if desired.problem
    } == {
        "marked": "usage-stale",
        "plain": "usage-stale",
    }
    assert desired_taints["marked"].because == "marked has a figure that is an hour old"


def test_who_is_not_ready_keeps_what_it_has_while_it_is_selected() -> None:
    lost = [
        node("lost", FIRST, ready=False, labels={"pool": "a"}),
        node("lost-elsewhere", FIRST, ready=False),
    ]
    hot = node("hot", labels={"pool": "a"})

    desired_taints = wanted(
        {hot: 90.0}, MEDIUM, scheme(), others=lost, selector=parse_selector("pool=a")
    )

    assert taints(desired_taints) == {"hot": (FIRST,), "lost": (FIRST,), "lost-elsewhere": NONE}


def test_who_has_left_the_selector_is_cleaned() -> None:
    desired_taints = wanted(
        {node("in", labels={"pool": "a"}): 90.0},
        MEDIUM,
        scheme(),
        others=[node("left", FIRST)],
        selector=parse_selector("pool=a"),
    )

    assert taints(desired_taints)["left"] == NONE


def test_nothing_is_wanted_of_anybody_while_only_removing() -> None:
    desired_taints = no_taints(view_of([node("a", FIRST), node("b")]), "asked to")

    assert taints(desired_taints) == {"a": NONE, "b": NONE}


# -- margin --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "marks"),
    [
        pytest.param(51, (FIRST,), id="over"),
        pytest.param(50, (FIRST,), id="on the line"),
        pytest.param(45.1, (FIRST,), id="within the margin"),
        pytest.param(45, NONE, id="below it"),
        pytest.param(20, NONE, id="under"),
    ],
)
def test_a_mark_stays_until_use_has_fallen_by_the_margin(
    share: float, marks: tuple[object, ...]
) -> None:
    desired_taints = wanted({node("was-over", FIRST): share}, MEDIUM, scheme(release_margin=5))

    assert taints(desired_taints)["was-over"] == marks


def test_no_node_is_marked_for_being_within_the_margin() -> None:
    desired_taints = wanted({node("never-over"): 49.0}, MEDIUM, scheme(release_margin=5))

    assert taints(desired_taints)["never-over"] == NONE


def test_who_is_under_is_marked_no_more_whatever_the_margin() -> None:
    desired_taints = wanted({node("cool", FIRST): 19.0}, MEDIUM, scheme(release_margin=90))

    assert taints(desired_taints)["cool"] == NONE


@pytest.mark.parametrize(
    ("had", "share", "marks"),
    [
        pytest.param(LEVELS, 80, LEVELS, id="within the margin of the third"),
        pytest.param((FIRST, SECOND), 80, (FIRST, SECOND), id="never rises by it"),
        pytest.param(LEVELS, 73, (FIRST, SECOND), id="down to the second"),
        pytest.param(LEVELS, 30, NONE, id="straight to none"),
        pytest.param((FIRST,), 99, LEVELS, id="up at once"),
    ],
)
def test_each_level_has_the_margin(
    had: tuple[Taint, ...], share: float, marks: tuple[object, ...]
) -> None:
    desired_taints = wanted({node("n", *had): share}, MEDIUM, scheme(levels=3, release_margin=5))

    assert taints(desired_taints)["n"] == marks


def test_the_margin_holds_in_the_other_style_too() -> None:
    use = {node("was-over", *BOTH): 47.0, node("empty"): 5.0}

    assert taints(wanted(use, MEDIUM, scheme(style="OpenShift", release_margin=5))) == {
        "empty": NONE,
        "was-over": BOTH,
    }


# -- cap -----------------------------------------------------------------------------------------


def test_a_cap_lets_the_fullest_have_the_marks() -> None:
    desired_taints = wanted(used(60, 90, 70, 80, 10), MEDIUM, scheme(max_percent_of_nodes=40))

    assert [name for name, desired in desired_taints.items() if desired.taints] == ["n1", "n3"]
    assert desired_taints["n0"].because.endswith("enough others are fuller")


def test_a_cap_is_rounded_up_so_that_one_is_always_allowed() -> None:
    desired_taints = wanted(used(60, 90, 10), MEDIUM, scheme(max_percent_of_nodes=1))

    assert [name for name, desired in desired_taints.items() if desired.taints] == ["n1"]


def test_equally_full_nodes_take_turns_by_name_and_so_never_flap() -> None:
    desired_taints = wanted(used(90, 90, 90), MEDIUM, scheme(max_percent_of_nodes=50))

    assert [name for name, desired in desired_taints.items() if desired.taints] == ["n0", "n1"]


def test_who_is_marked_stays_ahead_of_others_by_the_margin() -> None:
    use = {node("a", FIRST): 80.0, node("b"): 82.0, node("c"): 5.0}

    narrow = wanted(use, MEDIUM, scheme(max_percent_of_nodes=30, release_margin=1))
    wide = wanted(use, MEDIUM, scheme(max_percent_of_nodes=30, release_margin=5))

    assert [name for name, desired in narrow.items() if desired.taints] == ["b"]
    assert [name for name, desired in wide.items() if desired.taints] == ["a"]


def test_marks_kept_in_doubt_count_against_the_cap() -> None:
    use = {node("lost", FIRST): None, node("a"): 80.0, node("b"): 90.0}

    desired_taints = wanted(use, MEDIUM, scheme(max_percent_of_nodes=50))

    assert taints(desired_taints) == {"a": NONE, "b": (FIRST,), "lost": (FIRST,)}


def test_beyond_the_cap_a_node_is_as_good_as_appropriate() -> None:
    desired_taints = wanted(
        used(60, 90, 5), MEDIUM, scheme(style="OpenShift", max_percent_of_nodes=30)
    )

    assert list(taints(desired_taints).values()) == [CALM, BOTH, NONE]


def test_levels_that_are_no_longer_in_use_do_not_stay() -> None:
    desired_taints = wanted({node("n", *LEVELS): 99.0}, MEDIUM, scheme(levels=2, release_margin=5))

    assert taints(desired_taints)["n"] == (FIRST, SECOND)
    assert THIRD not in taints(desired_taints)["n"]
