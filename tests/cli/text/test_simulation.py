"""Any simulation can be shown: on a terminal, to a program and as a page."""

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
    result = lived(case, "policy.yaml")

    text = simulation_text([result], Paint(False), 80)

    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert f"{result.move_count} in 4 cycles" in text
    assert simulation_text([result], Paint(True), 80) != text


@SOME
@given(cases())
def test_the_document_for_programs_holds_every_move(case: Case) -> None:
    result = lived(case, "policy.yaml")

    (run,) = json.loads(json.dumps(simulation_document([result])))["runs"]

    words = [landing["became"] for cycle in run["cycles"] for landing in cycle["landings"]]
    assert len(words) == run["totals"]["moves"] == result.move_count
    assert words.count("returned") == run["totals"]["returned"]
    assert len(run["waiting"]) == run["cycles"][-1]["waiting"]


@SOME
@given(cases())
def test_the_page_is_whole(case: Case) -> None:
    results = [lived(case, name) for name in ("one.yaml", "other.yaml")]

    page = outline(simulation_page(results))

    nodes = len(results[0].loads)
    assert page.classes["cell"] == 2 * nodes * 5
    assert page.counts["tr"] >= sum(result.move_count for result in results)
