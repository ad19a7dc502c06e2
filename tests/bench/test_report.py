"""Figures become tables that a person can read as they are."""

from __future__ import annotations

import pytest

from bench.measure import Cost
from bench.report import (
    Case,
    comparison,
    eviction_table,
    ours_table,
    phase_table,
    typical,
    within_markers,
)

OURS = Cost(1.111, 1.0, 64.4, {"RemoveDuplicates": 1220, "LowNodeUtilization": 1953}, {"start": 90})
UPSTREAM = Cost(50.0, 48.0, 1931.5, {"RemoveDuplicates": 1220, "LowNodeUtilization": 2596})
CASE = Case(1000, 30_000, "on", [OURS], [UPSTREAM])


def test_a_comparison_shows_both_and_their_ratio_beside_the_goal() -> None:
    assert comparison([CASE]) == "\n".join(
        [
            "| cluster                  | nodeFit | program     | wall s "
            "|                    CPU s |         peak MiB | pods evicted |",
            "| ------------------------ | ------- | ----------- | -----: "
            "| -----------------------: | ---------------: | -----------: |",
            "| 1,000 nodes, 30,000 pods | on      | resettle    |   1.11 "
            "|                     1.00 |               64 |        3,173 |",
            "|                          |         | descheduler |  50.00 "
            "|                    48.00 |            1,932 |        3,816 |",
            "|                          |         | ratio       |  45.0× "
            "| 48.0× (goal 60×, missed) | 30.0× (goal 18×) |              |",
        ]
    )


@pytest.mark.parametrize(
    ("cpu", "says"),
    [
        pytest.param(61.0, "61.0× (goal 60×)", id="better than the goal"),
        pytest.param(60.0, "60.0× (goal 60×)", id="exactly the goal"),
        pytest.param(59.0, "59.0× (goal 60×, missed)", id="missed"),
    ],
)
def test_a_missed_goal_is_called_so(cpu: float, says: str) -> None:
    upstream = Cost(50.0, cpu, 1931.5)

    assert says in comparison([Case(1000, 30_000, "on", [OURS], [upstream])])


def test_without_upstream_our_figures_stand_alone() -> None:
    text = comparison([Case(1000, 30_000, "on", [OURS])])

    assert "resettle" in text
    assert "descheduler" not in text
    assert "ratio" not in text


def test_a_size_without_a_goal_has_plain_ratios() -> None:
    assert "goal" not in comparison([Case(300, 9000, "on", [OURS], [UPSTREAM])])


def test_a_remark_stands_below_the_table() -> None:
    upstream = Cost(50.0, 48.0, 1931.5, remark="ended after 50 s")
    *_, last = comparison([Case(1000, 30_000, "on", [OURS], [upstream])]).split("\n\n")

    assert last == "1,000 nodes, 30,000 pods, nodeFit on: the descheduler ended after 50 s."


def test_the_median_of_several_runs_counts() -> None:
    runs = [Cost(wall, wall / 2, wall * 10, {"A": int(wall)}, {"p": wall}) for wall in (9, 1, 2)]

    assert typical(runs) == Cost(2, 1.0, 20, {"A": 2}, {"p": 2})


def test_phases_have_a_column_for_each_case_and_a_line_for_the_rest() -> None:
    assert phase_table([CASE]).splitlines() == [
        "| phase, CPU ms | 1,000 on |",
        "| ------------- | -------: |",
        "| start         |       90 |",
        "| Python itself |      910 |",
    ]


def test_evictions_of_each_strategy_stand_beside_the_peers() -> None:
    alone = Case(5000, 150_000, "off", [OURS])

    assert eviction_table([CASE, alone]).splitlines() == [
        "| pods evicted by    |      1,000 on | 5,000 off |",
        "| ------------------ | ------------: | --------: |",
        "| RemoveDuplicates   | 1,220 / 1,220 |     1,220 |",
        "| LowNodeUtilization | 1,953 / 2,596 |     1,953 |",
    ]


def test_a_hard_cluster_is_listed_by_its_name() -> None:
    cases = [CASE, Case(1000, 30_000, "on", [OURS], hard="own-template")]
    _, _, usual, hard = ours_table(cases, "cluster").splitlines()

    assert usual.startswith("| 1,000 nodes, 30,000 pods |")
    assert hard.startswith("| own-template ")


def test_text_between_markers_is_replaced_and_the_rest_stays() -> None:
    page = "before\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nafter\n"

    assert within_markers(page, "x", "new") == page.replace("old", "new")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("no markers", id="none"),
        pytest.param("<!-- bench:x -->\nopen", id="never closed"),
        pytest.param("<!-- bench:y --><!-- /bench:y -->", id="another name"),
    ],
)
def test_a_page_without_the_markers_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no markers"):
        within_markers(page, "x", "new")
