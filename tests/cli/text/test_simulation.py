"""Any story can be told: on a terminal, to a program and as a page."""

from __future__ import annotations

import json
from datetime import timedelta

from hypothesis import given, settings

from resettle.cli.text.plan import Paint
from resettle.cli.text.simulation import simulation_text
from resettle.cli.text.simulation_json import simulation_document
from resettle.simulate.result import SimulationResult, run_simulation
from resettle.testing import World
from resettle.web.simulation_page import simulation_page
from tests.builders import Case, cases
from tests.simulate.harness import planner
from tests.web.test_simulation_page import outline

SOME = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def lived(case: Case, policy: str) -> SimulationResult:
    snapshot = World(case.objects).snapshot()
    descheduler = planner(case.document)
    return run_simulation(policy, descheduler, snapshot, interval=timedelta(minutes=5), cycles=4)


@SOME
@given(cases())
def test_what_is_printed_fits_the_terminal_and_counts_every_move(case: Case) -> None:
    story = lived(case, "policy.yaml")

    text = simulation_text([story], Paint(False), 80)

    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert f"{story.move_count} in 4 cycles" in text
    assert simulation_text([story], Paint(True), 80) != text


@SOME
@given(cases())
def test_programs_are_told_of_every_move(case: Case) -> None:
    story = lived(case, "policy.yaml")

    (run,) = json.loads(json.dumps(simulation_document([story])))["runs"]

    words = [landing["became"] for cycle in run["cycles"] for landing in cycle["landings"]]
    assert len(words) == run["totals"]["moves"] == story.move_count
    assert words.count("returned") == run["totals"]["returned"]
    assert len(run["waiting"]) == run["cycles"][-1]["waiting"]


@SOME
@given(cases())
def test_the_page_is_whole(case: Case) -> None:
    stories = [lived(case, name) for name in ("one.yaml", "other.yaml")]

    found = outline(simulation_page(stories))

    nodes = len(stories[0].loads)
    assert found.classes["cell"] == 2 * nodes * 5
    assert found.counts["tr"] >= sum(story.move_count for story in stories)
