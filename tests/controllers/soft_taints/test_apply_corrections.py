"""What is to be written, node by node, and what stays as it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resettle.controllers.soft_taints.apply import TaintPatch, patched_taints, patches_for
from resettle.controllers.soft_taints.desired import ALL_STYLES, DesiredTaints, OwnTaints
from resettle.model.constraints import Taint
from tests.controllers.soft_taints.builders import (
    APPROPRIATE,
    FIRST,
    KUBERNETES,
    OVER,
    SECOND,
    node,
    scheme,
    snapshot_of,
)

OURS = scheme().ours
HARD = {"key": FIRST.key, "value": "level1", "effect": "NoSchedule"}
GPU = {"key": "gpu", "effect": "NoSchedule"}
SLOW = {"key": "slow", "value": "yes", "effect": "PreferNoSchedule"}
LOST = {"key": "lost", "effect": "NoExecute", "timeAdded": "2026-01-31T11:00:00Z"}


def written(*taints: Taint) -> list[dict[str, Any]]:
    return [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints]


def patch(*wanted: Taint, ours: OwnTaints = OURS) -> TaintPatch:
    return TaintPatch(node="n", wanted=wanted, before=(), ours=ours)


def test_only_nodes_that_differ_are_patched() -> None:
    taken = snapshot_of([node("right", FIRST), node("bare"), node("wrong", SECOND)])
    desired = {
        name: DesiredTaints(taints=(FIRST,), because="hot") for name in ("right", "bare", "wrong")
    }

    patches = patches_for(taken, desired, OURS)

    assert [patch.node for patch in patches] == ["bare", "wrong"]
    assert patches[1].added == [FIRST]
    assert patches[1].removed == [SECOND]


def test_what_is_so_already_takes_no_patch_whatever_its_order() -> None:
    taken = snapshot_of([node("n", SECOND, FIRST)])

    assert patches_for(taken, {"n": DesiredTaints(taints=(FIRST, SECOND), because="")}, OURS) == []


def test_a_value_that_drifted_is_put_right() -> None:
    drifted = Taint(FIRST.key, FIRST.effect, "level9")

    (patch,) = patches_for(
        snapshot_of([node("n", drifted)]), {"n": DesiredTaints(taints=(FIRST,), because="")}, OURS
    )

    assert (patch.added, patch.removed) == ([FIRST], [])


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(Taint(FIRST.key, "NoSchedule", "level1"), id="our key with another effect"),
        pytest.param(Taint(f"{KUBERNETES}/else", FIRST.effect), id="our prefix, another name"),
        pytest.param(Taint(f"x-{FIRST.key}", FIRST.effect), id="a longer prefix"),
        pytest.param(Taint("overutilized", FIRST.effect), id="no prefix"),
        pytest.param(Taint(f"{FIRST.key}-0", FIRST.effect), id="no such level"),
        pytest.param(Taint(f"{FIRST.key}-2x", FIRST.effect), id="more than a level"),
        pytest.param(OVER, id="the prefix of the other style"),
    ],
)
def test_what_is_not_ours_is_no_reason_to_write(foreign: Taint) -> None:
    assert (
        patches_for(snapshot_of([node("n", foreign)]), {"n": DesiredTaints(because="")}, OURS) == []
    )


def test_clean_up_knows_the_taints_of_both_styles() -> None:
    taken = snapshot_of([node("n", FIRST, APPROPRIATE, OVER)])

    (patch,) = patches_for(taken, {"n": DesiredTaints(because="")}, ALL_STYLES)

    assert patch.removed == [FIRST, APPROPRIATE, OVER]


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        pytest.param([GPU, LOST], [FIRST], [GPU, LOST, *written(FIRST)], id="a new one comes last"),
        pytest.param(
            [GPU, *written(FIRST), LOST],
            [FIRST, SECOND],
            [GPU, *written(FIRST), LOST, *written(SECOND)],
            id="one that stays keeps its place",
        ),
        pytest.param([*written(FIRST), GPU, *written(SECOND)], [], [GPU], id="ours go"),
        pytest.param(
            [{**written(FIRST)[0], "value": "level7"}, GPU],
            [FIRST],
            [*written(FIRST), GPU],
            id="a value is put right in its place",
        ),
        pytest.param([HARD, SLOW], [], [HARD, SLOW], id="a hard one under our key is not ours"),
        pytest.param([HARD], [FIRST], [HARD, *written(FIRST)], id="and stands beside the soft one"),
        pytest.param(
            [{**written(FIRST)[0], "timeAdded": "2026-01-31T11:00:00Z"}],
            [FIRST],
            [{**written(FIRST)[0], "timeAdded": "2026-01-31T11:00:00Z"}],
            id="even the time of ours stays",
        ),
    ],
)
def test_other_taints_stay_as_and_where_they_are(
    before: list[dict[str, Any]], wanted: list[Taint], after: list[dict[str, Any]]
) -> None:
    assert patched_taints(before, patch(*wanted)) == after


TAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from([FIRST.key, SECOND.key, OVER.key, "gpu", "slow"]),
            "value": st.sampled_from(["level1", "level2", "x"]),
            "effect": st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
        }
    ),
    unique_by=lambda taint: (taint["key"], taint["effect"]),
)
WANTED = st.sampled_from([(), (FIRST,), (FIRST, SECOND)])


@given(before=TAINTS, wanted=WANTED)
def test_whatever_a_node_has_others_stay_in_order_and_ours_are_as_wanted(
    before: list[dict[str, Any]], wanted: tuple[Taint, ...]
) -> None:
    def foreign(taints: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [taint for taint in taints if not OURS.includes(taint["key"], taint["effect"])]

    after = patched_taints(before, patch(*wanted))

    assert foreign(after) == foreign(before)
    mine = {(taint["key"], taint["value"]) for taint in after if taint not in foreign(after)}
    assert mine == {(taint.key, taint.value) for taint in wanted}
    assert len({(taint["key"], taint["effect"]) for taint in after}) == len(after)
    assert patched_taints(after, patch(*wanted)) == after, "a second time changes nothing"
