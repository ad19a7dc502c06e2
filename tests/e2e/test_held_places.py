"""Moves that steer hard or by a gate keep what they promise, with and without a rival."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.migration.account import ControllerAccount
from tests.e2e.migration.held_places import measure, table
from tools.control_plane.api import Api

MOVES = 3
CELLS = 6


def test_replacements_stay_off_their_old_node_and_gated_ones_get_the_place(
    controller_account: ControllerAccount, api: Api, tmp_path: Path
) -> None:
    steerings = ("Hard", "Gate")

    outcomes = measure(api, controller_account, tmp_path, MOVES, CELLS, steerings)

    shown = "\n".join(
        [*table(outcomes, "no rival", steerings), *table(outcomes, "rival", steerings)]
    )
    assert sum(map(len, outcomes.values())) == MOVES * len(outcomes) == MOVES * 16, shown
    for case, found in outcomes.items():
        landed = {outcome.landed for outcome in found}
        if case.scenario == "no rival":
            assert landed == {"reserved"}, f"{case}: {landed}\n{shown}"
        elif case.priority == "Yield":
            # The rival takes such a place before the pod is asked to leave.
            assert landed == {"untouched"}, f"{case}: {landed}\n{shown}"
        elif case.steering == "Gate":
            assert landed == {"reserved"}, f"{case}: {landed}\n{shown}"
        else:
            assert landed <= {"reserved", "lost"}, f"{case}: {landed}\n{shown}"
