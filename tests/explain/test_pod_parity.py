"""Every pod of every recorded cluster gets an answer, and the answer agrees with the plan."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resettle.cli.text.explain_pod import headline, pod_text
from resettle.cli.text.plan import Paint
from resettle.explain.cycle import WatchedPlan
from resettle.explain.node import explain_node
from resettle.explain.pod import PodAnswer, answer_for, explain_pod
from resettle.explain.what_if import PlanInputs
from tests.parity.corpus import FILES, Case, cases

pytestmark = pytest.mark.slow

PLAIN = Paint(False)
ONE_IN = 40
"""Of so many refused pods, one is asked what would move it; each answer takes many plans."""


def answers(case: Case) -> Iterator[PodAnswer]:
    snapshot = case.snapshot
    watched = WatchedPlan(
        PlanInputs(case.descheduler, snapshot), [pod.key for pod in snapshot.pods]
    )
    return (answer_for(watched, pod) for pod in snapshot.pods)


@pytest.mark.parametrize("file", FILES)
def test_every_pod_is_explained_and_moves_only_where_the_plan_moves_it(file: str) -> None:
    wrong = []
    for case in cases(file):
        moving = {move.pod.key for move in case.descheduler.draw_plan(case.snapshot).moves}
        for answer in answers(case):
            key, says = answer.pod.key, headline(answer)
            if says.startswith(f"{key} would move off") != (key in moving):
                wrong.append((case.id, says))
            if any(
                not decision.proposals and not decision.not_proposed
                for decision in answer.decisions
            ):
                wrong.append((case.id, f"{key}: a plugin says nothing"))

    assert wrong == []


@pytest.mark.parametrize("file", FILES)
def test_a_refused_pod_shows_what_would_move_it_or_what_is_in_the_way(file: str) -> None:
    refused = [
        (case, answer.pod)
        for case in cases(file)
        for answer in answers(case)
        if answer.refused and answer.proposed
    ]
    texts = {
        f"{case.id} {pod.key}": pod_text(
            explain_pod(PlanInputs(case.descheduler, case.snapshot), pod), PLAIN, 80
        )
        for case, pod in refused[::ONE_IN]
    }

    assert texts
    assert [key for key, text in texts.items() if "\nhint: " not in text] == []


@pytest.mark.parametrize("file", FILES)
def test_the_answer_about_a_node_accounts_for_each_of_its_pods(file: str) -> None:
    for case in list(cases(file))[::8]:
        snapshot = case.snapshot
        for node in snapshot.node_index:
            answer = explain_node(PlanInputs(case.descheduler, snapshot), node)
            not_proposed: dict[tuple[str, str], int] = {}
            for reason in answer.not_proposed:
                whose = (reason.profile, reason.plugin)
                not_proposed[whose] = not_proposed.get(whose, 0) + reason.count
            explained = len(answer.leaving) + sum(reason.count for reason in answer.refused)

            assert answer.pods == len(snapshot.pods_on(node))
            assert all(explained + count == answer.pods for count in not_proposed.values())
