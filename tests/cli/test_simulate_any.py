"""Any story can be told: on a terminal, to a program and as a page."""

from __future__ import annotations

import json
from datetime import timedelta

from hypothesis import given, settings

from resettle.cli.render import Paint
from resettle.cli.report.page import page
from resettle.cli.story_document import stories_document
from resettle.cli.story_text import stories_text
from resettle.simulate.story import Story, told
from resettle.testing import World

from ..simulate.stage import planner
from ..worlds import Case, cases
from .test_simulate_report import outline

SOME = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def lived(case: Case, policy: str) -> Story:
    snapshot = World(case.objects).snapshot()
    descheduler = planner(case.document)
    return told(policy, descheduler, snapshot, interval=timedelta(minutes=5), cycles=4)


@SOME
@given(cases())
def test_what_is_printed_fits_the_terminal_and_counts_every_move(case: Case) -> None:
    story = lived(case, "policy.yaml")

    text = stories_text([story], Paint(False), 80)

    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert f"{story.moves} in 4 cycles" in text
    assert stories_text([story], Paint(True), 80) != text


@SOME
@given(cases())
def test_programs_are_told_of_every_move(case: Case) -> None:
    story = lived(case, "policy.yaml")

    (run,) = json.loads(json.dumps(stories_document([story])))["runs"]

    words = [landing["became"] for cycle in run["cycles"] for landing in cycle["landings"]]
    assert len(words) == run["totals"]["moves"] == story.moves
    assert words.count("returned") == run["totals"]["returned"]
    assert len(run["waiting"]) == run["cycles"][-1]["waiting"]


@SOME
@given(cases())
def test_the_page_is_whole(case: Case) -> None:
    stories = [lived(case, name) for name in ("one.yaml", "other.yaml")]

    found = outline(page(stories))

    nodes = len(stories[0].loads)
    assert found.classes["cell"] == 2 * nodes * 5
    assert found.counts["tr"] >= sum(story.moves for story in stories)
