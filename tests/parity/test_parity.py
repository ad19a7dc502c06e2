"""resettle decides as kubernetes-sigs/descheduler does, judged on 560 recorded clusters.

The peer draws lots where it sorts nothing or finds ties. On nine cases our lots fall otherwise than
any of its six recorded runs. For each of these, an order of nodes and pods is named under which our
planner agrees with the record: what differs is the lot, not the rule.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from resettle.framework import Descheduler, Draft
from resettle.model import NodeIndex, Pod, Snapshot
from resettle.model.pod_index import PodIndex
from tests.parity.corpus import FILES, Case, cases

OTHER_LOTS = {
    "a0045": "RemovePodsViolatingInterPodAntiAffinity: which pod of a tied pair goes",
    "a0086": "RemoveDuplicates: which copy on a node counts as the original",
    "a0176": "RemoveDuplicates: which copy on a node counts as the original",
    "a0208": "LowNodeUtilization: which of several pods of equal priority goes",
    "a0315": "RemovePodsViolatingInterPodAntiAffinity: which pod of a tied pair goes",
    "a0356": "RemoveDuplicates: which copy on a node counts as the original",
    "m0002": "RemoveDuplicates and others: which copy counts as the original",
    "m0043": "several strategies: whether two of them pick the same pod",
    "m0073": "several strategies: which of tied pods goes",
}
MOST_ORDERS = 400


def evicted(descheduler: Descheduler, snapshot: Snapshot) -> frozenset[str]:
    return frozenset(move.pod.key for move in descheduler.draw_plan(snapshot).moves)


@pytest.mark.parametrize("file", FILES)
def test_plans_agree_with_the_record(file: str) -> None:
    differing = {
        case.id for case in cases(file) if not case.agrees(evicted(case.descheduler, case.snapshot))
    }

    assert differing == {case.id for case in cases(file) if case.id in OTHER_LOTS}


def all_cases() -> dict[str, Case]:
    return {case.id: case for file in FILES for case in cases(file) if case.id in OTHER_LOTS}


def test_every_difference_is_one_of_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    lots = random.Random(753)

    def drawn_anew(draft: Draft, pods: list[Pod]) -> list[Pod]:
        shuffled = list(pods)
        lots.shuffle(shuffled)
        return shuffled

    monkeypatch.setattr(Draft, "presort", drawn_anew)
    for case in all_cases().values():
        assert len(case.choices) > 1, f"{case.id}: the peer made one choice in all its runs"
        descheduler, snapshot = case.descheduler, case.snapshot
        assert any(
            case.agrees(evicted(descheduler, shuffled(snapshot, lots))) for _ in range(MOST_ORDERS)
        ), f"{case.id}: no order of nodes and pods leads to what the peer did"


def shuffled(snapshot: Snapshot, lots: random.Random) -> Snapshot:
    nodes, pods = list(snapshot.node_index), list(snapshot.pods)
    lots.shuffle(nodes)
    lots.shuffle(pods)
    return replace(snapshot, node_index=NodeIndex(nodes), pod_index=PodIndex(pods))
