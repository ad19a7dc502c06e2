"""Streaks: how often a node must be over, and how often not, before that counts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resettle.testing import NOW
from resettle.utilization.history import BandSample, HotNodeCondition, Streak, update_streaks

PATIENCE = HotNodeCondition(over=3, calm=2)


def at(minute: float) -> BandSample:
    return BandSample(True, NOW + timedelta(minutes=minute))


def states_after(series: str, patience: HotNodeCondition = PATIENCE) -> str:
    """Hot (`H`) or calm (`.`) after each sample: `o` over, `-` not, `=` the same one, ` ` none."""
    streaks: dict[str, Streak] = {}
    last = BandSample(False, NOW)
    states = ""
    for minute, sample in enumerate(series, 1):
        now = NOW + timedelta(minutes=minute)
        if sample in "o-":
            last = BandSample(sample == "o", now)
        seen = {} if sample == " " else {"n": last}
        streaks = update_streaks(streaks, seen, patience, now)
        states += "H" if "n" in streaks and streaks["n"].hot else "."
    return states


@pytest.mark.parametrize(
    ("series", "states"),
    [
        pytest.param("oo-ooo", ".....H", id="only in a row"),
        pytest.param("ooo-o--", "..HHHH.", id="calm only in a row, too"),
        pytest.param("o======", ".......", id="the same sample counts once"),
        pytest.param("oo-oo-oo", "........", id="short spikes"),
        pytest.param("oo  o", "....H", id="no sample leaves it as it is"),
        pytest.param("oo      oo", "..........", id="for so long, and then it is forgotten"),
        pytest.param("ooo      ", "..HHHHHH.", id="a hot one is forgotten too"),
        pytest.param("ooo======", "..HHHHHH.", id="nor is an old sample believed for ever"),
    ],
)
def test_a_node_is_hot_after_enough_samples_in_a_row(series: str, states: str) -> None:
    assert states_after(series) == states


def test_one_sample_is_enough_where_one_is_asked_for() -> None:
    assert states_after("-o-", HotNodeCondition(over=1, calm=1)) == ".H."


def test_cycles_that_are_far_apart_count_as_well() -> None:
    streaks: dict[str, Streak] = {}
    for hour in range(3):
        seen = at(hour * 60)
        streaks = update_streaks(streaks, {"n": seen}, PATIENCE, seen.at)

    assert streaks["n"].hot


def test_nodes_do_not_share_their_streaks() -> None:
    streaks: dict[str, Streak] = {}
    for minute in range(3):
        calm = BandSample(False, at(minute).at)
        streaks = update_streaks(streaks, {"b": at(minute), "a": calm}, PATIENCE, calm.at)

    assert {name: streak.hot for name, streak in streaks.items()} == {"a": False, "b": True}
    assert list(streaks) == ["a", "b"]
